"""`Context`: the operations for workflow code. Each method fixes a path and calls one primitive."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Concatenate, Literal, NoReturn, ParamSpec, TypeVar, Unpack, overload

from stepwell.clock import Duration, Instant, Span, span, to_datetime, to_instant
from stepwell.errors import Failure, InvalidOptionError
from stepwell.ids import EventId, RunId
from stepwell.logs import FIELDS
from stepwell.model.attributes import AttributeValue
from stepwell.model.business_hours import BusinessHours, open_span
from stepwell.model.events import Deliver
from stepwell.model.messages import IfMissing
from stepwell.model.run_retries import previous_of, retry_of
from stepwell.model.schedules import Scheduled, scheduled_of
from stepwell.model.states import EntryKind
from stepwell.model.topics import Event
from stepwell.model.waits import Since
from stepwell.replay.branches import check_branches, check_choice
from stepwell.replay.carried_undos import check_findable
from stepwell.replay.operations import ChildOperation, Operation
from stepwell.replay.primitives.ask import Asking
from stepwell.replay.primitives.checkpoint import run_checkpoint
from stepwell.replay.primitives.child import (
    ChildOptions,
    ChildStart,
    OnParentClose,
    RunOptions,
    SpawnOptions,
    Started,
    StartOptions,
    await_child,
    run_child,
    run_spawn,
    undo_step,
)
from stepwell.replay.primitives.cleanup import Cleanup
from stepwell.replay.primitives.describe import add_tags, remove_tags, set_attributes, set_title
from stepwell.replay.primitives.effect import Given, bound_arguments, named_effect, run_effect
from stepwell.replay.primitives.emit import name_and_payload, run_emit
from stepwell.replay.primitives.handle import AtEnd, Handling
from stepwell.replay.primitives.join import ON_ERROR, OnError, run_join
from stepwell.replay.primitives.loop import Break, Continue, LoopOptions, run_loop
from stepwell.replay.primitives.map import check_map, run_map
from stepwell.replay.primitives.observe import Observed
from stepwell.replay.primitives.once import run_once
from stepwell.replay.primitives.publish import State, publish_state
from stepwell.replay.primitives.race import FIRST, First, Winner, run_race
from stepwell.replay.primitives.receive import NO_DEFAULT, Message, check_default, due_of, run_receive, run_receive_many
from stepwell.replay.primitives.removed import declare_removed
from stepwell.replay.primitives.send import cancel_of, publish_on, run_send, signal_to
from stepwell.replay.primitives.sleep import Slept, run_sleep
from stepwell.replay.primitives.step import Tried, run_step, run_tried
from stepwell.replay.primitives.stream import Stream
from stepwell.replay.primitives.topic import run_topic
from stepwell.replay.primitives.topic import topic as topic_awaited
from stepwell.replay.primitives.version import pin_version
from stepwell.replay.primitives.wait_any import Arrived, Awaited, check_awaited, run_wait_any
from stepwell.replay.scopes import Scope
from stepwell.replay.signals import Request, Signal, wanted
from stepwell.replay.step_context import StepContext
from stepwell.replay.steps import Step, named_step
from stepwell.replay.suspend import ContinueAsNew
from stepwell.replay.workflows import Workflow

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
D = TypeVar("D")
In = TypeVar("In")
Out = TypeVar("Out")
E = TypeVar("E", bound=Event)

Compensations = Literal["keep", "drop"]

_LOG = logging.getLogger("stepwell.workflow")
_STEP = EntryKind.STEP


class Previous:
    """The predecessor in a chain of continue-as-new."""

    def __init__(self, run_id: RunId, started_at: datetime, finished_at: datetime) -> None:
        self.run_id = run_id
        self.started_at = started_at
        self.finished_at = finished_at


class Context:
    """Every operation of a workflow. An operation records its result at its path; a replay returns the record and runs
    nothing.

    A name that is used again in its scope (the workflow, a branch, an iteration of a loop) is numbered: `charge`,
    `charge#2`, and so on. `@workflow(names="unique")` and `@step(unique=True)` reject a second use instead.
    `repeat=` is deprecated and has no effect.
    """

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    # --- who and when ---

    @property
    def run_id(self) -> RunId:
        """The id of this run."""
        return self._scope.turn.run.run_id

    @property
    def key(self) -> str | None:
        """The business key, normalised."""
        return self._scope.turn.run.key

    @property
    def workflow(self) -> str:
        """The name of this workflow."""
        return self._scope.turn.run.workflow

    @property
    def workflow_version(self) -> int:
        """The version this run was started with."""
        return self._scope.turn.run.version

    @property
    def generation(self) -> int:
        """1 for the first run of a chain, and one more after each continue-as-new, and for each further attempt."""
        return self._scope.turn.run.generation

    @property
    def attempt(self) -> int:
        """Which attempt at the whole run this is: 1, and one more each time the run failed and is tried again."""
        return retry_of(self._scope.turn.run).attempt

    @property
    def previous(self) -> Previous | None:
        """The predecessor in the chain, with both of its times. A further attempt sees that of the first attempt."""
        before = previous_of(self._scope.turn.run)
        return before and Previous(before.run_id, to_datetime(before.started_at), to_datetime(before.finished_at))

    @property
    def schedule(self) -> Scheduled | None:
        """The schedule that started this run, its fire time and the one before; None if no schedule did. A run that
        continues as new keeps it, a child does not.
        """
        return scheduled_of(self._scope.turn.run.attributes)

    @property
    def started_at(self) -> datetime:
        """When this run began: the `started_at` that its successor sees in `previous`."""
        run = self._scope.turn.run
        return to_datetime(run.started_at or run.created_at)

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that this run was started with: `engine.start(flow, input, headers={"user": "ann"})`.

        Runs that this run starts, and runs that continue it, get them, too.
        """
        return MappingProxyType(self._scope.turn.headers)

    def now(self) -> datetime:
        """When the last result reached this scope, by the store's clock: the same on every replay."""
        return to_datetime(self._scope.read_time())

    def random(self) -> float:
        """A number in [0, 1), the same on every replay."""
        return int.from_bytes(self._scope.draw(7), "big") / (1 << 56)

    def uuid(self) -> uuid.UUID:
        """A random UUID, the same on every replay."""
        return self._scope.draw_uuid()

    @property
    def is_replaying(self) -> bool:
        """Whether this code repeats what an earlier turn did. For diagnostics only: never branch on it."""
        return self._scope.turn.is_replaying

    @property
    def log(self) -> logging.Logger | logging.LoggerAdapter[logging.Logger]:
        """A logger that writes nothing during a replay. Its records carry run, key, workflow and path as fields."""
        if self.is_replaying:
            return SILENT
        scope, run = self._scope, self._scope.turn.run
        path = scope.turn.journal.names.text(scope.location) or None
        place = (run.run_id, run.key, run.workflow, path, None)
        return _Placed(_LOG, dict(zip(FIELDS, place, strict=True)))

    # --- steps ---

    @overload
    def step(self, fn: Step[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Operation[R]: ...
    @overload
    def step(
        self, fn: Callable[Concatenate[StepContext, P], Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Operation[R]: ...
    @overload
    def step(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> Operation[R]: ...
    @overload
    def step(
        self, fn: Callable[Concatenate[StepContext, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Operation[R]: ...
    @overload
    def step(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Operation[R]: ...
    @overload
    def step(self, name: str, fn: Step[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Operation[R]: ...
    @overload
    def step(
        self,
        name: str,
        fn: Callable[Concatenate[StepContext, P], Awaitable[R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Operation[R]: ...
    @overload
    def step(
        self, name: str, fn: Callable[Concatenate[StepContext, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Operation[R]: ...
    @overload
    def step(self, name: str, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> Operation[R]: ...
    @overload
    def step(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Operation[R]: ...
    def step(self, fn: Any, /, *args: Any, **kwargs: Any) -> Operation[Any]:
        """Run a function as a step: `ctx.step(charge, order)` or `ctx.step("charge", fn, order)`.

        All keywords belong to the function. Raises `StepFailed` if it failed permanently.
        """
        step, name, args = named_step(fn, args)
        scope = self._scope
        options = step.options_
        location, entry = scope.place_call(
            name, _STEP, args, kwargs, unique=options.unique, fingerprint=options.fingerprint
        )
        return Operation(scope.turn, location, partial(run_step, scope, location, entry, step, args, kwargs))

    @overload
    def try_step(self, fn: Step[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Operation[Tried[R]]: ...
    @overload
    def try_step(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> Operation[Tried[R]]: ...
    @overload
    def try_step(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Operation[Tried[R]]: ...
    @overload
    def try_step(
        self, name: str, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Operation[Tried[R]]: ...
    @overload
    def try_step(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Operation[Tried[R]]: ...
    def try_step(self, fn: Any, /, *args: Any, **kwargs: Any) -> Operation[Tried[Any]]:
        """As `step`, but a final failure is a value. A `Rollback` and a cancellation are still raised."""
        scope, inner = self._scope, self.step(fn, *args, **kwargs)
        return Operation(scope.turn, inner.location, lambda: run_tried(scope, inner))

    def once(self, name: str, producer: Callable[[], R], *, repeat: bool = False) -> Operation[R]:
        """Compute a local value once and record it: `ref = await ctx.once("ref", make_reference)`.

        If the worker dies before the value is recorded, it is computed again; no step has seen the first value.
        """
        location, entry = self._scope.place(name, EntryKind.ONCE, repeat=repeat)
        return Operation(self._scope.turn, location, lambda: run_once(self._scope, location, entry, producer))

    def fail(self, reason: str, data: Any = None) -> NoReturn:
        """End with a planned business failure: the reason is kept verbatim, nothing is retried, compensations run."""
        raise Failure(reason, data)

    # --- time ---

    def sleep(self, name: str, duration: Duration, *, repeat: bool = False) -> Operation[Slept]:
        """Wait for a duration. The deadline is fixed at the first visit; a replay does not extend it."""
        lasts = span(duration, what=f"sleep {name!r}")
        location, entry = self._scope.place(name, EntryKind.SLEEP, repeat=repeat)
        return Operation(
            self._scope.turn, location, lambda: run_sleep(self._scope, location, entry, partial(_after, lasts), lasts)
        )

    def sleep_until(self, name: str, when: datetime, *, repeat: bool = False) -> Operation[Slept]:
        """Wait until a point in time; if it is in the past, return at once."""
        until = to_instant(when, what=f"sleep {name!r}")
        location, entry = self._scope.place(name, EntryKind.SLEEP, repeat=repeat)
        return Operation(self._scope.turn, location, lambda: run_sleep(self._scope, location, entry, lambda _: until))

    def sleep_business(
        self, name: str, hours: float | str | timedelta, calendar: BusinessHours, *, repeat: bool = False
    ) -> Operation[Slept]:
        """Wait until so many business hours have passed: `await ctx.sleep_business("review", 8, office)`.

        `hours` is a number of hours, or a duration such as "90m"; 0 waits until the office is open. The deadline is
        fixed at the first visit: a calendar that changes later does not move it.
        """
        lasts, scope = open_span(hours), self._scope
        if not isinstance(calendar, BusinessHours):
            raise InvalidOptionError(
                f"the calendar is {calendar!r}",
                where=f"ctx.sleep_business({name!r})",
                fix='pass BusinessHours({"mon-fri": "09:00-17:00"}, zone="Europe/Berlin")',
            )
        location, entry = scope.place(name, EntryKind.SLEEP, repeat=repeat)
        return Operation(
            scope.turn, location, lambda: run_sleep(scope, location, entry, lambda now: calendar.due_at(now, lasts))
        )

    # --- messages ---

    @overload
    def receive(
        self,
        signal: Signal[T],
        /,
        *,
        timeout: Duration | None = None,
        until: datetime | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Operation[Message[T]]: ...
    @overload
    def receive(
        self,
        signal: Signal[T],
        /,
        *,
        default: D,
        timeout: Duration | None = None,
        until: datetime | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Operation[Message[T] | D]: ...
    @overload
    def receive(
        self,
        first: Signal[T],
        second: Signal[S],
        /,
        *,
        timeout: Duration | None = None,
        until: datetime | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Operation[Message[T] | Message[S]]: ...
    @overload
    def receive(
        self,
        *signals: str | Signal[Any],
        timeout: Duration | None = None,
        until: datetime | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Operation[Message[Any]]: ...
    @overload
    def receive(
        self,
        *signals: str | Signal[Any],
        default: D,
        timeout: Duration | None = None,
        until: datetime | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Operation[Message[Any] | D]: ...
    def receive(
        self,
        *signals: str | Signal[Any],
        default: Any = NO_DEFAULT,
        timeout: Duration | None = None,
        until: datetime | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Operation[Any]:
        """Take the oldest pending signal with one of these names, or any signal; `Signal[...]` types the payload.

        At the deadline (`timeout` from the first visit, or `until`) it returns `default`, or raises `WaitTimeout`. Its
        name on the path is `name`; by default the names of the signals.
        """
        takes, due, scope = wanted(signals), due_of(timeout, until), self._scope
        check_default(default, due)
        location, entry = scope.place(name or "|".join(takes.names) or "receive", EntryKind.RECEIVE, repeat=repeat)
        return Operation(scope.turn, location, lambda: run_receive(scope, location, entry, takes, due, default))

    @overload
    def receive_many(
        self,
        signal: Signal[T],
        /,
        *,
        count: int = 100,
        timeout: Duration | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Operation[list[Message[T]]]: ...
    @overload
    def receive_many(
        self,
        *signals: str | Signal[Any],
        count: int = 100,
        timeout: Duration | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Operation[list[Message[Any]]]: ...
    def receive_many(
        self,
        *signals: str | Signal[Any],
        count: int = 100,
        timeout: Duration | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Operation[list[Message[Any]]]:
        """Take up to `count` pending signals as soon as there is one; an empty list at the deadline."""
        if count < 1:
            raise InvalidOptionError(f"count is {count}", where="ctx.receive_many", fix="pass count=1 or more")
        takes, due, scope = wanted(signals), due_of(timeout, None), self._scope
        path = name or "|".join(takes.names) or "receive_many"
        location, entry = scope.place(path, EntryKind.RECEIVE_MANY, repeat=repeat)
        return Operation(scope.turn, location, lambda: run_receive_many(scope, location, entry, takes, count, due))

    @property
    def signals(self) -> Observed:
        """Read the mailbox without taking anything: `latest`, `all`, `has`."""
        return Observed(self._scope)

    @overload
    def handle(
        self,
        request: Request[T, R],
        handler: Callable[[Context, T], Awaitable[R]],
        *,
        validate: Callable[[T], object] | None = None,
        at_end: AtEnd = "wait",
        name: str | None = None,
    ) -> Handling: ...
    @overload
    def handle(
        self,
        request: Signal[T],
        handler: Callable[[Context, T], Awaitable[Any]],
        *,
        validate: Callable[[T], object] | None = None,
        at_end: AtEnd = "wait",
        name: str | None = None,
    ) -> Handling: ...
    @overload
    def handle(
        self,
        request: str,
        handler: Callable[[Context, Any], Awaitable[Any]],
        *,
        validate: Callable[[Any], object] | None = None,
        at_end: AtEnd = "wait",
        name: str | None = None,
    ) -> Handling: ...
    def handle(
        self,
        request: str | Signal[Any],
        handler: Callable[[Context, Any], Awaitable[Any]],
        *,
        validate: Callable[[Any], object] | None = None,
        at_end: AtEnd = "wait",
        name: str | None = None,
    ) -> Handling:
        """Answer requests while the workflow continues: `ctx.handle(reserve, on_reserve)`.

        Each request runs `await handler(ctx, payload)` in a branch of its own (`handle reserve/~0`), at once; what it
        returns is the reply, and an exception refuses the request. `validate` rejects a payload by raising, before the
        request is taken; it may look at variables of the workflow. The run waits for requests in progress before it
        ends; with `at_end="cancel"` it cancels and refuses them.
        """
        return Handling(self._scope, name, request, handler, validate, at_end)

    @overload
    def topic(
        self,
        topic: type[E],
        *,
        where: Mapping[str, Any] | None = None,
        since: Since = "wait",
        timeout: Duration | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Operation[E]: ...
    @overload
    def topic(
        self,
        topic: str,
        *,
        where: Mapping[str, Any] | None = None,
        since: Since = "wait",
        timeout: Duration | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Operation[Any]: ...
    def topic(
        self,
        topic: type[Event] | str,
        *,
        where: Mapping[str, Any] | None = None,
        since: Since = "wait",
        timeout: Duration | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Operation[Any]:
        """Wait for an event of a topic: `shipped = await ctx.topic(Shipped, where={"order": order.id})`.

        It takes an event published after the wait was stored. With `since="start"` or `"all"` it first takes the oldest
        event that the topic keeps (since this run's start, or at all) and that this run has not received yet. Raises
        `WaitTimeout` at the deadline.
        """
        awaited = topic_awaited(topic, where=where, since=since)
        within = None if timeout is None else span(timeout, what="timeout")
        scope = self._scope
        location, entry = scope.place(name or awaited.topic, EntryKind.TOPIC, repeat=repeat)
        return Operation(scope.turn, location, lambda: run_topic(scope, location, entry, awaited, within))

    def wait_any(self, name: str = "wait_any", /, *, repeat: bool = False, **awaited: Awaited) -> Operation[Arrived]:
        """Wait for the first of several things: `ctx.wait_any(answer=signal("answer"), late=timer("3d"))`.

        The first to arrive is recorded. A later signal or event stays pending for the next operation that waits for it.
        """
        check_awaited(awaited)
        scope = self._scope
        location, entry = scope.place(name, EntryKind.WAIT_ANY, repeat=repeat)
        return Operation(scope.turn, location, lambda: run_wait_any(scope, location, entry, awaited))

    def emit(
        self, event: str | Event, payload: Any = None, *, name: str | None = None, repeat: bool = False
    ) -> Operation[EventId]:
        """Emit an event to the engine's sinks; returns its id, which is the same however often it is delivered.

        Pass a name and a payload, or a typed event: `ctx.emit("paid", {...})`, `ctx.emit(Paid(order="42"))`. The event
        is published with the commit that records it, before the next step begins; a replay emits nothing. Its name on
        the path is `name`; by default the event's name. Raises in this line if the payload cannot be encoded.
        """
        scope = self._scope
        called, given = name_and_payload(event, payload, scope.turn.run.workflow)
        location, entry = scope.place(name or called, EntryKind.EMIT, repeat=repeat)
        return Operation(scope.turn, location, lambda: run_emit(scope, location, entry, called, given))

    # --- to clients, while it runs ---

    def publish_state(self, value: Any) -> None:
        """Show a value to clients, which read it with `engine.runs.state(run)`. It replaces the previous value."""
        publish_state(self._scope, "", value)

    @property
    def state(self) -> State:
        """Named values for clients: `ctx.state["progress"] = 0.5`, read with `engine.runs.state(run, "progress")`."""
        return State(self._scope)

    def stream(self, name: str) -> Stream:
        """A durable output that clients read by offset: `await ctx.stream("log").append(line)`."""
        return Stream(self._scope, name)

    # --- what people find it by ---

    def set_attributes(self, attributes: Mapping[str, AttributeValue | None] | None = None, /, **named: Any) -> None:
        """Set attributes of this run: `ctx.set_attributes(region="eu", amount=Decimal("42"), old=None)`.

        Values are text, numbers, booleans, or times with a time zone; None removes an attribute. People find and sort
        runs by them (docs/attributes.md). They are written with the run's next commit and carried by
        `continue_as_new`. Raises `InvalidOptionError` for a 33rd attribute, and for one whose type would change. They
        are stored in plain, also if payloads are encrypted: they must not be secret.
        """
        set_attributes(self._scope, {**(attributes or {}), **named})

    def set_title(self, title: str | None) -> None:
        """Set the title of this run, one line that lists show; None removes it. It is stored in plain."""
        set_title(self._scope, title)

    def add_tags(self, *names: str, **values: str) -> None:
        """Add tags to those that the run has: `ctx.add_tags("vip", team="payments")`. They are stored in plain."""
        add_tags(self._scope, names, values)

    def remove_tags(self, *names: str) -> None:
        """Remove tags from this run, with or without a value; a name that it does not have changes nothing."""
        remove_tags(self._scope, names)

    # --- parallel ---

    def join(
        self,
        name: str,
        branches: Mapping[str, Callable[[Context], Awaitable[R]]],
        *,
        on_error: OnError = "wait_all",
        repeat: bool = False,
    ) -> Operation[dict[str, R]]:
        """Run all branches at once; returns their results by name.

        Raises `JoinError` with the failures once all branches have ended, or with `on_error="fail_fast"` at the first
        failure, which cancels the other branches.
        """
        check_branches("join", branches)
        check_choice("on_error", on_error, ON_ERROR)
        location, entry = self._scope.place(name, EntryKind.JOIN, repeat=repeat)
        return Operation(self._scope.turn, location, lambda: run_join(self._scope, location, entry, branches, on_error))

    def map(
        self,
        name: str,
        function: Callable[[Context, T], Awaitable[R]],
        items: Iterable[T],
        *,
        limit: int = 100,
        on_error: OnError = "wait_all",
        repeat: bool = False,
    ) -> Operation[list[R]]:
        """Run a function over many items, at most `limit` at once; returns the results in the order of the items.

        Each item has its own scope (`name/~3`) and is recorded when it ends. Raises `JoinError` with the failures by
        number; `on_error` is as for `join`.
        """
        check_map(limit)
        check_choice("on_error", on_error, ON_ERROR)
        scope, listed = self._scope, tuple(items)
        location, entry = scope.place(name, EntryKind.MAP, repeat=repeat)
        return Operation(
            scope.turn, location, lambda: run_map(scope, location, entry, function, listed, limit, on_error)
        )

    def race(
        self,
        name: str,
        branches: Mapping[str, Callable[[Context], Awaitable[Any]]],
        *,
        first: First = "success",
        repeat: bool = False,
    ) -> Operation[Winner]:
        """Run all branches at once; the first to succeed wins, and the others are cancelled.

        Raises `RaceError` if all fail. With `first="settled"` the first branch to end decides; if it failed, its error
        is raised.
        """
        check_branches("race", branches)
        check_choice("first", first, FIRST)
        location, entry = self._scope.place(name, EntryKind.RACE, repeat=repeat)
        return Operation(self._scope.turn, location, lambda: run_race(self._scope, location, entry, branches, first))

    def loop(
        self,
        name: str,
        body: Callable[[Context, S], Awaitable[Continue[S] | Break[R] | None]],
        state: S,
        *,
        commit_every: int = 1,
        trim_every: int = 20,
        keep: int = 20,
        repeat: bool = False,
    ) -> Operation[R]:
        """Iterate with durable state until the body returns `Break(value)`.

        The state is committed every `commit_every` iterations. Every `trim_every` iterations, the history of all but
        the last `keep` iterations is removed.
        """
        options = LoopOptions(commit_every, trim_every, keep)
        location, entry = self._scope.place(name, EntryKind.LOOP, repeat=repeat)
        return Operation(
            self._scope.turn, location, lambda: run_loop(self._scope, location, entry, body, state, options)
        )

    # --- other runs ---

    @overload
    def child(
        self,
        workflow: Workflow[None, Out],
        *,
        compensate: Callable[..., Any] | None = None,
        **options: Unpack[ChildOptions],
    ) -> ChildOperation[Out]: ...
    @overload
    def child(
        self,
        workflow: Workflow[In, Out],
        input: In,
        *,
        compensate: Callable[..., Any] | None = None,
        **options: Unpack[ChildOptions],
    ) -> ChildOperation[Out]: ...
    @overload
    def child(
        self,
        workflow: str,
        input: Any = None,
        *,
        compensate: Callable[..., Any] | None = None,
        **options: Unpack[ChildOptions],
    ) -> ChildOperation[Any]: ...
    def child(
        self,
        workflow: Workflow[Any, Any] | str,
        input: Any = None,
        *,
        name: str | None = None,
        repeat: bool = False,
        fingerprint: bool = True,
        compensate: Callable[..., Any] | None = None,
        **options: Unpack[SpawnOptions],
    ) -> ChildOperation[Any]:
        """Start a child and wait for its result. Raises `ChildFailed` if it does not complete.

        `compensate` undoes a child that completed: it gets the input and the result, as many as it takes.
        Await `.outcome()` to get a failure as a value. A cancel of this run cancels the child. If this run fails, an
        active child continues; with `on_parent_close="cancel"` it is cancelled, with compensation.

        The workflow may be given by name, as in `engine.start`; its result is plain JSON then. `key`, `delay`,
        `priority`, `tags`, `attributes`, `title`, `deadline` and `max_suspend` are those of `engine.start`. Without
        `version`, the newest one that this worker knows is started.
        """
        scope, how, started = self._scope, ChildStart.of(options, "child"), Started.of(workflow, "child")
        undone = None if compensate is None else undo_step(started, compensate)
        location, entry = scope.place_call(
            name or started.name, EntryKind.CHILD, (input,), {}, fingerprint=fingerprint, repeat=repeat
        )
        return ChildOperation(
            scope.turn,
            location,
            lambda: run_child(scope, location, entry, started, input, how, undone=undone),
            ended=lambda: await_child(scope, location, started, input, how),
            output_hint=started.output_hint,
        )

    def children(
        self,
        workflow: Workflow[In, Out],
        inputs: Iterable[In],
        *,
        name: str | None = None,
        on_parent_close: OnParentClose = "leave",
    ) -> Operation[list[Out]]:
        """Start a child for each input and wait for all of them; returns their results in the order of the inputs.

        Raises `JoinError` with the failures by number, once all have ended.
        """

        async def one(ctx: Context, input: Any) -> Any:
            return await ctx.child(workflow, input, on_parent_close=on_parent_close)

        one.__annotations__["return"] = workflow.output_hint
        listed = tuple(inputs)
        return self.map(name or f"{workflow.name}s", one, listed, limit=max(1, len(listed)))

    @overload
    def spawn(self, workflow: Workflow[None, Any], **options: Unpack[ChildOptions]) -> Operation[RunId]: ...
    @overload
    def spawn(self, workflow: Workflow[In, Any], input: In, **options: Unpack[ChildOptions]) -> Operation[RunId]: ...
    @overload
    def spawn(self, workflow: str, input: Any = None, **options: Unpack[ChildOptions]) -> Operation[RunId]: ...
    def spawn(
        self,
        workflow: Workflow[Any, Any] | str,
        input: Any = None,
        *,
        name: str | None = None,
        repeat: bool = False,
        fingerprint: bool = True,
        **options: Unpack[SpawnOptions],
    ) -> Operation[RunId]:
        """Start a child without waiting for it; returns its id. By default it continues however this run ends.

        With `on_parent_close="cancel"` it is cancelled (with compensation) when this run is cancelled, begins to fail,
        or ends in any other way, also by completing or continuing as new. The other options are those of `child`.
        """
        scope, how, started = self._scope, ChildStart.of(options, "spawn"), Started.of(workflow, "spawn")
        location, entry = scope.place_call(
            name or started.name, EntryKind.SPAWN, (input,), {}, fingerprint=fingerprint, repeat=repeat
        )
        return Operation(scope.turn, location, lambda: run_spawn(scope, location, entry, started, input, how))

    @overload
    def start(self, workflow: Workflow[None, Any], **options: Unpack[RunOptions]) -> Operation[RunId]: ...
    @overload
    def start(self, workflow: Workflow[In, Any], input: In, **options: Unpack[RunOptions]) -> Operation[RunId]: ...
    @overload
    def start(self, workflow: str, input: Any = None, **options: Unpack[RunOptions]) -> Operation[RunId]: ...
    def start(
        self,
        workflow: Workflow[Any, Any] | str,
        input: Any = None,
        *,
        name: str | None = None,
        repeat: bool = False,
        fingerprint: bool = True,
        **options: Unpack[StartOptions],
    ) -> Operation[RunId]:
        """Start a run that is not a child: nothing that happens to this run reaches it. Returns its id.

        It is created with the commit that records it. If another run has its `key`, it fails at once. The options are
        those of `child`; `done(run_id)` waits for it.
        """
        scope, how, started = self._scope, ChildStart.of(options, "start"), Started.of(workflow, "start")
        kind = EntryKind.START
        location, entry = scope.place_call(
            name or started.name, kind, (input,), {}, fingerprint=fingerprint, repeat=repeat
        )
        return Operation(scope.turn, location, lambda: run_spawn(scope, location, entry, started, input, how, kind))

    @overload
    def signal(
        self,
        target: str,
        signal: Signal[T],
        payload: T,
        /,
        *,
        dedup_key: str | None = None,
        if_missing: IfMissing = "hold",
        name: str | None = None,
    ) -> Operation[None]: ...
    @overload
    def signal(
        self,
        target: str,
        signal: str,
        payload: Any = None,
        /,
        *,
        dedup_key: str | None = None,
        if_missing: IfMissing = "hold",
        name: str | None = None,
    ) -> Operation[None]: ...
    def signal(
        self,
        target: str,
        signal: str | Signal[Any],
        payload: Any = None,
        /,
        *,
        dedup_key: str | None = None,
        if_missing: IfMissing = "hold",
        name: str | None = None,
    ) -> Operation[None]:
        """Send a signal to another run (by id or key): `await ctx.signal(order.id, "paid", receipt)`.

        It is sent with the commit that records it, once, and this returns before it is delivered. What one run sends
        arrives in its order. Without an active run, the signal is held for the next run of that key, or dropped
        (`if_missing="drop"`). What cannot be delivered, such as a signal to the id of an ended run, becomes a dead
        letter (`engine.outbox.list_dead`). Its name on the path is `name`; by default the name of the signal.
        """
        scope = self._scope
        called, make = signal_to(target, signal, payload, dedup_key=dedup_key, if_missing=if_missing)
        location, entry = scope.place(name or called, EntryKind.SIGNAL)
        return Operation(scope.turn, location, lambda: run_send(scope, location, entry, EntryKind.SIGNAL, make))

    @overload
    def ask(
        self,
        target: str,
        request: Request[T, R],
        payload: T,
        /,
        *,
        timeout: Duration | None = None,
        name: str | None = None,
    ) -> Operation[R]: ...
    @overload
    def ask(
        self,
        target: str,
        request: Signal[T],
        payload: T,
        /,
        *,
        timeout: Duration | None = None,
        name: str | None = None,
    ) -> Operation[Any]: ...
    @overload
    def ask(
        self,
        target: str,
        request: str,
        payload: Any = None,
        /,
        *,
        timeout: Duration | None = None,
        name: str | None = None,
    ) -> Operation[Any]: ...
    def ask(
        self,
        target: str,
        request: str | Signal[Any],
        payload: Any = None,
        /,
        *,
        timeout: Duration | None = None,
        name: str | None = None,
    ) -> Operation[Any]:
        """Ask another run (by id or key), and wait for its answer: `price = await ctx.ask("prices", quote, item)`.

        Raises `AskRefused` if the run refuses, `Unanswered` if there is no such run or it ends without a reply, and
        `WaitTimeout` at the deadline; the run may still read the question then. While the other run is paused, this
        waits. A child of stepwell's own (`stepwell.ask`) waits for the answer, and is cancelled with this run.
        """
        scope, asking = self._scope, Asking(target, request, payload, timeout)
        given = (asking.target, asking.question.name, payload)
        location, entry = scope.place_call(name or asking.question.name, EntryKind.CHILD, given, {})
        return Operation(scope.turn, location, lambda: asking.run(scope, location, entry))

    def cancel(
        self, target: str, reason: str = "", *, compensate: bool = True, name: str | None = None
    ) -> Operation[None]:
        """Cancel another run (by id or key), as `engine.cancel` does, with the commit that records this.

        This returns before the other run is cancelled. If that run has ended, nothing happens; if there never was one,
        the cancel becomes a dead letter.
        """
        scope, make = self._scope, cancel_of(target, reason, compensate=compensate)
        location, entry = scope.place(name or "cancel", EntryKind.CANCEL)
        return Operation(scope.turn, location, lambda: run_send(scope, location, entry, EntryKind.CANCEL, make))

    def publish(
        self,
        topic: str | Event | type[Event],
        payload: Any = None,
        *,
        deliver: Deliver = "all",
        retain: Duration | bool | None = None,
        name: str | None = None,
    ) -> Operation[None]:
        """Publish an event to the runs that wait for it, as `engine.publish` does, with the commit that records this.

        This returns before the event is published. `emit` is for sinks, `publish` for topics.
        """
        scope = self._scope
        called, make = publish_on(topic, payload, deliver=deliver, retain=retain)
        location, entry = scope.place(name or called, EntryKind.PUBLISH)
        return Operation(scope.turn, location, lambda: run_send(scope, location, entry, EntryKind.PUBLISH, make))

    @overload
    def continue_as_new(self, input: Any = None, *, compensations: Compensations = "keep") -> NoReturn: ...
    @overload
    def continue_as_new(
        self, input: In, workflow: Workflow[In, Any], *, compensations: Compensations = "keep"
    ) -> NoReturn: ...
    def continue_as_new(
        self,
        input: Any = None,
        workflow: Workflow[Any, Any] | None = None,
        *,
        compensations: Compensations = "keep",
    ) -> NoReturn:
        """End this run and continue as a new run with the same key, atomically. Unread signals move to the new run.

        So do pending compensations: the new run runs them after its own. `compensations="drop"` drops them. Raises
        `InvalidOptionError` if the new run could not find a compensation: it must be a function at the top of a module.
        """
        if compensations not in ("keep", "drop"):
            raise InvalidOptionError(f"compensations is {compensations!r}", fix='use "keep" or "drop"')
        if compensations == "keep":
            check_findable(self._scope.turn.journal)
        raise ContinueAsNew(input, workflow, keeps_undos=compensations == "keep")

    # --- undoing ---

    def rollback_checkpoint(self, name: str, *, repeat: bool = False) -> Operation[None]:
        """Set a checkpoint: `raise Rollback(to=name)` undoes only the steps after it."""
        location, entry = self._scope.place(name, EntryKind.CHECKPOINT, repeat=repeat)
        return Operation(self._scope.turn, location, lambda: run_checkpoint(self._scope, location, entry))

    @overload
    def compensate_with(self, fn: Step[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Operation[None]: ...
    @overload
    def compensate_with(
        self, fn: Callable[Concatenate[Given, P], Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> Operation[None]: ...
    @overload
    def compensate_with(self, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Operation[None]: ...
    @overload
    def compensate_with(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Operation[None]: ...
    def compensate_with(self, fn: Any, /, *args: Any, **kwargs: Any) -> Operation[None]:
        """Register what undoes an effect outside of steps, before it happens: `await ctx.compensate_with(delete, at)`.

        A rollback calls the function with these arguments, in its place among the compensations of steps. It may take a
        `Context` first. The registration is durable before the next step begins.
        """
        fn, name, given = named_effect("ctx.compensate_with", fn, args)
        passed = bound_arguments("ctx.compensate_with", fn, given, kwargs)
        scope = self._scope
        location, entry = scope.place(name, EntryKind.EFFECT)
        return Operation(scope.turn, location, lambda: run_effect(scope, location, entry, fn, passed))

    @overload
    def cleanup(self, fn: Step[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Cleanup: ...
    @overload
    def cleanup(self, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Cleanup: ...
    @overload
    def cleanup(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Cleanup: ...
    def cleanup(self, fn: Any, /, *args: Any, **kwargs: Any) -> Cleanup:
        """A block whose clean-up runs on every way out of it: `async with ctx.cleanup(release, lock): ...`.

        The function runs as a step when the block ends, fails, loses a race or runs out of time; and as a compensation
        if the run is cancelled or meets its deadline inside of the block. Only `cancel(compensate=False)` skips it.
        """
        step, name, given = named_step(fn, args)
        return Cleanup(self._scope, name, step, given, kwargs)

    # --- changing code ---

    def version(self, name: str, latest: int) -> int:
        """The version of the code at this place: `latest` for a run that reaches it for the first time, 1 for a run
        that had passed the place before this call was added.
        """
        if latest < 1:
            raise InvalidOptionError(f"version {latest} of {name!r}", where="ctx.version", fix="use 1 or more")
        return pin_version(self._scope, name, latest)

    def patched(self, name: str) -> bool:
        """Whether this run takes the new code: true for a run that reaches this place for the first time."""
        return pin_version(self._scope, name, 2) >= 2

    def deprecated(self, name: str) -> None:
        """Declare that every run has the patch now; runs that recorded it are accepted."""
        declare_removed(self._scope, name, "version")

    def removed(self, name: str, kind: str) -> None:
        """Declare that an operation of this name and kind ("step", "sleep", …) was removed from the code."""
        declare_removed(self._scope, name, kind)


def _after(lasts: Span, now: Instant) -> Instant:
    return Instant(now + lasts)


class _Silent(logging.LoggerAdapter[logging.Logger]):
    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  the standard library's name
        return False


class _Placed(logging.LoggerAdapter[logging.Logger]):
    """Adds the place of the code to each record; what the caller gives with `extra` wins."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, {**kwargs, "extra": {**(self.extra or {}), **(kwargs.get("extra") or {})}}


SILENT = _Silent(_LOG, {})
