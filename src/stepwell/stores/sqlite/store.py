"""The SQLite store: each method is one operation in a transaction, or one read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from stepwell.clock import Clock, Instant, Span
from stepwell.environment import Environment
from stepwell.ids import EventId, Incarnation, RunId
from stepwell.model.amendments import Amended, Amendment, Fork
from stepwell.model.cancels import Cancelled
from stepwell.model.commits import Applied, Commit
from stepwell.model.events import NewEvent, Published
from stepwell.model.holds import HoldAct, WorkflowHold
from stepwell.model.ledger import ACT_LAST, Act, ChainHead, NewAct, Reservation, Reserved, storable
from stepwell.model.locations import Location
from stepwell.model.outbox import Announce, Owed, Settled
from stepwell.model.runs import Claimed, Created, Debounced, History, Inbox, NewRun
from stepwell.model.signals import Delivered, NewSignal, Redelivery
from stepwell.model.transactions import Transaction as AuthorsTransaction
from stepwell.model.workers import Claimant, NewWorker, Renewed, Worker
from stepwell.stores.base.diagnosis import Diagnosis
from stepwell.stores.base.encryption import plaintext_refused
from stepwell.stores.base.outbox import Batch
from stepwell.stores.base.store import Capabilities
from stepwell.stores.base.transactions import Performed, Work
from stepwell.stores.base.upkeep import Upkeep
from stepwell.stores.sqlite.blobs import read_blob
from stepwell.stores.sqlite.caller_transactions import enqueue
from stepwell.stores.sqlite.connections import SYNCHRONOUS, Synchronous
from stepwell.stores.sqlite.database import SqliteDatabase, Valueless
from stepwell.stores.sqlite.histories import read_history, read_inbox
from stepwell.stores.sqlite.overviews import SqliteOverviews
from stepwell.stores.sqlite.records import SqliteRecords
from stepwell.stores.sqlite.retention import SqliteRetention
from stepwell.stores.sqlite.rows import encode_texts, to_owed
from stepwell.stores.sqlite.runners import InlineRunner, Runner
from stepwell.stores.sqlite.transaction import Transaction, row_of, rows_of
from stepwell.stores.sqlite.transfers import SqliteTransfers
from stepwell.stores.sqlite.transitions import (
    amendments,
    claims,
    holds,
    ledger,
    operators,
    outbox,
    performs,
    rescues,
    starts,
    workers,
)
from stepwell.stores.sqlite.transitions import signals as signal_transitions
from stepwell.stores.sqlite.transitions.audit import Actor
from stepwell.stores.sqlite.transitions.commits import apply
from stepwell.stores.sqlite.transitions.publications import publish
from stepwell.stores.sqlite.views import SqliteViews, in_snapshot
from stepwell.stores.sqlite.wakeups import SqliteWakeups
from stepwell.stores.sqlite.writer import Writer

_ENTRIES_FEW = 500
T = TypeVar("T")


class SqliteStore:
    """A handle on a SQLite file, as one process has it; any number of processes may have one.

    `synchronous="NORMAL"` is faster and loses acknowledged writes in a power failure (never when a process dies).
    With `is_shared`, the file may hold the tables of an application, which are not changed.
    If a `runner` is given, its database is used and `path` is only a name.
    """

    def __init__(
        self,
        environment: Environment,
        path: str | Path,
        *,
        synchronous: Synchronous = SYNCHRONOUS,
        is_shared: bool = False,
        runner: Runner | None = None,
    ) -> None:
        if runner is None:
            database = SqliteDatabase(str(path), synchronous=synchronous, is_shared=is_shared)
            runner = InlineRunner(database) if database.is_memory else Writer(database)
        self._runner = runner
        self._environment = environment
        self._is_shared = is_shared
        self._clock = environment.clock
        is_memory = runner.database.is_memory
        self.capabilities = Capabilities(
            "sqlite", survives_restart=not is_memory, is_shared=not is_memory, has_transactions=True
        )
        self.wakeups = SqliteWakeups(environment.executor, runner)
        self.runs = SqliteRuns(runner)
        self.signals = SqliteSignals(runner)
        self.events = SqliteEvents(runner)
        self.outbox = SqliteOutbox(runner)
        self.workers = SqliteWorkers(runner)
        self.holds = SqliteHolds(runner)
        self.ledger = SqliteLedger(runner)
        self.records = SqliteRecords(runner, self.now)
        self.transactions = SqliteTransactions(runner, self._clock)
        self.transfers = SqliteTransfers(runner)
        self.retention = SqliteRetention(runner)
        self.views = SqliteViews(runner, self.now)
        self.overviews = SqliteOverviews(runner, self.now)
        self.blobs = SqliteBlobs(runner, self.now)

    def now(self) -> Instant:
        """The clock's time, but never behind an instant that this database holds or this process has shown."""
        return self._runner.database.now(self._clock)

    def declare_encrypted(self) -> None:
        """See `Store.declare_encrypted`."""
        self._runner.encrypts = True

    def diagnosis(self) -> Diagnosis | None:
        """See `Store.diagnosis`."""
        from stepwell.stores.sqlite.diagnosis import SqliteDiagnosis

        if self._runner.database.is_memory:
            return None
        return SqliteDiagnosis(self._environment, Path(self._runner.database.path), is_shared=self._is_shared)

    def upkeep(self) -> Upkeep | None:
        """See `Store.upkeep`."""
        from stepwell.stores.sqlite.upkeep import SqliteUpkeep

        if self._runner.database.is_memory:
            return None
        return SqliteUpkeep(self._environment, Path(self._runner.database.path))

    async def open(self) -> None:
        """Open the file, and create or migrate what is missing."""
        await self._runner.open(self._clock, self.wakeups.notify)
        self.wakeups.open()

    async def close(self) -> None:
        """Finish pending writes, and close the file."""
        try:
            await self.wakeups.close()
        finally:
            await self._runner.close()


class SqliteRuns:
    """`RunStore` on SQLite."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def create(self, runs: Sequence[NewRun], claimant: Claimant | None = None) -> Coroutine[Any, Any, list[Created]]:
        return self._runner.write(lambda tx: starts.create(tx, runs, claimant))

    async def debounce(self, new: NewRun, *, quiet: Span, max_wait: Span) -> Debounced:
        return await self._runner.write(lambda tx: starts.debounce(tx, new, quiet, max_wait))

    async def claim(self, claimant: Claimant) -> list[Claimed]:
        return await self._runner.write(lambda tx: claims.claim(tx, claimant))

    async def load(self, run_ids: Sequence[RunId]) -> list[History]:
        ids = encode_texts(list(run_ids))
        size = await self._runner.read(lambda c: row_of(c, "views.measure", ids=ids))
        is_large = size is not None and size[0] > _ENTRIES_FEW
        return await self._runner.read(partial(_load, run_ids=run_ids, ids=ids), is_large=is_large)

    async def inbox(self, run_id: RunId) -> Inbox:
        return await self._runner.read(partial(_inbox, run_id=run_id))

    def apply(self, commits: Sequence[Commit], claimant: Claimant | None = None) -> Coroutine[Any, Any, list[Applied]]:
        return self._runner.write(lambda tx: apply(tx, commits, claimant), is_batch=True)

    async def cancel(
        self,
        run_id: RunId,
        *,
        compensate: bool,
        reason: str,
        by: str = "",
        announce: Announce | None = None,
        act: str = "",
    ) -> Cancelled:
        cancel = partial(operators.cancel, run_id=run_id, actor=Actor(by, act), announce=announce)
        return await self._runner.write(Valueless(partial(cancel, compensate=compensate, reason=reason)))

    async def pause(self, run_id: RunId, *, by: str, reason: str, act: str = "") -> bool:
        return await self._runner.write(Valueless(lambda tx: holds.pause(tx, run_id, Actor(by, act), reason)))

    async def resume(self, run_id: RunId, *, by: str, even_if_held: bool = True, act: str = "") -> bool:
        resume = partial(operators.resume, run_id=run_id, actor=Actor(by, act), even_if_held=even_if_held)
        return await self._runner.write(Valueless(resume))

    async def resume_rollback(
        self, run_id: RunId, *, by: str, act: str = "", undone: Location | None = None, reason: str = ""
    ) -> bool:
        resume = partial(operators.resume_rollback, run_id=run_id, actor=Actor(by, act), undone=undone, reason=reason)
        return await self._runner.write(Valueless(resume))

    async def retry(self, run_id: RunId, *, by: str, act: str = "") -> bool:
        return await self._runner.write(Valueless(lambda tx: operators.retry(tx, run_id, Actor(by, act))))

    async def amend(self, amendment: Amendment) -> Amended:
        return await self._runner.write(lambda tx: amendments.amend(tx, amendment))

    async def fork(self, fork: Fork) -> Created | None:
        return await self._runner.write(lambda tx: amendments.fork(tx, fork))

    async def rescue(self, *, stalls_max: int) -> list[RunId]:
        return await self._runner.write(Valueless(lambda tx: rescues.rescue(tx, stalls_max)))

    async def relinquish(self, incarnation: Incarnation, keep: Collection[RunId]) -> list[RunId]:
        return await self._runner.write(Valueless(lambda tx: rescues.relinquish(tx, incarnation, keep)))


class SqliteSignals:
    """`SignalStore` on SQLite."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def deliver(
        self, signals: Sequence[NewSignal], claimant: Claimant | None = None
    ) -> Coroutine[Any, Any, tuple[list[Delivered], list[Claimed]]]:
        return self._runner.write(lambda tx: signal_transitions.deliver(tx, signals, claimant))

    async def deliver_or_create(
        self, signal: NewSignal, run: NewRun, claimant: Claimant | None = None
    ) -> tuple[Created, Delivered, list[Claimed]]:
        return await self._runner.write(lambda tx: signal_transitions.deliver_or_create(tx, signal, run, claimant))

    async def drop(self, number: int, *, by: str, reason: str = "") -> bool:
        return await self._runner.write(Valueless(lambda tx: signal_transitions.drop(tx, number, Actor(by), reason)))

    async def redeliver(
        self, letters: Sequence[Redelivery], claimant: Claimant | None = None
    ) -> tuple[list[Delivered], list[Claimed]]:
        return await self._runner.write(lambda tx: signal_transitions.redeliver(tx, letters, claimant))


class SqliteEvents:
    """`EventStore` on SQLite."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def publish(
        self, events: Sequence[NewEvent], claimant: Claimant | None = None
    ) -> tuple[list[Published], list[Claimed]]:
        return await self._runner.write(lambda tx: publish(tx, events, claimant))


class SqliteOutbox:
    """`OutboxStore` on SQLite."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def take(
        self, incarnation: Incarnation, sink: str, *, limit: int, batch_max: int, keep: Collection[int] = ()
    ) -> list[Batch]:
        return await self._runner.write(lambda tx: outbox.take(tx, incarnation, sink, limit, batch_max, keep))

    async def settle(self, incarnation: Incarnation, settled: Sequence[Settled]) -> list[bool]:
        return await self._runner.write(lambda tx: outbox.settle(tx, incarnation, settled))

    async def next_due(self, sink: str) -> Instant | None:
        row = await self._runner.read(lambda c: row_of(c, "outbox.next_due", sink=sink))
        return None if row is None or row[0] is None else Instant(row[0])

    async def list_owed(self, *, is_dead: bool, limit: int, after: int = 0) -> list[Owed]:
        rows = await self._runner.read(
            lambda c: rows_of(c, "outbox.list_owed", is_dead=int(is_dead), limit=limit, after=after), is_large=True
        )
        return list(map(to_owed, rows))

    async def replay(self, event_id: EventId, sink: str | None = None, *, by: str, payload: bytes | None = None) -> int:
        def operation(tx: Transaction) -> int:
            return outbox.replay(tx, event_id, sink, by, payload)

        return await self._runner.write(Valueless(operation) if payload is None else operation)

    async def drop(self, event_id: EventId, sink: str | None = None, *, by: str, reason: str = "") -> int:
        return await self._runner.write(Valueless(lambda tx: outbox.drop(tx, event_id, sink, by, reason)))


class SqliteHolds:
    """`HoldStore` on SQLite."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def pause(self, workflow: str | None, *, by: str, reason: str, act: str = "") -> bool:
        actor = Actor(by, act)
        return await self._runner.write(Valueless(lambda tx: holds.pause_workflow(tx, workflow, actor, reason)))

    async def resume(self, workflow: str | None, *, by: str, act: str = "") -> bool:
        return await self._runner.write(Valueless(lambda tx: holds.resume_workflow(tx, workflow, Actor(by, act))))

    async def list_holds(self) -> list[WorkflowHold]:
        return await self._runner.read(holds.list_holds)

    async def list_acts(self, *, limit: int) -> list[HoldAct]:
        return await self._runner.read(lambda c: holds.list_acts(c, limit))


class SqliteLedger:
    """`LedgerStore` on SQLite."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def reserve(self, reservation: Reservation) -> Reserved:
        return await self._runner.write(Valueless(lambda tx: ledger.reserve(tx, reservation)))

    async def settle(self, scope: str, key: str, answer: str) -> None:
        await self._runner.write(Valueless(lambda tx: ledger.settle(tx, scope, key, answer)))

    async def note(self, act: NewAct) -> Act:
        return await self._runner.write(Valueless(lambda tx: ledger.note(tx, storable(act))))

    async def list_acts(self, *, limit: int, below: int = ACT_LAST) -> list[Act]:
        return await self._runner.read(lambda c: ledger.list_acts(c, limit, below))

    async def head(self) -> ChainHead:
        return await self._runner.read(ledger.read_head)


class SqliteWorkers:
    """`WorkerStore` on SQLite."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def register(self, worker: NewWorker) -> Worker:
        return await self._runner.write(lambda tx: workers.register(tx, worker))

    async def renew(self, incarnation: Incarnation, lease: int) -> Renewed:
        return await self._runner.write(lambda tx: workers.renew(tx, incarnation, lease))

    async def retire(self, incarnation: Incarnation) -> None:
        def operation(tx: Transaction) -> None:
            rescues.retire(tx, incarnation)

        await self._runner.write(Valueless(operation))


class SqliteBlobs:
    """`Blobs` in the database. The next transaction of this store writes a blob before anything else."""

    def __init__(self, runner: Runner, now: Callable[[], Instant]) -> None:
        self._runner = runner
        self._now = now

    def put(self, content: bytes) -> str:
        """See `Blobs.put`. A blob is durable as soon as a row that refers to it is."""
        # An early check with what this process knows; the write itself checks again.

        if self._runner.database.is_encrypted and not self._runner.encrypts:
            raise plaintext_refused()
        return self._runner.database.blobs.put(content, self._now())

    def get(self, name: str) -> bytes:
        """See `Blobs.get`."""
        content = self._runner.database.blobs.find(name)
        return self._runner.read_now(lambda c: read_blob(c, name)) if content is None else content

    def __repr__(self) -> str:
        return f"the database {self._runner.database.path!r}"


class SqliteTransactions:
    """`TransactionStore` on SQLite."""

    def __init__(self, runner: Runner, clock: Clock) -> None:
        self._runner = runner
        self._clock = clock

    async def perform(self, commit: Commit, work: Work, *, is_blocking: bool) -> Performed:
        database = self._runner.database
        return await self._runner.write(
            lambda tx: performs.perform(tx, database, commit, work), is_batch=True, is_blocking=is_blocking
        )

    async def run(self, work: Callable[[AuthorsTransaction], T]) -> T:
        database = self._runner.database
        result = await self._runner.write(lambda tx: performs.run(tx, database, work), is_blocking=True)
        if isinstance(result, Performed):
            assert result.error is not None
            raise result.error
        return result

    def enqueue(self, connection: Any, runs: Sequence[NewRun]) -> list[Created]:
        return enqueue(self._runner.database, self._clock, connection, runs, encrypts=self._runner.encrypts)


def _load(connection: apsw.Connection, run_ids: Sequence[RunId], ids: str) -> list[History]:
    def query() -> list[History]:
        numbers: dict[str, int] = dict(rows_of(connection, "views.list_ids", ids=ids))
        return [read_history(connection, numbers[one]) if one in numbers else History() for one in run_ids]

    return in_snapshot(connection, query)


def _inbox(connection: apsw.Connection, run_id: RunId) -> Inbox:
    def query() -> Inbox:
        row = row_of(connection, "runs.find_for_signal", run_id=run_id)
        return Inbox() if row is None else read_inbox(connection, row[0], run_id)

    return in_snapshot(connection, query)
