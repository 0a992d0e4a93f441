"""Runs: started, found, followed and cancelled."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from datetime import datetime
from functools import partial
from itertools import count
from typing import Any, TypeVar, Unpack, overload

from stepwell.clock import Duration, Span, span
from stepwell.codec.base import ANY, Place, Row
from stepwell.codec.carried import NO_HEADERS
from stepwell.engine.backend import Backend
from stepwell.engine.cancellations import cancel_run
from stepwell.engine.filters import fitted, parse_filter
from stepwell.engine.handles import Handle
from stepwell.engine.live import Items, check_stream, follow
from stepwell.engine.reschedules import Rescheduled, reschedule_run, wake_run
from stepwell.engine.results import Results
from stepwell.engine.signals import Signals, check_room, new_signal
from stepwell.engine.starts import (
    Plan,
    Start,
    Started,
    StartManyOptions,
    check_ids,
    check_run_id,
    encode_input,
    input_place,
    with_headers,
)
from stepwell.engine.system_runs import without_system_runs
from stepwell.engine.undoings import compensate_run
from stepwell.engine.views import ActView, EntryView, RunView, act_view, entry_views, run_view
from stepwell.engine.watches import Watches
from stepwell.errors import InvalidOptionError, NotFoundError, StoreError
from stepwell.ids import RunId
from stepwell.model.headers import read_headers
from stepwell.model.live import Published
from stepwell.model.locations import check_name
from stepwell.model.runs import Created, Debounced, NewRun, Run, normal_key
from stepwell.model.signals import Delivered, Delivery, NewSignal
from stepwell.model.starts import FOREVER, positive
from stepwell.model.states import RunStatus
from stepwell.replay.primitives.publish import state_place
from stepwell.replay.signals import Signal
from stepwell.replay.workflows import Workflow
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import Detail, RunFilter, StepProgress

In = TypeVar("In")
Out = TypeVar("Out")
T = TypeVar("T")

ALL_RUNS = RunFilter()
LOG = logging.getLogger("stepwell.engine")
_ENDED_BADLY = frozenset({RunStatus.FAILED, RunStatus.COMPENSATED, RunStatus.CANCELLED})

OnStart = Callable[[NewRun], NewRun]  # adds tags to a run that is about to be created
_Input = tuple[RunId, bytes, Start]


class Runs:
    """`engine.runs`: starts runs, finds them, and reads what they record and publish."""

    def __init__(self, backend: Backend, signals: Signals, results: Results, on_start: OnStart | None = None) -> None:
        self._backend = backend
        self._signals = signals
        self._results = results
        self._on_start = on_start
        self._watches = Watches(backend.opened, results.finder)

    # --- starting ---

    async def start_many(
        self, workflow: Workflow[Any, Out] | str, starts: Sequence[Start], **options: Unpack[StartManyOptions]
    ) -> list[Handle[Out]]:
        """Start many runs in one transaction; starts with equal keys share one run."""
        definition = self._definition(workflow)
        inputs = [self._input(definition, start) for start in starts]
        return await self._start(Started.of(definition), inputs, Plan.of(options))

    def start_within(
        self,
        transaction: Any,
        workflow: Workflow[Any, Out] | str,
        starts: Sequence[Start],
        **options: Unpack[StartManyOptions],
    ) -> list[Handle[Out]]:
        """Start many runs inside the caller's own transaction, as `start(..., transaction=...)` does, in the thread of
        the connection. It waits only for the database, and the engine need not be open.

        Not promised: `same_input` of a handle on an existing run, if payloads are encrypted.
        """
        definition = self._definition(workflow)
        inputs = [self._input(definition, start) for start in starts]
        new = self._new_runs(Started.of(definition), inputs, Plan.of(options))
        created = self._backend.opened.transactions.enqueue(transaction, new)
        check_ids(created, new)
        return [self._handle(item, item.same_input, definition.output_hint) for item in created]

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
        """Start a workflow that is not registered here: the input is plain JSON, and the worker checks it."""
        name, own_id = check_name(workflow, what="workflow name"), self._run_id(run_id)
        stored = self._backend.codec.encode(input, place=input_place(workflow, own_id))
        started = Started(name, version, Any)
        return (await self._start(started, [(own_id, stored, Start(input, key, run_id))], Plan.of(options)))[0]

    async def start_debounced(
        self,
        workflow: Workflow[In, Out],
        input: In,
        *,
        key: str,
        quiet: Duration,
        max_wait: Duration | None = None,
    ) -> Handle[Out]:
        """Start a run once there was no call for the key for `quiet`, with the input of the last call, but no later
        than `max_wait` after the first call.

        The planned run does not hold the key yet: until it begins, only this call finds it and changes it. If another
        run of the key is active when the planned run is due, the planned run begins when that run ends. A run that
        has begun does not change: the next call plans another run. Ended runs are never returned.
        """
        backend = self._backend
        normal, at_rest = normal_key(key), positive(quiet, "quiet", workflow.name)
        limit = FOREVER if max_wait is None else positive(max_wait, "max_wait", workflow.name)
        planned = await backend.find(key)
        # An input may be encrypted for one run, so its id comes first; the store reports if another run is planned.
        run_id = planned.run_id if planned is not None and planned.debounced_until is not None else self._run_id(None)
        while True:
            stored = encode_input(backend.codec, workflow, input, run_id)
            new = NewRun(run_id, workflow.name, workflow.version, stored, normal, discards=workflow.discards)
            done = await backend.retrying(partial(_debounce, new, at_rest, limit))
            if not done.is_stale:
                break
            run_id = done.run_id if done.run_id != run_id else self._run_id(None)
        return self._handle_on(done.run_id, done.is_new, True, workflow.output_hint)

    @overload
    async def signal_or_start(
        self,
        workflow: Workflow[None, Out],
        input: None,
        name: str | Signal[Any],
        payload: Any = None,
        *,
        key: str,
        dedup_key: str | None = None,
    ) -> Handle[Out]: ...
    @overload
    async def signal_or_start(
        self,
        workflow: Workflow[In, Out],
        input: In,
        name: str | Signal[Any],
        payload: Any = None,
        *,
        key: str,
        dedup_key: str | None = None,
    ) -> Handle[Out]: ...
    @overload
    async def signal_or_start(
        self,
        workflow: str,
        input: Any,
        name: str | Signal[Any],
        payload: Any = None,
        *,
        key: str,
        dedup_key: str | None = None,
    ) -> Handle[Any]: ...
    async def signal_or_start(
        self,
        workflow: Workflow[Any, Any] | str,
        input: Any,
        name: str | Signal[Any],
        payload: Any = None,
        *,
        key: str,
        dedup_key: str | None = None,
    ) -> Handle[Any]:
        """Send a signal to the active run of a key, or start that run with the signal in its mailbox; one transaction.

        Of many concurrent callers, one starts the run (`is_new`), and the run gets every signal. An ended run of the
        key does not count: a new run is started. With a `dedup_key` that the active or an ended run of the key has
        seen, nothing is sent or started, and that run is returned.
        """
        definition = self._definition(workflow)
        signal = new_signal(
            self._backend, key, definition.mailbox.find(name, definition.name), payload, dedup_key=dedup_key
        )
        return (await self._deliver_or_start(definition, input, signal, key))[0]

    async def ask_or_start(
        self,
        workflow: Workflow[Any, Any] | str,
        input: Any,
        request: str | Signal[Any],
        payload: Any = None,
        *,
        key: str,
        timeout: Duration | None = None,
    ) -> Any:
        """Ask the active run of a key, or start that run with the question in its mailbox, and wait for the answer.

        One transaction sends the question, as in `signal_or_start`; the rest is as in `Engine.ask`.
        """
        definition = self._definition(workflow)
        limit = None if timeout is None else span(timeout, what="timeout")
        declared = definition.mailbox.find(request, definition.name)
        question = new_signal(self._backend, key, declared, payload, asks=True)
        await self._deliver_or_start(definition, input, question, key)
        return await self._signals.await_answer(question, declared, limit)

    async def _deliver_or_start(
        self, definition: Workflow[Any, Any], input: Any, signal: NewSignal, key: str
    ) -> tuple[Handle[Any], Delivered]:
        backend, run_id = self._backend, self._run_id(None)
        stored = encode_input(backend.codec, definition, input, run_id)
        run = NewRun(run_id, definition.name, definition.version, stored, normal_key(key), discards=definition.discards)
        created, delivered, claimed = await backend.retrying(
            lambda store: backend.with_offer(lambda offer: store.signals.deliver_or_create(signal, run, offer))
        )
        backend.adopt(claimed)
        check_room(signal, delivered)
        same = await self._has_same_input(created, run)
        return self._handle(created, same, definition.output_hint), delivered

    async def send_or_start(
        self,
        target: str,
        name: str | Signal[Any],
        payload: Any,
        *,
        dedup_key: str | None,
        start: Workflow[Any, Any] | str,
        input: Any,
    ) -> Delivery:
        """`engine.signal(..., if_missing="start")`."""
        definition = self._definition(start)
        declared = definition.mailbox.find(name, definition.name)
        signal = new_signal(self._backend, target, declared, payload, dedup_key=dedup_key)
        return (await self._deliver_or_start(definition, input, signal, target))[1].delivery

    async def handle(self, workflow: Workflow[Any, Out], target: str) -> Handle[Out]:
        """A handle on an existing run, by id or key. Raises `NotFoundError`."""
        run = await self._backend.get(target)
        return self._handle_on(run.run_id, False, True, workflow.output_hint)

    # --- finding ---

    async def find(self, target: str) -> RunView | None:
        """The run with this id, or of this key (the active one, or the latest); None if there is none."""
        return (await self.find_many([target]))[0]

    async def get(self, target: str) -> RunView:
        """`find`, for a run that must exist. Raises `NotFoundError`."""
        view = await self.find(target)
        if view is None:
            raise NotFoundError("run", target)
        return view

    async def find_many(self, targets: Sequence[str]) -> list[RunView | None]:
        """`find` for many, in a constant number of queries."""
        backend = self._backend
        found = await backend.retrying(lambda store: store.views.find_many([normal_key(target) for target in targets]))
        active = [run.run_id for run in found if run is not None and run.ended_at is None and run.revision > 0]
        progress: dict[RunId, list[StepProgress]] = {}
        if active:
            lists = await backend.retrying(lambda store: store.views.list_progress(active))
            progress = dict(zip(active, lists, strict=True))
        return [None if run is None else run_view(run, progress.get(run.run_id, ()), backend.fetch) for run in found]

    # --- the record of one run ---

    async def detail(self, target: str) -> Detail:
        """Everything stored about one run, in one consistent read. Raises `NotFoundError`."""
        return await self._backend.detail(target)

    async def stored(self, target: str) -> Run:
        """The row of a run, without its history. Raises `NotFoundError`."""
        return await self._backend.get(target)

    async def history(self, target: str) -> list[EntryView]:
        """Every line of a run's history, in the order of its commits. Raises `NotFoundError`."""
        return entry_views(await self._backend.detail(target), fetch=self._backend.fetch)

    async def list_acts(self, target: str) -> list[ActView]:
        """What operators did to one run, oldest first. Raises `NotFoundError`."""
        run = await self._backend.get(target)
        return [act_view(act) for act in await self._backend.retrying(lambda store: store.views.list_audit(run.run_id))]

    def workflow_of(self, run: Run) -> Workflow[Any, Any] | None:
        """The workflow of a run, if this engine knows it in the version of the run."""
        return self._backend.registry.find(run.definition)

    def fetch(self, payload: bytes) -> bytes:
        """A payload. If it is stored outside its run, it is read from the database or the folder of this engine; its
        reference is returned if it cannot be read.
        """
        return self._backend.fetch(payload)

    # --- what a run publishes ---

    async def watch(self, target: str) -> AsyncGenerator[RunView, None]:
        """A run as it is now, and again after each change. Ends with the run.

        Changes that follow each other closely may be reported as one.
        """
        pulse = self.pulse(target)
        try:
            async for run in pulse:
                if run is not None:
                    yield run_view(run, fetch=self._backend.fetch)
        finally:
            await pulse.aclose()

    async def pulse(self, target: str) -> AsyncGenerator[Run | None, None]:
        """`watch` for a server that must notice when its client is gone: the stored run, and None for each second
        without a change.
        """
        run = await self._backend.get(target)
        watch = self._watches.watch(run)
        try:
            async for latest in watch:
                yield latest
        finally:
            await watch.aclose()

    @overload
    async def state(self, target: str, name: str = "", *, wait: Duration | None = None) -> Any: ...
    @overload
    async def state(
        self, target: str, name: str = "", *, as_type: type[T], wait: Duration | None = None
    ) -> T | None: ...
    async def state(self, target: str, name: str = "", *, as_type: Any = ANY, wait: Duration | None = None) -> Any:
        """What a run has published (`ctx.publish_state`, or `ctx.state[name]`), read as `as_type` if that is given.

        None if it has published nothing under this name. With `wait`, it waits that long until the run publishes
        something: then None means that the run has ended without, and `ResultTimeout` is raised if it is still silent.
        A continued run is followed to its newest successor.
        """
        look = partial(self._published, target)
        run, found = await look(name) if wait is None else await self._watches.published(look, name, wait)
        return None if found is None else self._decode(run, found, as_type)

    async def states(self, target: str) -> dict[str, Any]:
        """Everything that a run has published, by name; "" is `ctx.publish_state`."""
        run = await self._backend.get_last(target)
        published = await self._backend.retrying(lambda store: store.views.list_published(run.run_id))
        return {one.name: self._decode(run, one, ANY) for one in published}

    @overload
    def stream(self, target: str, name: str, *, after: int = 0) -> Items[Any]: ...
    @overload
    def stream(self, target: str, name: str, *, after: int = 0, as_type: type[T]) -> Items[T]: ...
    def stream(self, target: str, name: str, *, after: int = 0, as_type: Any = ANY) -> Items[Any]:
        """Follow a stream: `async for item in engine.runs.stream(run_id, "tokens", after=offset)`.

        It ends when the stream is closed or the run has ended. A `StreamReset` means that a step started again.
        """
        check_stream(name, after)
        backend = self._backend
        return follow(backend.store, backend.codec, lambda: backend.get(target), name, after, as_type)

    # --- its end ---

    async def result(self, target: str, *, timeout: Duration | None = None, output_hint: Any = None) -> Any:
        """The result of a run, once it and its successors have ended. See `Handle.result`."""
        backend = self._backend
        limit = None if timeout is None else span(timeout, what="timeout")
        backend.check_home()
        if backend.worker is not None and backend.worker.is_executing(RunId(target)):
            first = RunId(target)
            ended = await self._results.wait_for(first, limit, is_at_work=True)
        else:
            run = await backend.get(target, self._results.finder)
            first, ended = run.run_id, await self._results.wait(run, limit)
        known = backend.registry.find(ended.definition)
        hint = output_hint if known is None or ended.run_id == first else known.output_hint
        if hint is None:
            hint = known.output_hint if known is not None else Any
        place = Place(ended.workflow, "", "the result", row=Row(ended.run_id, "", "output"))
        if ended.output is None:
            return backend.codec.decode_body(b"null", hint, place)
        return backend.codec.decode(ended.output, hint, place=place)

    async def cancel(self, target: str, reason: str = "", *, compensate: bool = True, by: str = "") -> bool:
        """Cancel a run and the children that it waits for; `Engine.cancel` has the promises."""
        return await cancel_run(self._backend, target, reason, compensate=compensate, by=by)

    async def compensate(self, target: str, *, by: str = "", reason: str = "") -> Handle[None]:
        """Undo a completed run in a run of its own; `Engine.compensate` has the promises."""
        run_id, is_new = await compensate_run(self._backend, target, by=by, reason=reason)
        return self._handle_on(run_id, is_new, True, None)

    async def wake(self, target: str, *, by: str = "", reason: str = "") -> bool:
        """Let a worker look at a waiting run now: its code runs again from the record, and goes on where it can. A run
        with a delay begins now.

        Sleeps and timeouts keep their deadlines; `reschedule` moves them. False for a run that a worker executes, that
        is paused, being undone, or has ended.
        """
        return await wake_run(self._backend, target, by=by, reason=reason)

    async def reschedule(
        self,
        target: str,
        path: str | None = None,
        *,
        delay: Duration | None = None,
        until: datetime | None = None,
        by: str = "",
        reason: str = "",
    ) -> Rescheduled:
        """Move the deadline of a sleep, a timer or a timeout, or the begin of a delayed run, to `delay` from now or to
        `until`.

        `path` may be left out if the run has one deadline, or has not begun. Raises `RunHeldError` while a worker
        executes the run, and `InvalidMoveError` for a run that does not wait.
        """
        return await reschedule_run(self._backend, target, path, delay=delay, until=until, by=by, reason=reason)

    # --- inside ---

    def _definition(self, workflow: Workflow[Any, Out] | str) -> Workflow[Any, Out]:
        if not isinstance(workflow, Workflow):
            return self._backend.registry.newest(workflow)
        if workflow.is_pattern:
            raise InvalidOptionError(
                f"{workflow.name!r} stands for many workflows",
                where=workflow.name,
                why="a run has the name of one of them",
                fix=f'start it by its name: engine.start("{workflow.name[:-1]}…", input)',
            )
        return workflow

    def _run_id(self, given: str | None) -> RunId:
        return RunId(self._backend.environment.ids.uuid()) if given is None else check_run_id(given)

    def _input(self, definition: Workflow[Any, Any], start: Start) -> _Input:
        run_id = self._run_id(start.run_id)
        return run_id, encode_input(self._backend.codec, definition, start.input, run_id), start

    def _new_runs(self, started: Started, inputs: Sequence[_Input], plan: Plan) -> list[NewRun]:
        backend = self._backend
        now, announce = backend.opened.now(), backend.announce if plan.on_conflict == "replace" else None
        headers = read_headers(plan.headers, started.name) if plan.headers else NO_HEADERS
        new = [
            plan.new_run(started.name, started.version, run_id, stored, start, now)._replace(
                discards=started.discards, announce=announce
            )
            for run_id, stored, start in inputs
        ]
        if self._on_start is not None:
            new = [*map(self._on_start, new)]
        elif not headers:
            return new
        return [with_headers(backend.codec, one, headers) for one in new]

    async def _start(self, started: Started, inputs: Sequence[_Input], plan: Plan) -> list[Handle[Any]]:
        new = self._new_runs(started, inputs, plan)
        created = await self._create(new)
        check_ids(created, new)
        same = [await self._has_same_input(item, run) for item, run in zip(created, new, strict=True)]
        found = await self._found([item.run_id for item in created if not item.is_new])
        return [
            self._handle(item, is_same, started.output_hint, found.get(item.run_id))
            for item, is_same in zip(created, same, strict=True)
        ]

    async def _found(self, run_ids: Sequence[RunId]) -> dict[RunId, RunView]:
        """The runs that starts got in place of new ones. A run that did not end well is worth a line in the log."""
        if not run_ids:
            return {}
        runs = await self._backend.retrying(lambda store: store.views.find_many(run_ids))
        for run in runs:
            if run is not None and run.key is not None and run.status in _ENDED_BADLY:
                LOG.warning(
                    "the start of %s with key %r started nothing: run %s has that key, and is already %s",
                    run.workflow,
                    run.key,
                    run.run_id,
                    run.status.value,
                )
        return {run.run_id: run_view(run) for run in runs if run is not None}

    async def _create(self, new: list[NewRun]) -> list[Created]:
        backend, tries = self._backend, count()

        def create(store: Store) -> Coroutine[Any, Any, list[Created]]:
            asked = _repeated(new) if next(tries) else new
            return backend.with_offer(lambda offer: store.runs.create(asked, offer))

        created = await backend.retrying(create)
        backend.adopt(item.claimed for item in created if item.claimed is not None)
        return created

    async def _has_same_input(self, created: Created, new: NewRun) -> bool:
        """The store compares stored inputs. Encrypted inputs are never equal, so they are decrypted."""
        codec = self._backend.codec
        if created.is_new or not codec.conceals:
            return created.same_input
        found = await self._backend.get(created.run_id)
        try:
            theirs = codec.unseal(found.input, place=input_place(found.workflow, found.run_id))
        except StoreError:
            return False
        return theirs == codec.unseal(new.input, place=input_place(new.workflow, new.run_id))

    def _handle(self, created: Created, is_same: bool, hint: Any, found: RunView | None = None) -> Handle[Any]:
        return self._handle_on(created.run_id, created.is_new, is_same, hint, created.replaced, found)

    def _handle_on(
        self,
        run_id: RunId,
        is_new: bool,
        is_same: bool,
        hint: Any,
        replaced: RunId | None = None,
        found: RunView | None = None,
    ) -> Handle[Any]:
        return Handle(
            self,
            self._signals,
            run_id,
            is_new=is_new,
            same_input=is_same,
            output_hint=hint,
            replaced=replaced,
            found=found,
        )

    async def _published(self, target: str, name: str) -> tuple[Run, Published | None]:
        run = await self._backend.get_last(target)
        published = await self._backend.retrying(lambda store: store.views.list_published(run.run_id))
        return run, next((one for one in published if one.name == name), None)

    def _decode(self, run: Run, one: Published, hint: Any) -> Any:
        return self._backend.codec.decode(one.value, hint, place=state_place(run.workflow, run.run_id, one.name))

    # Last, because below it `list` is this method.
    async def list(
        self,
        where: RunFilter | str = ALL_RUNS,
        *,
        limit: int = 50,
        before: str | None = None,
        include_system: bool = False,
    ) -> list[RunView]:
        """Runs, newest first, or in the order of a filter such as `"status:failed since:24h sort:-took"`
        (docs/filters.md). The next page is behind `before`, the last run of this one.

        Runs of stepwell's own workflows are left out, unless `include_system` or the filter names them. A value that
        is stored outside its run is listed as a mark; `find` has it. Raises `FilterError`.
        """
        wanted = parse_filter(where, self._backend.store.now()) if isinstance(where, str) else where
        fits = await self._backend.retrying(lambda store: fitted(wanted, store.views))
        listed = fits if include_system else without_system_runs(fits)
        cursor = None if before is None else RunId(before)
        runs = await self._backend.retrying(lambda store: store.views.list_runs(listed, limit=limit, before=cursor))
        return [run_view(run) for run in runs]


async def _debounce(new: NewRun, quiet: Span, max_wait: Span, store: Store) -> Debounced:
    return await store.runs.debounce(new, quiet=quiet, max_wait=max_wait)


def _repeated(new: list[NewRun]) -> list[NewRun]:
    """The same starts for a retry: each may find its own run id, which the first attempt stored."""
    return [run._replace(own_id=True) for run in new]
