"""Where operations run: the contract, and an implementation without threads."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from stepwell.clock import Clock
from stepwell.stores.sqlite.database import Notify, Operation, Query, SqliteDatabase
from stepwell.stores.sqlite.faults import translated
from stepwell.stores.sqlite.forks import Stop, hold, release, running_loop

T = TypeVar("T")


class Runner(Protocol):
    """Runs writes in transactions and reads in snapshots, and sends hints after the commit."""

    encrypts: bool  # values that this runner writes are encrypted

    @property
    def database(self) -> SqliteDatabase: ...

    @property
    def is_exclusive(self) -> bool:
        """Whether no other process can see this database."""
        ...

    async def open(self, clock: Clock, notify: Notify) -> None:
        """Open the database for use on this event loop."""
        ...

    def write(
        self, operation: Operation[T], *, is_batch: bool = False, is_blocking: bool = False
    ) -> Coroutine[Any, Any, T]:
        """Run an operation in a transaction. When this returns, its writes are durable and its hints have been sent.

        `is_batch`: the operation is a batch itself and need not wait for others to share its transaction.
        `is_blocking`: it may block, so it does not run on the event loop.
        """
        ...

    async def read(self, query: Query[T], *, is_large: bool = False) -> T:
        """Run a query that sees every acknowledged write. A large query does not block the event loop."""
        ...

    def read_now(self, query: Query[T]) -> T:
        """`read` for a caller that cannot await, on the event loop's thread."""
        ...

    def has_changed(self) -> bool:
        """Whether another process has written since the last call; false if that cannot be determined now."""
        ...

    async def close(self) -> None:
        """Finish pending work and close the database."""
        ...


class InlineRunner:
    """Runs everything at once in the caller, one transaction per operation; for simulations and `:memory:`.

    Several stores may share one database, each with its own runner, as several processes would. All of them get the
    hints.
    """

    is_exclusive = True

    def __init__(self, database: SqliteDatabase) -> None:
        self.database = database
        self.encrypts = False
        self.loop: asyncio.AbstractEventLoop | None = None  # on whose thread everything runs
        self._clock: Clock | None = None
        self._notify: Notify | None = None

    async def open(self, clock: Clock, notify: Notify) -> None:
        self._clock, self._notify = clock, notify
        self.database.open(clock)
        self.database.handles.append(notify)
        self.loop = running_loop()
        hold(self)

    def stop_threads(self) -> list[Stop]:
        return []

    def drop(self) -> None:
        """In a forked child: let go of the parent's database."""
        self.database.handles.clear()
        self.database.drop()

    async def write(self, operation: Operation[T], *, is_batch: bool = False, is_blocking: bool = False) -> T:
        assert self._clock is not None
        result, hints = self.database.transact(operation, self._clock, encrypts=self.encrypts)
        if self.database.needs_checkpoint:
            self.database.checkpoint()
        for hint in hints:
            for notify in tuple(self.database.handles):
                notify(hint)
        return result

    async def read(self, query: Query[T], *, is_large: bool = False) -> T:
        return self.read_now(query)

    def read_now(self, query: Query[T]) -> T:
        with translated(self.database.path):
            return query(self.database.connection)

    def has_changed(self) -> bool:
        return False

    async def close(self) -> None:
        """Release the database. It stays open while another handle uses it; a database in memory keeps its contents."""
        if self._notify is not None and self._notify in self.database.handles:
            self.database.handles.remove(self._notify)
        if not self.database.handles and not self.database.is_memory:
            self.database.close()
        release(self)
