"""The pool: calls functions of the database, through shared connections or directly in the caller.

Why not `psycopg_pool`: it would replace only `_Connections` (85 lines below), and it does not fit what is around it.
- It opens connections in background tasks and retries for minutes; the caller only learns that its time is up. Here the
  caller that needs a connection opens it, within the time that its lease leaves, and gets the server's reason.
- It reads the clock and starts tasks by itself, which only `environment.py` may do (STYLE.md).
- We would need three of its pools: for ordinary calls, for urgent calls that must never wait, and a threaded one for
  transactional steps.
- Each call needs state that we keep per connection: prepared statements, the event loop's reader, and whether an answer
  is overdue.
Speed is not the reason.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from stepwell.environment import Environment
from stepwell.errors import StepwellError
from stepwell.stores.base.wakeups import Hint
from stepwell.stores.postgres.calls import Call, Value
from stepwell.stores.postgres.connections import Connection
from stepwell.stores.postgres.faults import unavailable
from stepwell.stores.postgres.server_clock import ServerClock
from stepwell.stores.postgres.sessions import connect, connect_now, connecting_seconds, outage, reconnect_now
from stepwell.stores.postgres.urls import Address

T = TypeVar("T")
Notify = Callable[[Hint], None]

_CONNECT_SECONDS = 5.0
_PAUSE_SECONDS = 0.05
# A call that is not answered by then never will be: the server is frozen, unreachable, or waits for a lost standby.
ANSWER_SECONDS_MAX = 30.0  # for processes without a lease
ANSWER_SECONDS_MIN = 1.0  # even if the lease is shorter


class Pool(Protocol):
    """Calls functions; each connection runs one call at a time."""

    server_clock: ServerClock
    is_exclusive: bool  # no other process or pool uses this database
    listeners: list[Notify]  # of the stores that use this pool; each gets the hints of all

    @property
    def timeout_seconds(self) -> float:
        """How many seconds an ordinary call may take, including connecting and waiting for a connection."""
        ...

    @property
    def urgent_timeout_seconds(self) -> float:
        """How many seconds an urgent call may take, so that it can be repeated within the lease."""
        ...

    def set_lease(self, seconds: float) -> None:
        """Set the length of the lease that depends on this pool: no call takes longer."""
        ...

    async def run_blocking(self, work: Callable[[], T]) -> T:
        """Run blocking work without blocking the event loop."""
        ...

    async def open(self) -> None:
        """Open the first connection. A closed pool may be opened again."""
        ...

    async def call(self, call: Call[Any], values: list[Value], *, is_urgent: bool = False) -> bytes:
        """Call a function. An urgent call never waits for another one. If it is the only call, it may block the event
        loop for two milliseconds.

        Raises `StoreUnavailableError` if no answer came, `ConflictError` if the call must be repeated.
        """
        ...

    def call_now(self, call: Call[Any], values: list[Value]) -> bytes:
        """`call` for a caller that cannot await."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class InlinePool:
    """One connection; every call runs at once in the caller. For simulations and tests in virtual time."""

    is_exclusive = True
    # Virtual time does not limit a real server on a busy machine.
    timeout_seconds = urgent_timeout_seconds = 60.0

    def __init__(self, address: Address) -> None:
        self.listeners: list[Notify] = []
        self.server_clock = ServerClock()
        self._address = address
        self._connection: Connection | None = None
        self.uses = 0
        self.calls = 0

    async def run_blocking(self, work: Callable[[], T]) -> T:
        return work()

    def set_lease(self, seconds: float) -> None:
        pass

    async def open(self) -> None:
        self.uses += 1

    async def call(self, call: Call[Any], values: list[Value], *, is_urgent: bool = False) -> bytes:
        return self.call_now(call, values)

    def call_now(self, call: Call[Any], values: list[Value]) -> bytes:
        self.calls += 1
        return self._use().call_now(call, values)

    async def close(self) -> None:
        self.uses -= 1
        if self.uses <= 0:
            self.end()

    def end(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.finish()
            self._connection = None

    def _use(self) -> Connection:
        if self._connection is not None and not self._connection.is_usable:
            self.end()
        if self._connection is None:
            self._connection = connect_now(self._address)
        return self._connection


class ConnectionPool:
    """A few shared connections, and one for calls that must not wait; opened when they are needed."""

    is_exclusive = False

    def __init__(self, address: Address, environment: Environment) -> None:
        self.listeners: list[Notify] = []
        self.server_clock = ServerClock()
        self._address = address
        self._environment = environment
        self._connections = _Connections(address.connections_max, self._connect)
        self._urgent = _Connections(1, self._connect)
        self._now: Connection | None = None
        self._lease: float | None = None
        self.calls = 0

    @property
    def timeout_seconds(self) -> float:
        return ANSWER_SECONDS_MAX if self._lease is None else max(ANSWER_SECONDS_MIN, self._lease)

    @property
    def urgent_timeout_seconds(self) -> float:
        # Two attempts fit in a lease: one over a dead connection, and one over a new one.
        return max(ANSWER_SECONDS_MIN, self.timeout_seconds / 3)

    def set_lease(self, seconds: float) -> None:
        self._lease = seconds

    async def run_blocking(self, work: Callable[[], T]) -> T:
        return await self._environment.executor.call_blocking(work)

    async def open(self) -> None:
        connection = await connect(self._address, self.timeout_seconds)
        self._connections.open()
        self._urgent.open()
        self._connections.give(connection)

    async def call(self, call: Call[Any], values: list[Value], *, is_urgent: bool = False) -> bytes:
        connections = self._urgent if is_urgent else self._connections
        timeout_seconds = self.urgent_timeout_seconds if is_urgent else self.timeout_seconds
        connection = connections.find() or await self._take(connections, timeout_seconds)
        self.calls += 1
        try:
            return await connection.call(call, values, is_brief=connections.is_calm, timeout_seconds=timeout_seconds)
        finally:
            connections.give(connection)
            if connection.is_late:
                self._drop_idle()

    async def _take(self, connections: _Connections, timeout_seconds: float) -> Connection:
        try:
            async with asyncio.timeout(max(timeout_seconds, connecting_seconds(self._address, timeout_seconds))):
                return await connections.take()
        except TimeoutError as error:
            raise unavailable(self._address.where, "no connection was free in time") from error

    def _drop_idle(self) -> None:
        """Drop the idle connections: one connection died silently, and each of the others could cost the same wait."""
        for connection in (*self._connections.take_idle(), *self._urgent.take_idle()):
            connection.finish()

    def call_now(self, call: Call[Any], values: list[Value]) -> bytes:
        if self._now is not None and not (self._now.is_usable and self._now.is_silent()):
            self._drop_now()
        if self._now is None:
            self._now = reconnect_now(self._address, self.urgent_timeout_seconds)
        self.calls += 1
        return self._now.call_now(call, values)

    async def close(self) -> None:
        for connection in (*self._connections.close(), *self._urgent.close()):
            self._release(connection)
        self._drop_now()

    def _release(self, connection: Connection) -> None:
        """Close a connection that is no longer needed."""
        connection.finish()

    def _drop_now(self) -> None:
        if self._now is not None:
            self._now.finish()
            self._now = None

    async def _connect(self) -> Connection:
        """A new connection. Retries while the server is briefly unreachable, which is safe before a request is sent.

        Raises only `StoreUnavailableError`.
        """
        clock = self._environment.clock
        timeout_seconds = min(_CONNECT_SECONDS, self.timeout_seconds)
        until = clock.monotonic() + timeout_seconds
        while True:
            try:
                return await connect(self._address, timeout_seconds)
            except StepwellError as error:
                if clock.monotonic() >= until:
                    raise outage(error, self._address.where) from error
                await asyncio.sleep(_PAUSE_SECONDS)


class _Connections:
    """A bounded number of connections, last in first out, so that spare connections stay idle."""

    def __init__(self, size: int, open_connection: Callable[[], Any]) -> None:
        self._size = size
        self._open = open_connection
        self._idle: list[Connection] = []
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_closed = False

    @property
    def is_calm(self) -> bool:
        """Whether only one connection is in use."""
        return self._taken == 1

    def find(self) -> Connection | None:
        """A free open connection, unless another caller is waiting for one."""
        if self._waiting:
            return None
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                self._taken += 1
                return connection
            connection.finish()
        return None

    async def take(self) -> Connection:
        """A connection for one caller, until it is given back."""
        while self._taken >= self._size:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except BaseException:
                if turn.done() and not turn.cancelled():
                    self._next()
                raise
            finally:
                if turn in self._waiting:
                    self._waiting.remove(turn)
        self._taken += 1
        try:
            while self._idle:
                connection = self._idle.pop()
                if connection.is_usable:
                    return connection
                connection.finish()
            opened: Connection = await self._open()
            return opened
        except BaseException:
            self._taken -= 1
            self._next()
            raise

    def give(self, connection: Connection) -> None:
        """Take back a connection, or add a new one. A broken connection is closed."""
        self._taken = max(0, self._taken - 1)
        if connection.is_usable and not self._is_closed:
            self._idle.append(connection)
        else:
            connection.finish()
        self._next()

    def open(self) -> None:
        """Keep connections that are given back."""
        self._is_closed = False

    def close(self) -> list[Connection]:
        """Close connections that are given back. The caller closes the idle ones, which are returned."""
        self._is_closed = True
        return self.take_idle()

    def take_idle(self) -> list[Connection]:
        """The idle connections; the caller owns them from now on."""
        idle, self._idle = self._idle, []
        return idle

    def _next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
