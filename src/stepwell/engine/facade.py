"""The facade: the everyday verbs, for a client with or without a worker beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar, Unpack, overload

from stepwell.clock import Duration, Instant, Span, span
from stepwell.codec.base import REFERENCE, Codec, Place, Row
from stepwell.codec.json_codec import JsonCodec
from stepwell.codec.offload import Offloaded
from stepwell.codec.signatures import MISSING
from stepwell.engine.bulks import Bulks
from stepwell.engine.events import Key, Publisher, check_published
from stepwell.engine.explain import Explanation, explain_whole
from stepwell.engine.filters import parse_filter
from stepwell.engine.finding import Finder
from stepwell.engine.handles import Handle
from stepwell.engine.holds import HoldVerbs
from stepwell.engine.ledger import Ledger
from stepwell.engine.outbox import Outbox
from stepwell.engine.overviews import Overviews
from stepwell.engine.repairs import RepairVerbs
from stepwell.engine.results import Answers, Results
from stepwell.engine.signals import SignalVerbs
from stepwell.engine.starts import (
    FOREVER,
    Plan,
    Start,
    Started,
    StartManyOptions,
    StartOptions,
    check_ids,
    check_run_id,
    positive,
)
from stepwell.engine.views import EntryView, RunView, entry_views, run_view
from stepwell.engine.watching import Watching
from stepwell.environment import Environment, Home
from stepwell.errors import (
    InvalidInputError,
    NotFoundError,
    StoreError,
)
from stepwell.ids import RunId
from stepwell.model.events import Deliver
from stepwell.model.locations import check_name
from stepwell.model.outbox import Announce
from stepwell.model.runs import Claimed, Created, Debounced, NewRun, Run, normal_key
from stepwell.model.states import RunStatus
from stepwell.model.topics import Event
from stepwell.model.transactions import Transaction
from stepwell.model.workers import Claimant
from stepwell.nearest import nearest
from stepwell.redaction import redact
from stepwell.replay.event_loop import refuse_in_workflow
from stepwell.replay.registry import Registry
from stepwell.replay.workflows import Workflow
from stepwell.stores.base.faults import is_final
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import Detail, RunFilter, StepProgress

In = TypeVar("In")
Out = TypeVar("Out")
T = TypeVar("T")

_PAUSED, _STALLED = RunStatus.PAUSED, RunStatus.COMPENSATION_FAILED
ALL_RUNS = RunFilter()
_SHOWN = Place("", "", "a value that is shown")

TRIES_MAX = 20  # of a request whose acknowledgement is lost
PAUSE = 0.05


class Local(Protocol):
    """A worker in the same process."""

    def offer(self) -> Claimant | None: ...
    def is_executing(self, run_id: RunId) -> bool: ...
    def adopt(self, claimed: Iterable[Claimed]) -> None: ...
    def evict(self, run_id: RunId) -> None: ...
    @property
    def awaiting(self) -> AbstractContextManager[None]: ...


class Recovered(NamedTuple):
    """What a recovery found."""

    freed: int  # runs of dead workers, ready now
    paused: int  # runs that need a person
    stalled_rollbacks: int


class Facade(SignalVerbs, HoldVerbs, RepairVerbs, Overviews):
    """What a caller may ask. A verb that writes returns when the store has committed it.

    How durable that is depends on the store: a database in memory ends with its process.
    """

    def __init__(
        self, environment: Environment, store: Store, registry: Registry, codec: Codec, announce: Announce | None = None
    ) -> None:
        self._environment = environment
        self._opened = store
        self._home: Home | None = None  # while it is open
        self._registry = registry
        self._codec = codec
        if codec.conceals:
            store.declare_encrypted()
        self._local: Local | None = None
        self._results = Results(store)
        self._watching = Watching(store, self._results.finder)
        self._answers = Answers(store)
        self._announce = announce
        self.outbox = Outbox(store, self._surely)
        self.ledger = Ledger(store.ledger, self._surely)
        self.bulks = Bulks(self, store, codec, self._surely)
        self._stalls_max = 5
        self._publisher = Publisher(codec, self._encode_input)

    # --- starting ---

    @overload
    async def start(
        self, workflow: Workflow[None, Out], input: None = None, **options: Unpack[StartOptions]
    ) -> Handle[Out]: ...
    @overload
    async def start(self, workflow: Workflow[In, Out], input: In, **options: Unpack[StartOptions]) -> Handle[Out]: ...
    @overload
    async def start(self, workflow: str, input: Any = None, **options: Unpack[StartOptions]) -> Handle[Any]: ...
    async def start(
        self,
        workflow: Workflow[Any, Any] | str,
        input: Any = None,
        *,
        key: str | None = None,
        run_id: str | None = None,
        transaction: Any = None,
        **options: Unpack[StartManyOptions],
    ) -> Handle[Any]:
        """Start a run, or get the one that has this key: an active one, or one that ended within `dedup` ("24h").

        The input is checked against the workflow's annotation before anything is stored. `on_conflict` says what a
        taken key means: "get" that run, "raise" `AlreadyExistsError`, or "replace" it: in one transaction the active
        run is cancelled, with compensation, and the new one has the key. `delay` is how long it waits before it
        begins. Of runs that are due, those of a higher `priority` (-100 to 100) are claimed first. `tags` are a dict or
        a set of texts, shown with the run. A run that has not ended by its `deadline` (a duration from now, or a
        moment) fails with `DeadlineExceeded`; one that waits at one place for longer than `max_suspend` fails with
        `WaitedTooLong`; both undo what it did. `transaction` is a connection to the engine's own database with an open
        transaction (of `apsw` for SQLite, of `psycopg` for PostgreSQL). The run is written through it: it begins once
        the caller commits, and was never there if the caller rolls back.
        """
        start = Start(input, key, run_id)
        if transaction is not None:
            return self.start_within(transaction, workflow, [start], **options)[0]
        return (await self.start_many(workflow, [start], **options))[0]

    def start_within(
        self,
        transaction: Any,
        workflow: Workflow[Any, Out] | str,
        starts: Sequence[Start],
        **options: Unpack[StartManyOptions],
    ) -> list[Handle[Out]]:
        """Start many runs inside the caller's own transaction, as `start(..., transaction=...)` does, in the thread of
        the connection. It waits for nothing but the database, and the engine need not be open.

        Not promised: `same_input` of a handle on a run that was there already, if payloads are encrypted.
        """
        definition = workflow if isinstance(workflow, Workflow) else self._registry.newest(workflow)
        started = Started(definition.name, definition.version, definition.output_hint, definition.discards)
        new = self._new_runs(started, [self._new(definition, start) for start in starts], Plan(**options))
        created = self._opened.transactions.enqueue(transaction, new)
        check_ids(created, new)
        return [self._handle(item, item.same_input, definition.output_hint) for item in created]

    async def transact(self, work: Callable[[Transaction], T]) -> T:
        """Do something to tables of your own in the engine's database, in one transaction: create them, fill them, read
        them. If `work` raises, nothing was written.
        """
        return await self._store.transactions.run(work)

    async def start_many(
        self, workflow: Workflow[Any, Out] | str, starts: Sequence[Start], **options: Unpack[StartManyOptions]
    ) -> list[Handle[Out]]:
        """Start many runs in one transaction; equal keys among them collapse into one run."""
        definition = workflow if isinstance(workflow, Workflow) else self._registry.newest(workflow)
        return await self._start(
            Started(definition.name, definition.version, definition.output_hint, definition.discards),
            [self._new(definition, start) for start in starts],
            Plan(**options),
        )

    async def start_by_name(
        self,
        workflow: str,
        version: int,
        input: Any = None,
        *,
        key: str | None = None,
        run_id: str | None = None,
        **options: Unpack[StartManyOptions],
    ) -> Handle[Any]:
        """Start a workflow that this process does not know: the input is plain JSON, and the worker checks it."""
        name, own_id = check_name(workflow, what="workflow name"), self._run_id(run_id)
        stored = self._codec.encode(input, place=_input_place(workflow, own_id))
        started = Started(name, version, Any)
        return (await self._start(started, [(own_id, stored, Start(input, key, run_id))], Plan(**options)))[0]

    async def start_debounced(
        self,
        workflow: Workflow[In, Out],
        input: In,
        *,
        key: str,
        quiet: Duration,
        max_wait: Duration | None = None,
    ) -> Handle[Out]:
        """Start a run when nobody has called this for the key for `quiet`, with the input of the last call; at the
        latest `max_wait` after the first call.

        The planned run does not hold the key yet: until it begins, only this call sees it, and only this call changes
        it. If another run of the key is active when it is due, it begins at that run's end. Once it has begun it
        is not changed any more: the next call plans another run. Ended runs never answer it.
        """
        normal, at_rest = normal_key(key), positive(quiet, "quiet", workflow.name)
        limit = FOREVER if max_wait is None else positive(max_wait, "max_wait", workflow.name)
        planned = await self._surely(lambda _: self._store.views.find(normal))
        # An input may be sealed for one run, so it must be known which one: the store says if it is another by now.
        run_id = planned.run_id if planned is not None and planned.debounced_until is not None else self._run_id(None)
        while True:
            stored = self._encode_input(workflow, input, run_id)
            new = NewRun(run_id, workflow.name, workflow.version, stored, normal, discards=workflow.discards)
            done = await self._surely(partial(self._debounce, new, at_rest, limit))
            if not done.is_stale:
                break
            run_id = done.run_id if done.run_id != run_id else self._run_id(None)
        return Handle(self, done.run_id, is_new=done.is_new, same_input=True, output_hint=workflow.output_hint)

    async def _debounce(self, new: NewRun, quiet: Span, max_wait: Span, _: bool) -> Debounced:
        return await self._store.runs.debounce(new, quiet=quiet, max_wait=max_wait)

    def _new_runs(self, started: Started, inputs: Sequence[tuple[RunId, bytes, Start]], plan: Plan) -> list[NewRun]:
        now, announce = self._opened.now(), self._announce if plan.on_conflict == "replace" else None
        return [
            plan.new_run(started.name, started.version, run_id, stored, start, now)._replace(
                discards=started.discards, announce=announce
            )
            for run_id, stored, start in inputs
        ]

    async def _start(
        self, started: Started, inputs: Sequence[tuple[RunId, bytes, Start]], plan: Plan
    ) -> list[Handle[Any]]:
        new = self._new_runs(started, inputs, plan)
        created = await self._create(new)
        check_ids(created, new)
        same = [await self._has_same_input(item, run) for item, run in zip(created, new, strict=True)]
        return [self._handle(item, is_same, started.output_hint) for item, is_same in zip(created, same, strict=True)]

    def _handle(self, created: Created, is_same: bool, hint: Any) -> Handle[Any]:
        new, replaced = created.is_new, created.replaced
        return Handle(self, created.run_id, is_new=new, same_input=is_same, output_hint=hint, replaced=replaced)

    async def _has_same_input(self, created: Created, new: NewRun) -> bool:
        """The store compares stored inputs; encrypted ones are never equal, so those are opened."""
        if created.is_new or not self._codec.conceals:
            return created.same_input
        found = await self._get(created.run_id)
        try:
            theirs = self._codec.unseal(found.input, place=_input_place(found.workflow, found.run_id))
        except StoreError:
            return False
        return theirs == self._codec.unseal(new.input, place=_input_place(new.workflow, new.run_id))

    def _new(self, definition: Workflow[Any, Any], start: Start) -> tuple[RunId, bytes, Start]:
        run_id = self._run_id(start.run_id)
        return run_id, self._encode_input(definition, start.input, run_id), start

    def _run_id(self, given: str | None) -> RunId:
        return RunId(self._environment.ids.uuid()) if given is None else check_run_id(given)

    async def _create(self, new: list[NewRun]) -> list[Created]:
        created = await self._surely(
            lambda again: self._claiming(lambda offer: self._store.runs.create(_again(new, again), offer))
        )
        self._adopt(item.claimed for item in created if item.claimed is not None)
        return created

    def _encode_input(self, definition: Workflow[Any, Any], value: Any, run_id: RunId) -> bytes:
        place = _input_place(definition.name, run_id)
        if not definition.takes_input:
            if value is not None:
                raise InvalidInputError(f"workflow {definition.name!r} takes no input", where=definition.name)
            return self._codec.encode(None, place=place)
        if value is None and definition.input_default is not MISSING:
            value = definition.input_default
        hint = definition.input_hint
        return self._codec.encode(self._codec.validate(value, hint, place=place), hint, place=place)

    async def handle(self, workflow: Workflow[Any, Out], target: str) -> Handle[Out]:
        """A handle on a run that exists already, by id or key. Raises `NotFoundError` if there is none."""
        run = await self._get(target)
        return Handle(self, run.run_id, is_new=False, same_input=True, output_hint=workflow.output_hint)

    # --- events ---

    async def publish(
        self,
        topic: str | Event | type[Event],
        payload: Any = None,
        *,
        deliver: Deliver = "all",
        retain: Duration | bool | None = None,
        event_id: str | None = None,
    ) -> int:
        """Publish an event, as in `publish(Shipped(order="42"))` or `publish("shipped", {...})`; how many runs got it.

        "all" is for every run that waits for it now, "one" for the one that has waited longest. With `retain` ("1h";
        True is 7 days) the topic also keeps it for waits to come, "one" only if nobody took it. A full topic raises
        `TopicFullError`. Publishing an `event_id` again does nothing for at least 7 days after the first time.
        """
        new = self._publisher.make(topic, payload, deliver, retain, event_id or self._environment.ids.uuid())
        (published,), claimed = await self._surely(
            lambda _: self._claiming(lambda offer: self._store.events.publish([new], offer))
        )
        self._adopt(claimed)
        return check_published(published, new.topic)

    def on(
        self, topic: str | type[Event], *, start: Workflow[Any, Any], key: Key = None, dedup: Duration = "24h"
    ) -> None:
        """Let each event that *this engine* publishes on a topic start a run, in the transaction that publishes it.

        The event is the run's input. `key` is a field of the event or a function of it: an event whose key has a run,
        active or ended within `dedup`, starts none. Engines that did not call this start nothing.
        """
        self._publisher.on(topic, start, key, dedup)

    # --- looking ---

    async def status(self, target: str) -> RunView | None:
        """The run with this id, or of this key (the active one, or the latest); None if there is none."""
        return (await self.status_many([target]))[0]

    async def status_many(self, targets: Sequence[str]) -> list[RunView | None]:
        """`status` of many, in a constant number of queries."""
        found = await self._surely(lambda _: self._store.views.find_many([_target(target) for target in targets]))
        active = [run.run_id for run in found if run is not None and run.ended_at is None and run.revision > 0]
        progress: dict[RunId, list[StepProgress]] = {}
        if active:
            lists = await self._surely(lambda _: self._store.views.list_progress(active))
            progress = dict(zip(active, lists, strict=True))
        return [None if run is None else run_view(run, progress.get(run.run_id, ()), self.fetch) for run in found]

    async def list_runs(
        self, where: RunFilter | str = ALL_RUNS, *, limit: int = 50, before: str | None = None
    ) -> list[RunView]:
        """Runs, newest first, or as a filter such as `"status:failed since:24h sort:-took"` says (docs/filters.md); the
        next page is behind `before`, the last of this one. A value that is kept apart is listed as a mark; `status` has
        it. Raises `FilterError`.
        """
        wanted = parse_filter(where, self._store.now()) if isinstance(where, str) else where
        cursor = None if before is None else RunId(before)
        runs = await self._surely(lambda _: self._store.views.list_runs(wanted, limit=limit, before=cursor))
        return [run_view(run) for run in runs]

    async def history(self, target: str) -> list[EntryView]:
        """Every line of a run's history, in the order of its commits."""
        return entry_views(await self.detail(target), fetch=self.fetch)

    async def detail(self, target: str) -> Detail:
        """Everything stored about one run, in one consistent read."""
        # By its id first, which needs no look-up of its own.
        detail = await self._surely(lambda _: self._store.views.detail(RunId(_target(target))))
        if detail is None:
            run = await self._get(target)
            detail = await self._surely(lambda _: self._store.views.detail(run.run_id))
        if detail is None:
            raise NotFoundError("run", target)
        return detail

    async def explain(self, target: str) -> Explanation:
        """Why a run is not moving: one sentence, the data behind it, and the chain of causes."""
        return await explain_whole(self._store, self._surely, await self.detail(target))

    async def result(self, target: str, *, timeout: Duration | None = None, output_hint: Any = None) -> Any:
        """The result of a run, once it and those that continue it have ended. See `Handle.result`."""
        limit = None if timeout is None else span(timeout, what="timeout")
        self._check_home()
        if self._local is not None and self._local.is_executing(RunId(target)):
            first = RunId(target)
            ended = await self._results.wait_for(first, limit, is_at_work=True)
        else:
            run = await self._get(target, self._results.finder)
            first, ended = run.run_id, await self._results.wait(run, limit)
        known = self._registry.find(ended.definition)
        hint = output_hint if known is None or ended.run_id == first else known.output_hint
        if hint is None:
            hint = known.output_hint if known is not None else Any
        place = Place(ended.workflow, "", "the result", row=Row(ended.run_id, "", "output"))
        if ended.output is None:
            return self._codec.decode_body(b"null", hint, place)
        return self._codec.decode(ended.output, hint, place=place)

    def fetch(self, payload: bytes) -> bytes:
        """A stored payload that is kept apart, from the database or the folder of this engine; any other as it is. The
        reference itself if what it refers to cannot be read here.
        """
        if payload[:1] != REFERENCE:
            return payload
        codec = self._codec if isinstance(self._codec, Offloaded) else Offloaded(JsonCodec(), self._opened.blobs)
        try:
            return codec.open(payload, _SHOWN)
        except StoreError:
            return payload

    # --- steering ---

    async def cancel(self, target: str, reason: str = "", *, compensate: bool = True, by: str = "") -> bool:
        """Cancel a run and the children that it waits for, and theirs; a spawned run only if it was started with
        `on_parent_close="cancel"`. Completed steps are undone unless `compensate` is false.

        True if this call did it; false if the run had ended, or was being cancelled or undone already. A run that was
        continued stands for the one that continues it.
        """
        run = await self._get(target)
        while run.successor is not None:
            run = await self._get(run.successor)
        cancelled = await self._surely(
            lambda _: self._store.runs.cancel(
                run.run_id, compensate=compensate, reason=redact(reason), by=by, announce=self._announce
            )
        )
        return cancelled.changed

    async def retry(self, target: str, *, by: str = "") -> bool:
        """Let a failed run go on from the step that failed, with a fresh budget of attempts.

        False if it has not failed, or if another active run has its key.
        """
        run = await self._get(target)
        return await self._surely(lambda _: self._store.runs.retry(run.run_id, by=by))

    async def resume_rollback(self, target: str, *, by: str = "") -> bool:
        """Go on with a stalled rollback from the compensation that failed. Calling it twice is a no-op."""
        run = await self._get(target)
        return await self._surely(lambda _: self._store.runs.resume_rollback(run.run_id, by=by))

    async def recover(self) -> Recovered:
        """Free the runs of dead workers now, instead of at the next sweep, and report what needs a person."""
        freed = await self._surely(lambda _: self._store.runs.rescue(stalls_max=self._stalls_max))
        paused = await self.list_runs(RunFilter(statuses=(_PAUSED,)), limit=500)
        stalled = await self.list_runs(RunFilter(statuses=(_STALLED,)), limit=500)
        return Recovered(len(freed), len(paused), len(stalled))

    async def evict(self, target: str) -> None:
        """Hand a run over: this process gives it back between two steps. Evicting is not cancelling."""
        run = await self._get(target)
        if self._local is not None:
            self._local.evict(run.run_id)

    # --- inside ---

    @property
    def _store(self) -> Store:
        """The store, for what is awaited: in the event loop that the engine was opened in."""
        self._check_home()
        return self._opened

    def _check_home(self) -> None:
        """Refuse a call from another event loop or process, or from the code of a workflow."""
        if self._home is not None:
            refuse_in_workflow("an engine")
            self._home.check("this engine")

    def now(self) -> Instant:
        """The store's time."""
        return self._opened.now()

    async def _get(self, target: str, finder: Finder | None = None) -> Run:
        found = await self._surely(lambda _: (finder or self._store.views).find(_target(target)))
        if found is None:
            raise NotFoundError("run", target, near=await self._near(target))
        return found

    async def _near(self, target: str) -> list[str]:
        if len(target) >= 4:
            begun = await self._store.views.find_by_prefix(target, limit=2)
            if begun:
                return list(begun)
        recent = await self._store.views.list_runs(RunFilter(), limit=200)
        return nearest(target, [name for run in recent for name in (run.key, run.run_id) if name])

    async def _claiming(self, ask: Callable[[Claimant | None], Coroutine[Any, Any, T]]) -> T:
        """Make a request that may claim runs for this process."""
        offer = self._offer()
        if self._local is None or offer is None:
            return await ask(None)
        with self._local.awaiting:
            return await ask(offer)

    def _offer(self) -> Claimant | None:
        return self._local.offer() if self._local is not None else None

    def _adopt(self, claimed: Iterable[Claimed]) -> None:
        if self._local is not None:
            self._local.adopt(claimed)

    async def _surely(self, ask: Callable[[bool], Coroutine[Any, Any, T]]) -> T:
        """Ask until the store answers with something final, a bounded number of times: requests carry their own ids,
        so repeating is safe.
        """
        self._check_home()
        for tries in range(TRIES_MAX):
            try:
                return await ask(tries > 0)
            except StoreError as error:
                if tries == TRIES_MAX - 1 or is_final(error):
                    raise
                await asyncio.sleep(PAUSE * (tries + 1))
        raise AssertionError("unreachable")


def _again(new: list[NewRun], is_repeated: bool) -> list[NewRun]:
    """A repeated start may find its own run id: that is its own doing."""
    return [run._replace(own_id=True) for run in new] if is_repeated else new


def _input_place(workflow: str, run_id: RunId) -> Place:
    return Place(workflow, "", "the input", row=Row(run_id, "", "input"))


def _target(target: str) -> str:
    """A run id as it is, or a key in its one spelling. An id is lower case without blanks, so it survives both."""
    return normal_key(target)
