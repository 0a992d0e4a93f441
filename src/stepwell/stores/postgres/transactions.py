"""An author's work inside our transaction, and starts inside an author's transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import pq

from stepwell.clock import Instant
from stepwell.errors import InvalidOptionError, StoreUnavailableError, TransactionError
from stepwell.model.commits import Commit, Verdict
from stepwell.model.runs import Created, NewRun
from stepwell.model.transactions import Transaction
from stepwell.stores.base.transactions import Performed, Work, no_open_transaction, not_a_connection
from stepwell.stores.postgres import calls
from stepwell.stores.postgres.calls import Call, Hints
from stepwell.stores.postgres.connections import Connection
from stepwell.stores.postgres.database import PostgresDatabase
from stepwell.stores.postgres.faults import ConflictError, translate, unavailable
from stepwell.stores.postgres.sessions import reconnect_now
from stepwell.stores.postgres.texts import quoted, render
from stepwell.stores.postgres.urls import Address

T = TypeVar("T")
_CONFLICTS_MAX = 20
# A process that is suspended, or whose machine is gone, blocks its run for no longer than this.
_IDLE_SECONDS = 30.0
_LAST_SECONDS = 1.0  # for an answer, once the store is closed


class PostgresTransactions:
    """`TransactionStore` on PostgreSQL. The work runs in a thread, on a connection of its own."""

    def __init__(self, database: PostgresDatabase, address: Address) -> None:
        self._database = database
        self._address = address
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._is_closed = False
        self.identity = 0

    async def perform(self, commit: Commit, work: Work, *, is_blocking: bool) -> Performed:
        performed, hints = await self._database.pool.run_blocking(
            lambda: self._retrying(lambda connection: self._perform(connection, commit, work))
        )
        self._database.notify_all(hints)
        return performed

    async def run(self, work: Callable[[Transaction], T]) -> T:
        def once(connection: Connection) -> T:
            self._begin(connection, "begin")
            self._call(connection, calls.BEGIN_WORK)
            result = self._run_work(connection, work)
            _commit(connection, self._address.where)
            return result

        return await self._database.pool.run_blocking(lambda: self._retrying(once))

    async def run_transition(self, call: Call[tuple[Instant, T, Hints]], *arguments: Any) -> T:
        """Run a transition of the whole store in a thread. Whatever the store's isolation level is, each statement of
        this transition sees everything that was committed before it.
        """

        def once(connection: Connection) -> tuple[T, Hints]:
            self._begin(connection, "begin isolation level read committed")
            answer = self._call(connection, call, *arguments)
            _commit(connection, self._address.where)
            return answer

        result, hints = await self._database.pool.run_blocking(lambda: self._retrying(once))
        self._database.notify_all(hints)
        return result

    def close(self) -> None:
        """Close all connections: idle ones now, busy ones when they are given back. No thread waits long for a server,
        because that would keep the process alive.
        """
        self._is_closed = True
        for connection in tuple(self._busy):
            connection.answer_timeout.shorten(_LAST_SECONDS)
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().finish()

    def _retrying(self, once: Callable[[Connection], T]) -> T:
        """Run it in a transaction; repeat it if another transaction conflicts."""
        clock = self._database.environment.clock
        until = clock.monotonic() + self._database.pool.timeout_seconds
        for _ in range(_CONFLICTS_MAX):
            connection = self._take()
            self._busy.add(connection)
            try:
                if self._is_closed:
                    connection.answer_timeout.shorten(_LAST_SECONDS)
                return once(connection)
            except ConflictError:
                if clock.monotonic() >= until:
                    break
            finally:
                self._busy.discard(connection)
                self._give(connection)
        raise unavailable(self._address.where, "other transactions conflicted again and again")

    def _perform(self, connection: Connection, commit: Commit, work: Work) -> tuple[Performed, Hints]:
        idle = f"set local idle_in_transaction_session_timeout = {int(_IDLE_SECONDS * 1_000)}"
        self._begin(connection, f"begin; {idle}")
        refused, _ = self._call(connection, calls.FIND_REFUSAL, calls.commit_out(commit))
        if refused is not None:
            connection.execute_now("rollback")
            return Performed(refused), ()
        now = self._database.now()
        try:
            full = self._run_work(connection, lambda author: work(author, now))
        except (ConflictError, TransactionError, StoreUnavailableError):
            raise
        except Exception as error:  # noqa: BLE001  whatever the work raises is its outcome
            connection.execute_now("rollback")
            return Performed(error=error), ()
        _check_messages(connection, self._address.where)
        (_, _, [applied]), hints = self._call(connection, calls.APPLY, None, None, [calls.commit_out(full)], None, None)
        if applied.verdict is not Verdict.APPLIED:
            connection.execute_now("rollback")
            return Performed(applied), ()
        _commit(connection, self._address.where)
        return Performed(applied, full), hints

    def _run_work(self, connection: Connection, work: Callable[[Transaction], T]) -> T:
        # Imported here: the module imports sqlite3, which read-only callers do not need.
        from stepwell.stores.postgres.author_transactions import AuthorTransaction

        author = AuthorTransaction(connection.driver, self._address.schema, self._address.where)
        try:
            return work(author)
        finally:
            author.close()

    def _call(self, connection: Connection, call: Call[tuple[Instant, T, Hints]], *arguments: Any) -> tuple[T, Hints]:
        call = call.encrypted if self._database.encrypts else call
        values = self._database.values(call, arguments)
        return self._database.note(call.decode(connection.call_now(call, values)))

    def _begin(self, connection: Connection, how: str) -> None:
        """Begin a transaction. If the connection fails, another one is used: nothing has been done yet."""
        try:
            connection.execute_now(how, timeout_seconds=self._database.pool.urgent_timeout_seconds)
        except StoreUnavailableError as error:
            connection.is_broken = True
            if connection.is_late:
                self._close_idle()  # the idle connections may be dead, too
            raise ConflictError(error.title) from error

    def _take(self) -> Connection:
        timeout_seconds = self._database.pool.timeout_seconds
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable and connection.is_silent():
                connection.answer_timeout.set(timeout_seconds)
                return connection
            connection.finish()
        return reconnect_now(self._address, timeout_seconds)

    def _give(self, connection: Connection) -> None:
        if connection.driver.pgconn.transaction_status != pq.TransactionStatus.IDLE and connection.is_usable:
            try:
                connection.execute_now("rollback")
            except Exception:  # noqa: BLE001  then the connection is unusable
                connection.is_broken = True
        if connection.is_usable:
            self._idle.append(connection)
        else:
            connection.finish()
        if self._is_closed:  # checked last: another thread may close the store
            self._close_idle()

    def enqueue(self, connection: Any, runs: Sequence[NewRun]) -> list[Created]:
        pgconn, call = _open_transaction(connection), calls.CREATE
        kind = "encrypted" if self._database.encrypts else ""
        try:
            self._check_identity(pgconn)
            # Set explicitly: an earlier call in the same transaction may have set another kind.
            statement = render(call.with_value_kind(kind), self._address.schema)
            result = _fine(pgconn.exec_params(statement.encode(), self._database.values(call, (list(runs), None))))
        except psycopg.Error as error:
            problem = translate(error, self._address.where)
            if isinstance(problem, ConflictError):
                problem = unavailable(self._address.where, str(problem))
            raise problem from error
        answer = result.get_value(0, 0)
        assert answer is not None
        created, _ = self._database.note(call.decode(answer))
        assert isinstance(created, list)  # without a claimant nothing is claimed
        return created

    def _check_identity(self, pgconn: pq.abc.PGconn) -> None:
        """Raise unless the connection is to this database: its tables contain its unique number."""
        meta = f"{quoted(self._address.schema)}.meta"
        found = _fine(pgconn.exec_params(b"select to_regclass($1::text) is not null", [meta.encode()]))
        if found.get_value(0, 0) == b"t":
            found = _fine(pgconn.exec_params(f"select value from {meta} where name = 'identity'".encode(), []))
            if found.ntuples == 1 and found.get_value(0, 0) == b"%d" % self.identity:
                return
        raise InvalidOptionError(
            f"transaction is of another database than {self._address.where}",
            where="transaction",
            why="rows of two databases cannot be committed together",
            fix="connect to the database that the engine uses",
        )


def _fine(result: pq.abc.PGresult) -> pq.abc.PGresult:
    if result.status != pq.ExecStatus.TUPLES_OK:
        raise psycopg.errors.error_from_result(result)
    return result


def _check_messages(connection: Connection, where: str) -> None:
    """Raise what the server sent without a request: for example, why it ended the session."""
    if connection.is_silent():
        return
    driver: Any = connection.driver
    try:
        driver.execute("select 1")
    except psycopg.Error as error:
        raise translate(error, where) from error


def _commit(connection: Connection, where: str) -> None:
    """Commit, and check that the transaction is intact: PostgreSQL would roll back a failed one instead."""
    if connection.driver.pgconn.transaction_status != pq.TransactionStatus.INTRANS:
        raise TransactionError(
            "a transactional step ended its transaction",
            where=where,
            why="a statement in it failed and its error was caught: PostgreSQL rejects everything after that",
            fix="let the error leave the body, or put a savepoint around the statement",
        )
    connection.execute_now("commit")


def _open_transaction(connection: Any) -> pq.abc.PGconn:
    """Raise `InvalidOptionError` unless it is a connection of psycopg with an open transaction."""
    if not isinstance(connection, (psycopg.Connection, psycopg.AsyncConnection)):
        raise not_a_connection(connection, "psycopg")
    if connection.pgconn.transaction_status != pq.TransactionStatus.INTRANS:
        raise no_open_transaction("begin one first (`with connection.transaction():`), or leave out transaction=")
    return connection.pgconn
