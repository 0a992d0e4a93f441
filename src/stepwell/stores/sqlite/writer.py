"""Group commit: all writes that are requested while one transaction is in progress share the next one.

Operations run on the event loop's thread: each is Python and a few microseconds of SQLite. In a thread of their own,
they would compete for the interpreter's lock at every statement. Calls that may block run in other threads: waiting for
another process's lock, checkpoints, large reads, and commits on a disk that is not much faster than waking a thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, TypeVar

import apsw

from stepwell.clock import Clock
from stepwell.errors import StepwellError, StoreUnavailableError
from stepwell.stores.base.wakeups import Hint
from stepwell.stores.sqlite.database import BatchAborted, Notify, Operation, Outcome, Query, SqliteDatabase
from stepwell.stores.sqlite.faults import LOCK_SECONDS_MAX, translated
from stepwell.stores.sqlite.file_registry import check_exclusive
from stepwell.stores.sqlite.forks import Stop, drop_connection, hold, release
from stepwell.stores.sqlite.log import LENGTHEN_AFTER_COMMITS

T = TypeVar("T")
Pending = tuple[Operation[Any], asyncio.Future[Any]]
Blocking = set[asyncio.Future[Any]]

# A commit that is expected to be faster than this is made on the loop's thread: handing it to a thread and back costs
# nearly as much. A slow commit raises the expectation for a while, so on a slow disk the thread commits.
QUICK_SECONDS = 0.001
_SMOOTHING = 0.125
# The time of a commit in the thread includes waiting for the interpreter, so now and then one is made on the loop.
_PROBE_EVERY = 50
# A transaction that no other operation could share starts at once. After this many in a row, one waits for the next
# round of the loop, because timers and sockets are only polled between two rounds.
_UNSHARED_MAX = 8
# After so many reads the loop gets a turn: a caller that polls whether a run has ended could otherwise block its end.
_READS_MAX = 50
_READ_BUSY_SECONDS = 1.0
_CHECK_SECONDS = 0.05
# How long the thread holds the lock for a busy loop; longer each time, so that a slow loop can take it eventually.
_OFFER_SECONDS_MIN = 0.05
_OFFER_SECONDS_MAX = 2.0
# How long the thread then leaves the lock to others: SQLite's own busy handler tries again within 100 ms.
_GAP_SECONDS = 0.12


class CallThread:
    """One thread that runs calls in order and reports on the event loop's thread."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: SimpleQueue[tuple[Callable[[], Any], Callable[[Outcome], None]] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], Any], report: Callable[[Outcome], None]) -> None:
        """Run `work` in the thread; `report` is called on the loop's thread."""
        self._calls.put((work, report))

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run `work` in the thread, and return a future of its result."""
        answer: asyncio.Future[T] = self._loop.create_future()
        self.call(work, partial(settle, answer))
        return answer

    def stop_for_fork(self) -> Stop:
        """Stop the thread behind its calls, while this process is forked."""
        stop = Stop()
        self.call(stop.here, _ignore)
        return stop

    def stop(self) -> None:
        """End the thread when its calls are done, and wait for that. It blocks, so the calls should be done already."""
        self.stop_later()
        self._thread.join()

    def stop_later(self) -> None:
        """End the thread when its calls are done, without waiting for that."""
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            work, report = call
            try:
                outcome = Outcome(work())
            except BaseException as error:  # noqa: BLE001  it is reported
                outcome = Outcome(error=error)
            try:
                self._loop.call_soon_threadsafe(report, outcome)
            except RuntimeError:  # the loop is closed: nothing is left to report to
                if self._calls.empty():
                    return
            del call, work, report, outcome


def settle(answer: asyncio.Future[Any], outcome: Outcome) -> None:
    """Set the outcome of a future, unless its caller no longer waits."""
    if answer.done():
        return
    if outcome.error is not None:
        answer.set_exception(outcome.error)
    else:
        answer.set_result(outcome.result)


def _ignore(_: Outcome) -> None:
    """The report of a call whose outcome does not matter."""


def _nothing() -> None:
    """A call that only takes its turn."""


class _LockOffer:
    """A lock that the thread offers to the loop: either the loop accepts it, or the thread withdraws the offer."""

    def __init__(self, take: Callable[[], None]) -> None:
        self._take = take
        self._decided = Lock()
        self._is_over = False
        self._accepted = Event()

    def accept(self) -> None:
        """On the loop's thread: continue with the lock, if the offer still stands."""
        with self._decided:
            if self._is_over:
                return
            self._is_over = True
        self._accepted.set()
        self._take()

    def is_accepted(self, seconds: float) -> bool:
        """In the thread: whether the offer was accepted within that time; otherwise it is withdrawn."""
        if self._accepted.wait(seconds):
            return True
        with self._decided:
            was_over, self._is_over = self._is_over, True
            return was_over


class Writer:
    """The runner of a real process: one transaction at a time, which all waiting operations share."""

    is_exclusive = False

    def __init__(self, database: SqliteDatabase, *, quick_seconds: float = QUICK_SECONDS) -> None:
        self.database = database
        self.encrypts = False
        self._quick_seconds = quick_seconds
        self._expected_seconds = 0.0
        self._thread_commits = 0
        self._reads = 0
        self._check_at = float("-inf")  # when a read next checks the files' names
        self._unshared = 0  # transactions in a row while no other callback was ready
        self._queue: list[Pending] = []
        self._batch: list[Pending] = []
        self._singly: list[Pending] = []  # of an aborted batch: each gets a transaction of its own
        self._blocking: Blocking = set()  # of operations that may block
        self._is_busy = False  # a transaction is planned or in progress
        self._is_in_thread = False  # the thread uses the writing connection
        self._is_closing = False
        self._callbacks = 0  # that the loop has called for a transaction
        self._call_thread: CallThread | None = None
        self._large_reads: CallThread | None = None
        self._reader: apsw.Connection | None = None
        self._large_reader: apsw.Connection | None = None

    # --- opening and closing ---------------------------------------------------------------

    async def open(self, clock: Clock, notify: Notify) -> None:
        if self._call_thread is not None:
            return
        check_exclusive(self.database.path)  # on this thread: a sqlite3 connection can be asked only in its own thread
        self._clock, self._notify = clock, notify
        self._loop = asyncio.get_running_loop()
        # The callbacks that are ready in this round of the loop. A loop that hides its queue counts as always busy.
        self._others_ready = getattr(self._loop, "_ready", (None,))
        self._call_thread = CallThread("stepwell-writer", self._loop)
        hold(self)
        try:
            await self._call_thread.run(partial(self.database.open, clock))
            self._reader = self.database.open_reader(busy_seconds=_READ_BUSY_SECONDS)
        except BaseException:
            self._call_thread.call(self.database.close, _ignore)
            self._call_thread.stop()
            self._call_thread = None
            release(self)
            raise
        self._is_closing = False

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop on whose thread the file is used, while it is open."""
        return None if self._call_thread is None else self._loop

    def stop_threads(self) -> list[Stop]:
        """Stop the other threads behind their calls, while this process is forked."""
        return [thread.stop_for_fork() for thread in (self._call_thread, self._large_reads) if thread is not None]

    def drop(self) -> None:
        """In a forked child: close the connections, which belong to the parent."""
        for connection in (self._reader, self._large_reader):
            drop_connection(connection)
        self._reader = self._large_reader = self._call_thread = self._large_reads = None
        self.database.drop()

    async def close(self) -> None:
        if self._call_thread is None:
            return
        self._is_closing = True
        try:
            while self._is_busy:
                await self._let_end(self._call_thread)
            if self._large_reads is not None:
                await self._large_reads.run(self._close_large_reader)
            self._close_reader()
            await self._call_thread.run(self.database.close)
        except asyncio.CancelledError:
            self._abandon(self._call_thread)
            raise
        if self._large_reads is not None:
            self._large_reads.stop()
        self._call_thread.stop()
        self._call_thread = self._large_reads = None
        release(self)

    async def _let_end(self, thread: CallThread) -> None:
        """Let the loop and the thread do what they have to do for the transaction in progress."""
        before = self._callbacks
        await thread.run(_nothing)  # this comes back behind everything that was on its way
        if self._is_busy and self._callbacks == before:
            # Ctrl-C interrupted a callback before its first line, and the loop does not call it again.
            self._is_in_thread = False
            self._interrupt()

    def _abandon(self, thread: CallThread) -> None:
        """Close was cancelled: the threads close their connections when they have finished their calls."""
        self._call_thread = None
        self._fail_pending(self._closed())
        self._close_reader()
        if self._large_reads is not None:
            self._large_reads.call(self._close_large_reader, _ignore)
            self._large_reads.stop_later()
            self._large_reads = None
        thread.call(self.database.close, _ignore)
        thread.stop_later()

    def _close_reader(self) -> None:
        if self._reader is not None:
            self.database.prepare_close(self._reader)
            self._reader.close()
            self._reader = None

    # --- reads -----------------------------------------------------------------------------

    async def read(self, query: Query[T], *, is_large: bool = False) -> T:
        if self._reader is None:
            raise self._closed()
        if self._clock.monotonic() >= self._check_at:  # checking at every read would cost too much
            self._check_at = self._clock.monotonic() + _CHECK_SECONDS
            self.database.check_files()
        if not is_large:
            self._reads += 1
            if self._reads % _READS_MAX == 0:
                await asyncio.sleep(0)
            return self.read_now(query)
        if self._large_reads is None:
            self._large_reads = CallThread("stepwell-reader", self._loop)
        return await self._large_reads.run(partial(self._read_large, query))

    def _read_large(self, query: Query[T]) -> T:
        if self._large_reader is None:
            self._large_reader = self.database.open_reader(busy_seconds=LOCK_SECONDS_MAX)
        with translated(self.database.path):
            return query(self._large_reader)

    def _close_large_reader(self) -> None:
        if self._large_reader is not None:
            self.database.prepare_close(self._large_reader)
            self._large_reader.close()
            self._large_reader = None

    def read_now(self, query: Query[T]) -> T:
        if self._reader is None:
            raise self._closed()
        if self.database.lost is not None:
            raise self.database.lost
        with translated(self.database.path):
            return query(self._reader)

    def has_changed(self) -> bool:
        if self._is_in_thread or self._reader is None:
            return False
        with translated(self.database.path):
            return self.database.has_changed(self._clock)

    # --- writes ----------------------------------------------------------------------------

    async def write(self, operation: Operation[T], *, is_batch: bool = False, is_blocking: bool = False) -> T:
        if self._call_thread is None or self._is_closing:
            raise self._closed()
        if (
            not is_blocking
            and not self._is_busy
            # The operations of a batch were collected already: waiting for a round of the loop would gain nothing.
            and (is_batch or self._commits_alone())
            and self._is_quick
            and self.database.blobs.is_empty
            and self.database.try_begin()
        ):
            return self._write_here(operation)
        answer: asyncio.Future[T] = self._loop.create_future()
        if is_blocking:
            self._blocking.add(answer)
            answer.add_done_callback(self._blocking.discard)
        self._queue.append((operation, answer))
        if not self._is_busy:
            self._is_busy = True
            # Not at once: all callbacks that are ready in this round of the loop share the transaction.
            self._loop.call_soon(self._begin)
        return await answer

    def _commits_alone(self) -> bool:
        """Whether no other operation could share the transaction. A caller that writes continuously yields at times."""
        self._unshared = 0 if self._others_ready or self._unshared >= _UNSHARED_MAX else self._unshared + 1
        return self._unshared > 0

    @property
    def _is_quick(self) -> bool:
        """Whether a commit is expected to take no longer than handing it to the thread."""
        return self._expected_seconds < self._quick_seconds or self._thread_commits >= _PROBE_EVERY

    def _write_here(self, operation: Operation[T]) -> T:
        """Run one operation in the begun transaction, entirely on the loop's thread."""
        self._is_busy = True
        try:
            result, hints = self.database.finish(operation, self._clock, self._commit_here, encrypts=self.encrypts)
        except Exception:
            self._continue()
            raise
        except BaseException:
            self._interrupt()
            raise
        try:
            self._after_commit()
        except BaseException:
            self._interrupt()
            raise
        for hint in hints:
            self._notify(hint)
        return result

    def _begin(self) -> None:
        self._callbacks += 1
        if self._call_thread is None:
            return  # closed meanwhile
        try:
            if self.database.try_begin():
                self._prepare()
            else:
                self._is_in_thread = True
                self._call_thread.call(self._wait_for_lock, self._waited)
        except StepwellError as error:
            self._take_batch()
            self._fail(error)
        except BaseException:
            self._interrupt()
            raise

    def _wait_for_lock(self) -> None:
        """In the thread: take the lock and offer it to the loop; release it while the loop is busy.

        The loop may be blocked by a caller whose own connection waits for this lock.
        """
        offer_seconds = _OFFER_SECONDS_MIN
        while True:
            self.database.begin(self._is_wanted)
            offer = _LockOffer(self._begun)
            self._loop.call_soon_threadsafe(offer.accept)
            if offer.is_accepted(offer_seconds):
                return
            self.database.rollback()
            time.sleep(_GAP_SECONDS)
            offer_seconds = min(offer_seconds * 2, _OFFER_SECONDS_MAX)

    def _begun(self) -> None:
        self._callbacks += 1
        self._is_in_thread = False
        if self._call_thread is None:
            return  # closed meanwhile
        try:
            self._prepare()
        except BaseException:
            self._interrupt()
            raise

    def _waited(self, outcome: Outcome) -> None:
        self._callbacks += 1
        if outcome.error is not None:
            self._is_in_thread = False
            self._take_batch()
            self._fail(outcome.error)

    def _prepare(self) -> None:
        """Write large payloads in the thread, before the operations that refer to them."""
        if self.database.blobs.is_large:
            self._use_thread(partial(self.database.write_blobs, self._clock, encrypts=self.encrypts), self._prepared)
        else:
            self._perform()

    def _prepared(self, outcome: Outcome) -> None:
        if outcome.error is not None:
            self._take_batch()
            self._fail(outcome.error)
        else:
            self._perform()

    def _is_wanted(self) -> bool:
        return not self._is_closing

    def _take_batch(self) -> None:
        if self._singly:
            taken = [self._singly.pop(0)]
        else:
            taken, self._queue = self._queue, []
        self._batch = [pending for pending in taken if not pending[1].done()]  # some callers may no longer wait

    def _perform(self) -> None:
        self._take_batch()
        operations = [operation for operation, _ in self._batch]
        if self._blocking and any(answer in self._blocking for _, answer in self._batch):
            work = partial(self.database.perform, operations, self._clock, encrypts=self.encrypts)
            self._use_thread(work, self._performed)
            return
        try:
            outcomes, hints = self.database.perform(operations, self._clock, encrypts=self.encrypts)
        except BatchAborted as aborted:
            self._abort_batch(aborted)
        except StepwellError as error:
            self._fail(error)
        else:
            self._commit(outcomes, hints)

    def _performed(self, outcome: Outcome) -> None:
        """Handle the outcome of a batch that ran in the thread."""
        match outcome.error:
            case None:
                self._commit(*outcome.result)
            case BatchAborted() as aborted:
                self._abort_batch(aborted)
            case error:
                self._fail(error)

    def _commit(self, outcomes: list[Outcome], hints: list[Hint]) -> None:
        report = partial(self._committed, outcomes, hints)
        is_slow = not self._is_quick
        if is_slow or self.database.blobs.is_written:
            self._thread_commits += is_slow
            self._use_thread(self.database.commit, report)
            return
        try:
            self._commit_here()
        except StepwellError as error:
            report(Outcome(error=error))
        else:
            report(Outcome())

    def _commit_here(self) -> None:
        begun = self._clock.monotonic()
        self.database.commit()
        self._note_seconds(self._clock.monotonic() - begun)

    def _note_seconds(self, took: float) -> None:
        weight = 1.0 if self._thread_commits else _SMOOTHING
        self._thread_commits = 0
        self._expected_seconds += (took - self._expected_seconds) * weight

    def _committed(self, outcomes: list[Outcome], hints: list[Hint], commit: Outcome) -> None:
        if commit.error is not None:
            self._fail(commit.error)
            return
        batch, self._batch = self._batch, []
        for (_, answer), outcome in zip(batch, outcomes, strict=True):
            settle(answer, outcome)
        self._after_commit()
        for hint in hints:
            self._notify(hint)

    def _after_commit(self) -> None:
        """After a commit: write the log back or lengthen it if needed, and continue."""
        if self.database.needs_checkpoint:
            self._use_thread(self.database.checkpoint, lambda _: self._continue())
        elif self.database.commits == LENGTHEN_AFTER_COMMITS:
            self._use_thread(self.database.lengthen_log, lambda _: self._continue())
        else:
            self._continue()

    def _abort_batch(self, aborted: BatchAborted) -> None:
        """Undo the whole batch. Its operations run again, each in a transaction of its own."""
        batch, self._batch = self._batch, []
        self._roll_back()
        if len(batch) == 1:
            settle(batch[0][1], Outcome(error=aborted.__cause__))
        else:
            self._singly = batch + self._singly
        self._continue()

    def _fail(self, error: BaseException) -> None:
        """The database failed: nothing of the batch was written, or it is unknown whether it was."""
        batch, self._batch = self._batch, []
        self._roll_back()
        for _, answer in batch:
            settle(answer, Outcome(error=error))
        self._continue()

    def _interrupt(self) -> None:
        """Ctrl-C interrupted a callback: without this, its callers would wait permanently and `close` would block."""
        if not self._is_in_thread:
            self._roll_back()
        self._fail_pending(StoreUnavailableError("the write was interrupted", where=self.database.path))
        self._continue()

    def _fail_pending(self, error: StoreUnavailableError) -> None:
        """Fail all pending operations: they were not written, or it is unknown whether they were."""
        waiting = [*self._batch, *self._singly, *self._queue]
        self._batch, self._singly, self._queue = [], [], []
        for _, answer in waiting:
            settle(answer, Outcome(error=error))

    def _roll_back(self) -> None:
        try:
            self.database.rollback()
        except StepwellError:
            pass  # the next transaction meets the same fault and reports it

    def _continue(self) -> None:
        if self._singly or self._queue:
            self._loop.call_soon(self._begin)
            return
        self._is_busy = False

    def _use_thread(self, work: Callable[[], Any], report: Callable[[Outcome], None]) -> None:
        assert self._call_thread is not None
        self._is_in_thread = True
        self._call_thread.call(work, partial(self._returned, report))

    def _returned(self, report: Callable[[Outcome], None], outcome: Outcome) -> None:
        self._callbacks += 1
        self._is_in_thread = False
        if self._call_thread is None:
            return  # closed meanwhile
        try:
            report(outcome)
        except BaseException:
            self._interrupt()
            raise

    def _closed(self) -> StoreUnavailableError:
        return StoreUnavailableError(f"{self.database.path} is not open", where=self.database.path)
