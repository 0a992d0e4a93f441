"""The PostgreSQL store: each method is one function of the database, in one round trip."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from typing import Any

import psycopg

from stepwell.clock import SECOND, Clock, Instant, Span
from stepwell.environment import Environment
from stepwell.ids import EventId, Incarnation, RunId
from stepwell.model.amendments import Amended, Amendment, Fork
from stepwell.model.cancels import Cancelled
from stepwell.model.commits import Applied, Commit
from stepwell.model.events import NewEvent, Published
from stepwell.model.failures import poisoned
from stepwell.model.holds import HoldAct, WorkflowHold
from stepwell.model.ledger import ACT_LAST, Act, ChainHead, NewAct, Reservation, Reserved, storable
from stepwell.model.locations import Location
from stepwell.model.outbox import Announce, Owed, Settled
from stepwell.model.records import Changed, Record, RecordChange, RecordEvent, RecordFilter, check_change
from stepwell.model.runs import Claimed, Created, Debounced, History, Inbox, NewRun
from stepwell.model.signals import Delivered, NewSignal, Redelivery
from stepwell.model.workers import Claimant, NewWorker, Renewed, Worker
from stepwell.stores.base.diagnosis import Diagnosis
from stepwell.stores.base.outbox import Batch
from stepwell.stores.base.store import Capabilities
from stepwell.stores.base.upkeep import Upkeep
from stepwell.stores.postgres import calls
from stepwell.stores.postgres.blobs import PostgresBlobs
from stepwell.stores.postgres.commits import apply
from stepwell.stores.postgres.database import PostgresDatabase
from stepwell.stores.postgres.migrator import check_ready, check_server, prepare
from stepwell.stores.postgres.overviews import PostgresOverviews
from stepwell.stores.postgres.pool import ConnectionPool, Pool
from stepwell.stores.postgres.refusals import refused
from stepwell.stores.postgres.retention import PostgresRetention
from stepwell.stores.postgres.sessions import open_connection
from stepwell.stores.postgres.transactions import PostgresTransactions
from stepwell.stores.postgres.transfers import PostgresTransfers
from stepwell.stores.postgres.urls import parse_address
from stepwell.stores.postgres.views import PostgresViews, is_storable
from stepwell.stores.postgres.wakeups import PostgresWakeups


class PostgresStore:
    """A handle on a database in one process. Any number of processes on any number of machines may use the database.

    The time is the server's. Without `may_create` nothing is created or migrated: missing tables are an error. For
    tests, a `test_clock` clock replaces the server's time, and a given `pool` makes the calls.
    """

    def __init__(
        self,
        environment: Environment,
        url: str,
        *,
        may_create: bool = True,
        test_clock: Clock | None = None,
        pool: Pool | None = None,
    ) -> None:
        self._environment = environment
        self._url = url
        self.address = parse_address(url)
        self._may_create = may_create
        self._database = PostgresDatabase(
            pool or ConnectionPool(self.address, environment), environment, self.address.where, test_clock
        )
        self.capabilities = Capabilities("postgres", survives_restart=True, is_shared=True, has_transactions=True)
        self.wakeups = PostgresWakeups(self._database, self.address, environment)
        self.runs = PostgresRuns(self._database)
        self.signals = PostgresSignals(self._database)
        self.events = PostgresEvents(self._database)
        self.outbox = PostgresOutbox(self._database)
        self.workers = PostgresWorkers(self._database)
        self.holds = PostgresHolds(self._database)
        self.ledger = PostgresLedger(self._database)
        self.records = PostgresRecords(self._database)
        self.transactions = PostgresTransactions(self._database, self.address)
        self.transfers = PostgresTransfers(self._database, self.transactions)
        self.retention = PostgresRetention(self._database)
        self.views = PostgresViews(self._database)
        self.overviews = PostgresOverviews(self._database)
        self.blobs = PostgresBlobs(self._database)

    def now(self) -> Instant:
        """The server's clock, as far as this process knows it. It never goes back."""
        return self._database.now()

    def declare_encrypted(self) -> None:
        """See `Store.declare_encrypted`."""
        self._database.encrypts = True

    def diagnosis(self) -> Diagnosis | None:
        """See `Store.diagnosis`."""
        from stepwell.stores.postgres.diagnosis import PostgresDiagnosis

        return PostgresDiagnosis(self._environment, self._url)

    def upkeep(self) -> Upkeep | None:
        """See `Store.upkeep`."""
        from stepwell.stores.postgres.upkeep import PostgresUpkeep

        return PostgresUpkeep(self._environment, self._url)

    async def open(self) -> None:
        """Connect, and create or migrate what is missing."""
        self.transactions.identity = await self._database.open(self._prepare)
        self._database.pool.listeners.append(self.wakeups.notify_own)
        self.wakeups.open()

    async def close(self) -> None:
        """Close all connections."""
        if self.wakeups.notify_own in self._database.pool.listeners:
            self._database.pool.listeners.remove(self.wakeups.notify_own)
        try:
            await self.wakeups.close()
        finally:
            self.transactions.close()
            await self._database.pool.close()

    def _prepare(self) -> None:
        connection = open_connection(self.address)
        try:
            check_server(connection, self.address.where)
            ready = prepare if self._may_create else check_ready
            ready(connection, self.address.schema, self.address.where)
        except psycopg.Error as error:
            raise refused(error, self.address.where) from error
        finally:
            connection.close()


class PostgresRuns:
    """`RunStore` on PostgreSQL."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._write = database.write
        self._read = database.read

    async def create(self, runs: Sequence[NewRun], claimant: Claimant | None = None) -> list[Created]:
        if len(runs) != 1 or claimant is None:
            created = await self._write(calls.CREATE, list(runs), claimant)
        else:
            created = await self._write(calls.CREATE_SINGLE, runs[0], claimant)
        if isinstance(created, list):
            return created
        assert claimant is not None
        return [calls.created_claimed(new, claimant.incarnation, created) for new in runs]

    async def debounce(self, new: NewRun, *, quiet: Span, max_wait: Span) -> Debounced:
        return await self._write(calls.DEBOUNCE, new, quiet, max_wait)

    async def claim(self, claimant: Claimant) -> list[Claimed]:
        return await self._write(calls.CLAIM, claimant)

    async def load(self, run_ids: Sequence[RunId]) -> list[History]:
        return await self._read(calls.LOAD, list(run_ids))

    async def inbox(self, run_id: RunId) -> Inbox:
        return await self._read(calls.INBOX, run_id)

    def apply(self, commits: Sequence[Commit], claimant: Claimant | None = None) -> Coroutine[Any, Any, list[Applied]]:
        return apply(self._database, commits, claimant)

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
        return await self._write(calls.CANCEL, run_id, compensate, reason, by, announce, act)

    async def pause(self, run_id: RunId, *, by: str, reason: str, act: str = "") -> bool:
        return await self._write(calls.PAUSE, run_id, by, reason, act)

    async def resume(self, run_id: RunId, *, by: str, even_if_held: bool = True, act: str = "") -> bool:
        return await self._write(calls.RESUME, run_id, by, even_if_held, act)

    async def resume_rollback(
        self, run_id: RunId, *, by: str, act: str = "", undone: Location | None = None, reason: str = ""
    ) -> bool:
        place = None if undone is None else calls.base64(undone)
        return await self._write(calls.RESUME_ROLLBACK, run_id, by, act, place, reason)

    async def retry(self, run_id: RunId, *, by: str, act: str = "") -> bool:
        return await self._write(calls.RETRY, run_id, by, act)

    async def amend(self, amendment: Amendment) -> Amended:
        return await self._write(calls.AMEND, amendment)

    async def fork(self, fork: Fork) -> Created | None:
        return await self._write(calls.FORK, fork)

    async def rescue(self, *, stalls_max: int) -> list[RunId]:
        freed, poison = await self._write(calls.RESCUE, stalls_max)
        for run_id, epoch, stalls, path, own in poison:
            failure = calls.base64(poisoned(run_id, stalls, path, own))
            if await self._write(calls.QUARANTINE, run_id, epoch, stalls, failure):
                freed.append(run_id)
        return freed

    async def relinquish(self, incarnation: Incarnation, keep: Collection[RunId]) -> list[RunId]:
        return await self._write(calls.RELINQUISH, incarnation, list(keep))


class PostgresSignals:
    """`SignalStore` on PostgreSQL."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._write = database.write

    async def deliver(
        self, signals: Sequence[NewSignal], claimant: Claimant | None = None
    ) -> tuple[list[Delivered], list[Claimed]]:
        return await self._write(calls.DELIVER, list(signals), claimant)

    async def deliver_or_create(
        self, signal: NewSignal, run: NewRun, claimant: Claimant | None = None
    ) -> tuple[Created, Delivered, list[Claimed]]:
        return await self._write(calls.DELIVER_OR_CREATE, signal, run, claimant)

    async def drop(self, number: int, *, by: str, reason: str = "") -> bool:
        return await self._write(calls.DROP_SIGNAL, number, by, reason)

    async def redeliver(
        self, letters: Sequence[Redelivery], claimant: Claimant | None = None
    ) -> tuple[list[Delivered], list[Claimed]]:
        return await self._write(calls.REDELIVER, list(letters), claimant)


class PostgresEvents:
    """`EventStore` on PostgreSQL."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._write = database.write

    async def publish(
        self, events: Sequence[NewEvent], claimant: Claimant | None = None
    ) -> tuple[list[Published], list[Claimed]]:
        return await self._write(calls.PUBLISH, list(events), claimant)


class PostgresOutbox:
    """`OutboxStore` on PostgreSQL."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._write = database.write
        self._read = database.read

    async def take(
        self, incarnation: Incarnation, sink: str, *, limit: int, batch_max: int, keep: Collection[int] = ()
    ) -> list[Batch]:
        return await self._write(calls.TAKE, incarnation, sink, limit, batch_max, list(keep))

    async def settle(self, incarnation: Incarnation, settled: Sequence[Settled]) -> list[bool]:
        return await self._write(calls.SETTLE, incarnation, list(settled))

    async def next_due(self, sink: str) -> Instant | None:
        return await self._read(calls.NEXT_DUE, sink)

    async def list_owed(self, *, is_dead: bool, limit: int, after: int = 0) -> list[Owed]:
        return await self._read(calls.LIST_OWED, is_dead, limit, after)

    async def replay(self, event_id: EventId, sink: str | None = None, *, by: str, payload: bytes | None = None) -> int:
        if payload is None:
            return await self._write(calls.REPLAY, event_id, sink, by, None)
        return await self._write(calls.REPLAY_EDITED, event_id, sink, by, calls.base64(payload))

    async def drop(self, event_id: EventId, sink: str | None = None, *, by: str, reason: str = "") -> int:
        return await self._write(calls.DROP, event_id, sink, by, reason)


class PostgresHolds:
    """`HoldStore` on PostgreSQL."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._write = database.write
        self._read = database.read

    async def pause(self, workflow: str | None, *, by: str, reason: str, act: str = "") -> bool:
        return await self._write(calls.PAUSE_WORKFLOW, workflow, by, reason, act)

    async def resume(self, workflow: str | None, *, by: str, act: str = "") -> bool:
        return await self._write(calls.RESUME_WORKFLOW, workflow, by, act)

    async def list_holds(self) -> list[WorkflowHold]:
        return await self._read(calls.LIST_HOLDS)

    async def list_acts(self, *, limit: int) -> list[HoldAct]:
        return await self._read(calls.LIST_HOLD_ACTS, limit)


class PostgresLedger:
    """`LedgerStore` on PostgreSQL."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._write = database.write
        self._read = database.read
        # One at a time: the lines of one process queue here, not on connections that other calls need.
        self._turn = asyncio.Lock()

    async def reserve(self, reservation: Reservation) -> Reserved:
        return await self._write(calls.RESERVE, *reservation)

    async def settle(self, scope: str, key: str, answer: str) -> None:
        await self._write(calls.SETTLE_REQUEST, scope, key, answer)

    async def note(self, act: NewAct) -> Act:
        async with self._turn:
            return await self._write(calls.NOTE_ACT, *storable(act))

    async def list_acts(self, *, limit: int, below: int = ACT_LAST) -> list[Act]:
        return await self._read(calls.LIST_ACTS, limit, below)

    async def head(self) -> ChainHead:
        return await self._read(calls.FIND_HEAD)


class PostgresRecords:
    """`RecordStore` on PostgreSQL."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._write = database.write
        self._read = database.read

    async def change(self, changes: Sequence[RecordChange], claimant: Claimant | None = None) -> list[Changed]:
        for change in changes:
            check_change(change)
        return await self._write(calls.CHANGE_RECORDS, list(changes), claimant)

    async def prune(self, kind: str, *, older_than: Span, limit: int) -> int:
        return await self._write(calls.PRUNE_RECORDS, kind, older_than, limit)

    async def due(self, kinds: Collection[str], *, limit: int) -> list[Record]:
        return await self._read(calls.DUE_RECORDS, list(kinds), limit)

    async def next_due(self, kinds: Collection[str]) -> Instant | None:
        return await self._read(calls.NEXT_DUE_RECORD, list(kinds))

    async def find(self, kind: str, record_id: str) -> Record | None:
        return await self._read(calls.FIND_RECORD, kind, record_id) if is_storable(kind + record_id) else None

    async def list_records(self, where: RecordFilter, *, limit: int, after: Record | None = None) -> list[Record]:
        if not _is_askable(where):
            return []
        number, due_at = (None, None) if after is None else (after.number, after.due_at)
        return await self._read(calls.LIST_RECORDS, where, limit, number, due_at)

    async def count(self, where: RecordFilter, *, limit: int) -> int:
        return await self._read(calls.COUNT_RECORDS, where, limit) if _is_askable(where) else 0

    async def list_events(
        self, kind: str, record_id: str, *, limit: int, before: int | None = None
    ) -> list[RecordEvent]:
        if not is_storable(kind + record_id):
            return []
        return await self._read(calls.LIST_RECORD_EVENTS, kind, record_id, limit, before)


def _is_askable(where: RecordFilter) -> bool:
    return is_storable("".join((where.kind, *where.states, *where.labels, where.run_id or "")))


class PostgresWorkers:
    """`WorkerStore` on PostgreSQL. Leases are renewed on a separate connection, so they never wait for other calls."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._write = database.write
        self._pool = database.pool

    async def register(self, worker: NewWorker) -> Worker:
        self._pool.set_lease(worker.lease / SECOND)
        return await self._write(calls.REGISTER, worker)

    async def renew(self, incarnation: Incarnation, lease: int) -> Renewed:
        return await self._write(calls.RENEW, incarnation, lease, is_urgent=True)

    async def retire(self, incarnation: Incarnation) -> None:
        await self._write(calls.RETIRE, incarnation)
