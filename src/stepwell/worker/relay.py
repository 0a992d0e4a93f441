"""The relay: takes the events for one sink from the outbox, and sends them in the order of each run."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from stepwell.clock import SECOND, Span, span, to_datetime, to_timedelta
from stepwell.codec.base import Codec, Place, event_row
from stepwell.codec.carried import decode_headers
from stepwell.environment import wait_set
from stepwell.errors import Fatal, StepwellError
from stepwell.model.failures import record_failure
from stepwell.model.outbox import OWN_PREFIX, Owed, Settled, Unsent
from stepwell.sinks.base import EmittedEvent, Sink
from stepwell.sinks.handlers import is_async
from stepwell.stores.base.outbox import Batch
from stepwell.worker.lease import Lease
from stepwell.worker.resources import Resources
from stepwell.worker.rounds import PAUSE, Rounds, until_answered

_LOG = logging.getLogger("stepwell.worker")

BATCHES_MAX = 16  # that a sink sends at once, each of another run
BLOCKING_MAX = 4  # if each needs a thread: steps need threads, too
BATCH_MAX = 10  # events of one run that are taken at once
FAILURE_MAX = 500  # characters of a failure that are kept


class Relay:
    """Serves one sink. A slow or broken sink does not delay the others."""

    def __init__(self, resources: Resources, rounds: Rounds, sink: Sink) -> None:
        self._resources = resources
        self._rounds = rounds
        self._store = resources.store
        self._sink = sink
        self._busy: dict[int, Lease] = {}  # the batches that are being sent, by their first number
        self._wake = asyncio.Event()
        self._is_stopping = False
        self._abandoned: set[_BlockingCall] = set()  # calls that timed out; their threads cannot be stopped
        self._limit = BATCHES_MAX if is_async(sink.send) else BLOCKING_MAX
        self._in_doubt = False  # an answer was lost, so the store may count batches as taken that are unknown here
        self._tasks: set[asyncio.Task[None]] = set()

    # --- lifecycle ---

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._resources.environment.executor.spawn(work, name="stepwell-relay")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def wake(self) -> None:
        """The outbox may have events for this sink."""
        self._wake.set()

    async def drain(self, deadline: float) -> None:
        """Take nothing more, and let the batches in flight be settled until the deadline, by the monotonic clock."""
        self._is_stopping = True
        self._wake.set()
        clock = self._resources.environment.clock
        while self._busy and (left := deadline - clock.monotonic()) > 0:
            self._wake.clear()
            await wait_set(self._wake, left)
        rest = tuple(self._tasks)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    # --- the loop ---

    async def serve(self) -> None:
        """Send events until this is cancelled."""
        while True:
            if self._is_stopping:
                await asyncio.Event().wait()
            self._wake.clear()
            pause = await self._rounds.guarded(self.serve_once(), otherwise=None)
            if pause is None:
                await asyncio.sleep(PAUSE)
            elif pause > 0:
                await wait_set(self._wake, pause)

    async def serve_once(self) -> float | None:
        """Take due events, and begin to send them; returns the seconds until the next event is due."""
        lease = self._resources.lease
        free = self._limit - len(self._busy) - len(self._abandoned)
        if free <= 0 or not lease.is_live():
            return PAUSE if free > 0 else float("inf")
        if not self._in_doubt:
            due = await self._store.outbox.next_due(self._sink.name)
            if due is None:
                return float("inf")
            wait = (due - self._store.now()) / SECOND
            if wait > 0:
                return wait
        for batch in await self._take(lease, free):
            if self._is_stopping:
                break  # they are released when the worker retires
            self._busy[batch[0].number] = lease
            self._spawn(self._relay(batch, lease))
        return 0.0

    async def _take(self, lease: Lease, limit: int) -> list[Batch]:
        was_in_doubt, self._in_doubt = self._in_doubt, True
        keep = [number for number, holder in self._busy.items() if holder is lease]
        batches = await self._store.outbox.take(
            lease.incarnation, self._sink.name, limit=limit, batch_max=BATCH_MAX, keep=keep
        )
        # While in doubt, a full answer may not contain all batches of this worker.
        self._in_doubt = was_in_doubt and len(batches) == limit
        return batches

    # --- sending ---

    async def _relay(self, batch: Batch, lease: Lease) -> None:
        try:
            settled = await self._send_all(batch, lease)
            await until_answered(lambda: self._store.outbox.settle(lease.incarnation, [settled]))
        except StepwellError:
            _LOG.exception("sink %s: the result of a batch could not be stored", self._sink.name)
            self._in_doubt = True
        finally:
            self._busy.pop(batch[0].number, None)
            self._wake.set()

    async def _send_all(self, batch: Batch, lease: Lease) -> Settled:
        """Send a run's events one after the other, until one fails."""
        sent: list[int] = []
        for owed in batch:
            # After the lease has expired, other workers may send them: ours would arrive out of order.
            if self._is_stopping or lease is not self._resources.lease or not lease.is_live():
                break
            error = await self._send(owed)
            if error is not None:
                return Settled(batch[0].number, tuple(sent), self._unsent(owed, error))
            sent.append(owed.number)
        return Settled(batch[0].number, tuple(sent))

    async def _send(self, owed: Owed) -> BaseException | None:
        """One attempt; returns its error, if any."""
        try:
            await self._attempt(self._event(owed))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return error
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001  any exception of a sink is a failed attempt
            return error
        return None

    async def _attempt(self, event: EmittedEvent) -> None:
        timer = asyncio.timeout(span(self._sink.timeout) / SECOND)
        try:
            async with timer:
                await self._call(event)
        except TimeoutError as error:
            if not timer.expired():
                raise
            raise TimeoutError(f"it took longer than its limit of {to_timedelta(span(self._sink.timeout))}") from error

    async def _call(self, event: EmittedEvent) -> None:
        if is_async(self._sink.send):
            await self._sink.send(event)
            return
        call = _BlockingCall(functools.partial(self._sink.send, event), self._thread_ended)
        try:
            result = await self._resources.environment.executor.call_blocking(call)
        except asyncio.CancelledError:
            if call.is_running:
                self._abandoned.add(call)
            raise
        if inspect.isawaitable(result):
            await result

    def _thread_ended(self, call: _BlockingCall) -> None:
        self._abandoned.discard(call)
        self._wake.set()

    def _event(self, owed: Owed) -> EmittedEvent:
        return EmittedEvent(
            id=owed.event_id,
            name=owed.name,
            payload=read_payload(self._resources.codec, owed),
            run_id=owed.run_id,
            workflow=owed.workflow,
            key=owed.key,
            path=owed.path,
            at=to_datetime(owed.at),
            sent_at=to_datetime(self._store.now()),
            attempt=owed.attempts + 1,
            headers=decode_headers(self._resources.codec, owed.headers, workflow=owed.workflow, run_id=owed.run_id),
        )

    async def close(self) -> None:
        """Close the connection of the sink, if it has one."""
        close = getattr(self._sink, "close", None)
        if not inspect.iscoroutinefunction(close):
            return
        try:
            await close()
        except Exception:  # noqa: BLE001  the worker ends all the same
            _LOG.exception("sink %s could not be closed", self._sink.name)

    def _unsent(self, owed: Owed, error: BaseException) -> Unsent:
        attempt, retry = owed.attempts + 1, self._sink.retry
        record = record_failure(error)
        failure = f"{record.code} {record.summary}".strip()[:FAILURE_MAX]
        retry_in = decide_retry(self._sink, attempt, error, self._resources.environment.random.random())
        fate = "no further retry" if retry_in is None else f"retry in {retry_in / SECOND:.1f} s"
        _LOG.warning(
            "sink %s: event %s (%s) was not sent, attempt %d%s: %s; %s",
            self._sink.name,
            owed.name,
            owed.event_id,
            attempt,
            "" if retry.max_attempts is None else f" of {retry.max_attempts}",
            failure,
            fate,
        )
        return Unsent(owed.number, failure, retry_in)


class Relays:
    """The relays of a worker, one for each sink."""

    def __init__(self, resources: Resources, rounds: Rounds) -> None:
        self._relays = [Relay(resources, rounds, sink) for sink in resources.routes.all]

    def __iter__(self) -> Iterator[Relay]:
        return iter(self._relays)

    def wake(self) -> None:
        """The outbox may have events for any sink."""
        for relay in self._relays:
            relay.wake()

    async def close(self) -> None:
        """Close the connections that sinks have open."""
        for relay in self._relays:
            await relay.close()

    async def drain(self, deadline: float) -> None:
        """Drain all of them until the deadline, by the monotonic clock."""
        await asyncio.gather(*(relay.drain(deadline) for relay in self._relays))


class _BlockingCall:
    """A call in a thread that reports its end."""

    def __init__(self, call: Callable[[], Any], on_end: Callable[[_BlockingCall], None]) -> None:
        self._call = call
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self.is_running = False

    def __call__(self) -> Any:
        self.is_running = True
        try:
            return self._call()
        finally:
            self.is_running = False
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._on_end, self)


def decide_retry(sink: Sink, attempt: int, error: BaseException, chance: float) -> Span | None:
    """How long to wait after failed attempt number `attempt`; None if it was the last."""
    if sink.retry.is_last(attempt) or isinstance(error, Fatal):
        return None
    failed = error if isinstance(error, Exception) else RuntimeError(str(error))
    try:
        is_worth_it = isinstance(failed, TimeoutError) or sink.retry.may_retry(failed)
        return sink.retry.wait_after(attempt, failed, chance) if is_worth_it else None
    except Exception:  # noqa: BLE001  the policy's own callable failed
        return None


def read_payload(codec: Codec, owed: Owed) -> Any:
    """The payload of an event. The store itself writes stepwell's own events, which are not encrypted."""
    if owed.name.startswith(OWN_PREFIX):
        return codec.decode_body(owed.payload[1:], Any, Place(owed.workflow, owed.path, "the event"))
    place = Place(owed.workflow, owed.path, "the event", row=event_row(owed.run_id, owed.path, owed.event_id))
    return codec.decode(owed.payload, Any, place=place)
