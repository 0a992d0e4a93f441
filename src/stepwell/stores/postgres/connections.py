"""A single connection: sends a statement and receives its answer without a thread."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import pq

from stepwell.stores.postgres.calls import Call, Value
from stepwell.stores.postgres.faults import read_only, translate
from stepwell.stores.postgres.texts import render

_FINE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
_PAUSE_CALLS = 100
_IDLE = pq.TransactionStatus.IDLE
# On a single core, the server could not answer while we poll.
_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_LOOKS_MAX, _NAP_MILLIS = (1_600, 0) if _CORES > 1 else (1, 2)  # two milliseconds in either case
_UNPREPARED = ("0A", "25", "26")  # classes of SQLSTATEs
_READ_ONLY = (b"default_transaction_read_only", b"in_hot_standby")


_SLICE_SECONDS = 0.1  # how often a waiting thread checks its time limit
_CANCEL_SECONDS = 1.0
_ANSWER_SECONDS_MAX = 60.0  # the default


class AnswerTimeout:
    """How long the server may stay silent while a thread waits for its answer."""

    def __init__(self, seconds: float = _ANSWER_SECONDS_MAX) -> None:
        self._seconds = seconds
        self._left = seconds
        self._seconds_max = float("inf")

    def begin(self, seconds: float | None = None) -> None:
        """Start to wait for an answer."""
        self._left = min(self._seconds if seconds is None else seconds, self._seconds_max)

    def count_slice(self) -> None:
        """Count a slice without any data. Raises `psycopg.OperationalError` if the time is up."""
        self._left -= _SLICE_SECONDS
        if self._left <= 0:
            raise psycopg.OperationalError("the server did not answer in time")

    def set(self, seconds: float) -> None:
        """Change the limit, from the next request on."""
        self._seconds = seconds

    def shorten(self, seconds: float) -> None:
        """Lower the limit, also for the request that is waiting now. May be called from another thread."""
        self._seconds_max = min(self._seconds_max, seconds)
        self._left = min(self._left, seconds)

    @property
    def is_shortened(self) -> bool:
        """Whether the store is being closed."""
        return self._seconds_max != float("inf")


class TimeoutConnection(psycopg.Connection[Any]):
    """A connection for threads that waits for the server only for a limited time."""

    _answer_timeout: AnswerTimeout | None = None

    @property
    def answer_timeout(self) -> AnswerTimeout:
        """How long it waits for an answer."""
        if self._answer_timeout is None:
            self._answer_timeout = AnswerTimeout()
        return self._answer_timeout

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        """Wait as the driver does, but only for a limited time. A request that is not answered in time is cancelled if
        possible.
        """
        kwargs.pop("interval", None)
        try:
            return super().wait(_counting_slices(gen, self.answer_timeout), _SLICE_SECONDS, *args[1:], **kwargs)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
                cancel(self, self.answer_timeout)
            raise


def _counting_slices(gen: Generator[Any, Any, Any], answer_timeout: AnswerTimeout) -> Generator[Any, Any, Any]:
    """Run the driver's generator, and count the slices without data, for which the driver sends zero."""
    answer_timeout.begin()
    ready: Any = None
    while True:
        try:
            wanted = gen.send(ready)
        except StopIteration as ended:
            return ended.value
        ready = yield wanted
        if not ready and ready is not None:
            answer_timeout.count_slice()


def cancel(connection: psycopg.Connection[Any], answer_timeout: AnswerTimeout) -> None:
    """Ask the server to cancel a request that no caller waits for; best effort, over a separate connection."""
    if psycopg.capabilities.has_cancel_safe() and not answer_timeout.is_shortened:
        with suppress(psycopg.Error, OSError):
            connection.cancel_safe(timeout=_CANCEL_SECONDS)


class Connection:
    """A connection to the server, used by one caller at a time.

    If a caller stops waiting for its answer, the connection becomes unusable and is closed, so that no caller ever gets
    the answer to another request.
    """

    def __init__(self, driver: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], schema: str, where: str) -> None:
        self.driver = driver
        self._pgconn = driver.pgconn
        self._schema = schema
        self._where = where
        self._prepared: dict[str, bytes] = {}
        self._waiting: asyncio.Future[None] | None = None
        self._poll = select.poll()
        self._until: float | None = None  # by the loop's clock
        self.answer_timeout = driver.answer_timeout if isinstance(driver, TimeoutConnection) else AnswerTimeout()
        self.is_late = False  # an answer did not come in time
        self._pause = 0  # how many calls skip busy waiting, because one was slow
        self._loop: asyncio.AbstractEventLoop | None = None
        self._socket = -1  # remembered: a lost connection no longer knows it
        self.on_input: Callable[[], None] | None = None  # called when data arrives from the server
        self.on_loss: Callable[[], None] = lambda: None
        self.must_write = False  # the URL names several servers, and only one accepts writes
        self.prepares = True  # prepare statements in the session; not behind a transaction pooler
        self.is_broken = False

    @property
    def is_usable(self) -> bool:
        """Whether the next call may use it."""
        return not self.is_broken and self._pgconn.status == pq.ConnStatus.OK

    def _check_server(self) -> None:
        """Raise if the server has reported that it no longer accepts writes: another server does, and has newer data. A
        process that only reads would otherwise not notice.
        """
        if self.must_write and any(self._pgconn.parameter_status(name) == b"on" for name in _READ_ONLY):
            self.is_broken = True
            raise read_only(self._where)

    # --- on the event loop ---

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Receive answers on this loop."""
        self._loop, self._socket = loop, self._pgconn.socket
        self._poll.register(self._socket, select.POLLIN)
        loop.add_reader(self._socket, self._readable)

    def detach(self) -> None:
        """Stop receiving. Must be called before the socket is closed, because its number may be reused."""
        if self._loop is not None:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._loop = None

    async def call(
        self, call: Call[Any], values: list[Value], *, is_brief: bool = False, timeout_seconds: float | None = None
    ) -> bytes:
        """Call a function and return its answer. If the caller is cancelled, the connection is broken.

        With `is_brief`, the call first polls for the answer for up to two milliseconds: if the event loop has nothing
        else to do for the store, a round of the loop and a wake-up cost more than the wait.
        The answer may take `timeout_seconds`.
        """
        is_done = False
        self._set_deadline(timeout_seconds)
        try:
            if self.prepares and call.is_kept:
                name = self._prepared.get(call.name)
                if name is None:
                    name = await self._prepare(call)
                self._pgconn.send_query_prepared(name, values, call.formats)
            else:
                self._pgconn.send_query_params(self._statement(call), values, None, call.formats)
            if is_brief:
                self._wait_here()
            answer = _value(await self._results())
            self._check_server()
            is_done = True
            return answer
        except psycopg.Error as error:
            is_done = self._pgconn.transaction_status == _IDLE and not _is_over(error)
            raise translate(error, self._where) from error
        finally:
            if not is_done:
                self.is_broken = True

    async def execute(self, statement: str, *, timeout_seconds: float | None = None) -> None:
        """Run a statement without parameters or rows."""
        is_done = False
        self._set_deadline(timeout_seconds)
        try:
            self._pgconn.send_query(statement.encode())
            await self._results()
            self._check_server()
            is_done = True
        except psycopg.Error as error:
            raise translate(error, self._where) from error
        finally:
            if not is_done:
                self.is_broken = True

    def _set_deadline(self, timeout_seconds: float | None) -> None:
        self._until = None if timeout_seconds is None or self._loop is None else self._loop.time() + timeout_seconds

    async def _prepare(self, call: Call[Any]) -> bytes:
        name = self._prepared[call.name] = call.name.encode()
        try:
            self._pgconn.send_prepare(name, self._statement(call))
            await self._results()
        except BaseException:
            del self._prepared[call.name]
            raise
        return name

    def _wait_here(self) -> None:
        """Poll for the answer for a moment. Other threads and processes that want this core go first."""
        if self._pause > 0:
            self._pause -= 1
        elif self._pgconn.flush() == 0:
            is_there = self._poll.poll
            for _ in range(_LOOKS_MAX):
                if is_there(_NAP_MILLIS):
                    self._pgconn.consume_input()
                    return
                os.sched_yield()
            self._pause = _PAUSE_CALLS

    async def _results(self) -> pq.abc.PGresult:
        pgconn = self._pgconn
        if pgconn.flush():
            await self._flush()
        last: pq.abc.PGresult | None = None
        while True:
            while pgconn.is_busy():
                await self._wait()
            found = pgconn.get_result()
            if found is None:
                if last is None:
                    raise psycopg.OperationalError("the server did not answer")
                return _checked(last)
            # The error of a failed commit follows the rows of its statement: the first error counts.
            if last is None or last.status in _FINE:
                last = found

    async def _wait(self) -> None:
        if self._loop is None:
            raise psycopg.OperationalError("the connection is closed")
        self._waiting = self._loop.create_future()
        try:
            async with asyncio.timeout_at(self._until):
                await self._waiting
        except TimeoutError:
            self.is_late = True
            raise psycopg.OperationalError("the server did not answer in time") from None
        finally:
            self._waiting = None

    async def _flush(self) -> None:
        """Send what did not fit into the socket, and receive what the server sends meanwhile."""
        if self._loop is not None:
            self._loop.add_writer(self._socket, self._wake)
        try:
            while self._pgconn.flush():
                await self._wait()
        finally:
            if self._loop is not None:
                self._loop.remove_writer(self._socket)

    def _readable(self) -> None:
        try:
            self._pgconn.consume_input()
        except psycopg.Error as error:
            self.is_broken = True
            self.detach()
            self.on_loss()
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_exception(error)
            return
        if self.on_input is not None:
            self.on_input()
        if self._waiting is None:
            # No request is pending: the server closes the connection, or sends a notice, which is harmless.
            if self._pgconn.status != pq.ConnStatus.OK:
                self.is_broken = True
                self.detach()
                self.on_loss()
        else:
            self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # --- for callers that cannot await ---

    def call_now(self, call: Call[Any], values: list[Value]) -> bytes:
        """`call` in the caller's thread."""
        pgconn = self._pgconn
        try:
            if not (self.prepares and call.is_kept):
                pgconn.send_query_params(self._statement(call), values, None, call.formats)
            else:
                name = self._prepared.get(call.name)
                if name is None:
                    name = call.name.encode()
                    pgconn.send_prepare(name, self._statement(call))
                    self._results_now()
                    self._prepared[call.name] = name
                pgconn.send_query_prepared(name, values, call.formats)
            answer = _value(self._results_now())
            self._check_server()
            return answer
        except psycopg.Error as error:
            self._note_broken(error)
            raise translate(error, self._where) from error

    def execute_now(self, text: str, *, timeout_seconds: float | None = None) -> None:
        """Run statements without parameters or rows, in the caller's thread."""
        try:
            self._pgconn.send_query(text.encode())
            self._results_now(timeout_seconds)
            self._check_server()
        except psycopg.Error as error:
            self._note_broken(error)
            raise translate(error, self._where) from error

    def _note_broken(self, error: psycopg.Error) -> None:
        is_busy = self._pgconn.transaction_status in (pq.TransactionStatus.ACTIVE, pq.TransactionStatus.UNKNOWN)
        self.is_broken |= is_busy or self._pgconn.status != pq.ConnStatus.OK or _is_over(error)

    def _results_now(self, timeout_seconds: float | None = None) -> pq.abc.PGresult:
        """`_results` for a thread. It checks the time limit regularly, so it does not wait permanently for a silent
        server.
        """
        pgconn, answer_timeout = self._pgconn, self.answer_timeout
        poll = select.poll()
        poll.register(pgconn.socket, select.POLLIN)
        answer_timeout.begin(timeout_seconds)
        last: pq.abc.PGresult | None = None
        try:
            while pgconn.flush():
                poll.modify(pgconn.socket, select.POLLIN | select.POLLOUT)
                self._wait_now(poll)
            poll.modify(pgconn.socket, select.POLLIN)
            while True:
                while pgconn.is_busy():
                    self._wait_now(poll)
                found = pgconn.get_result()
                if found is None:
                    if last is None:
                        raise psycopg.OperationalError("the server did not answer")
                    return _checked(last)
                if last is None or last.status in _FINE:
                    last = found
        except psycopg.OperationalError:
            if self.is_late and isinstance(self.driver, psycopg.Connection):
                cancel(self.driver, answer_timeout)
            raise

    def _wait_now(self, poll: select.poll) -> None:
        ready = poll.poll(_SLICE_SECONDS * 1_000)
        if not ready:
            try:
                self.answer_timeout.count_slice()
            except psycopg.OperationalError:
                self.is_late = True
                raise
        elif ready[0][1] & ~select.POLLOUT:
            self._pgconn.consume_input()

    def is_silent(self) -> bool:
        """Whether the server has sent nothing since the last answer; closing the connection counts as sending."""
        return not select.select([self._pgconn.socket], [], [], 0)[0]

    def finish(self) -> None:
        """Close the connection, even during a request."""
        self.is_broken = True
        self.detach()
        self._pgconn.finish()

    def _statement(self, call: Call[Any]) -> bytes:
        text = call.text or f"select {{f}}.{call.name}({call.placeholders})"
        return render(text, self._schema).encode()


def _is_over(error: psycopg.Error) -> bool:
    """Whether this connection is useless for a repetition: a new one may lead to the server that accepts writes, and
    has no outdated prepared statements.
    """
    return isinstance(error, psycopg.errors.ReadOnlySqlTransaction) or (error.sqlstate or "")[:2] in _UNPREPARED


def _checked(result: pq.abc.PGresult) -> pq.abc.PGresult:
    if result.status in _FINE:
        return result
    raise psycopg.errors.error_from_result(result)


def _value(result: pq.abc.PGresult) -> bytes:
    """The single value of the answer; empty without a row."""
    return (result.get_value(0, 0) or b"") if _checked(result).ntuples else b""
