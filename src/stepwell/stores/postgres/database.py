"""A database, as one process uses it: its time, its hints, and the repetition of calls that conflicted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from stepwell.clock import Clock, Instant
from stepwell.environment import Environment
from stepwell.errors import StepwellError, StoreUnavailableError
from stepwell.ids import RunId
from stepwell.model.workers import Fence
from stepwell.stores.base.wakeups import Hint, HintKind
from stepwell.stores.postgres.blobs import NewBlobs
from stepwell.stores.postgres.calls import OPENING, STORE_BLOBS, Call, Hints, Opening, RunNumber, Statement
from stepwell.stores.postgres.faults import ConflictError, unavailable
from stepwell.stores.postgres.migrator import is_newest
from stepwell.stores.postgres.pool import Pool

T = TypeVar("T")

_CONFLICTS_MAX = 60
_PAUSE_SECONDS, _PAUSE_SECONDS_MAX = 0.002, 0.2


class PostgresDatabase:
    """Calls transitions and reads, and learns the time from the answers.

    Tests pass a `test_clock` clock, which then is the time; otherwise the server's clock is.
    """

    def __init__(self, pool: Pool, environment: Environment, where: str, test_clock: Clock | None = None) -> None:
        self.pool = pool
        self.where = where
        self.environment = environment
        self.blobs = NewBlobs()
        self.encrypts = False  # values that this handle writes are encrypted
        self.known: dict[RunId, tuple[Fence, RunNumber]] = {}  # runs whose plain commits take the fastest path
        self._test_clock = test_clock
        self._clock = environment.clock
        self._server_clock = pool.server_clock

    def now(self) -> Instant:
        """The server's clock, as far as this process knows it."""
        server_clock = self._server_clock
        return server_clock.show(
            server_clock.estimate(self._clock.monotonic()) if self._test_clock is None else self._test_clock.now()
        )

    async def open(self, prepare: Callable[[], None]) -> int:
        """Connect, prepare the database if anything is missing, and learn the time. Returns the database's identity."""
        await self.pool.open()
        try:
            found = await self._read_opening()
            if found is None:
                await self.pool.run_blocking(prepare)
                found = await self.read(OPENING)
        except BaseException:
            await self.pool.close()
            raise
        self._note_time(found.now)
        return found.identity

    async def _read_opening(self) -> Opening | None:
        """The state of the database, in one query; None unless it clearly is what this release needs."""
        try:
            found = await self.read(OPENING)
        except StoreUnavailableError:
            raise
        except (StepwellError, ValueError, msgspec.MsgspecError):
            return None  # `prepare` examines it and reports what is wrong
        return found if is_newest(found.version) else None

    async def read(self, call: Call[T], *arguments: Any) -> T:
        """Call a function that only reads."""
        return call.decode(await self._retrying(call, arguments, is_urgent=False))

    async def put(self, call: Call[T], *arguments: Any) -> T:
        """Call a transition that has no hints and whose time does not matter."""
        if not self.blobs.is_empty:
            await self._store_blobs()
        return await self.read(call, *arguments)

    async def put_one(self, statement: Statement[T | None], values: list[bytes | None]) -> T | None:
        """`put` for a single statement. None if it did not apply or conflicted."""
        if not self.blobs.is_empty:
            await self._store_blobs()
        try:
            return statement.decode(await self.pool.call(statement, values))
        except ConflictError:
            return None  # the caller then takes the slow path

    async def call_once(self, call: Call[Any], *arguments: Any) -> None:
        """Call once; conflicts are not repeated."""
        await self.pool.call(call, self.values(call, arguments))

    async def write(self, call: Call[tuple[Instant, T, Hints]], *arguments: Any, is_urgent: bool = False) -> T:
        """Call a transition. When this returns, it is durable and its hints have been sent."""
        if not self.blobs.is_empty:
            await self._store_blobs()
        call = call.encrypted if self.encrypts else call
        now, result, hints = call.decode(await self._retrying(call, arguments, is_urgent=is_urgent))
        self._note_time(now)
        if hints:
            self.notify_all(hints)
        return result

    def read_now(self, call: Call[T], *arguments: Any) -> T:
        """`read` for a caller that cannot await."""
        for _ in range(_CONFLICTS_MAX):
            try:
                return call.decode(self.pool.call_now(call, self.values(call, arguments)))
            except ConflictError:
                continue
        raise _overrun(self.where)

    def values(self, call: Call[Any], arguments: tuple[Any, ...]) -> list[bytes | None]:
        """The parameters of a call at this moment."""
        test_now, seen = None, self._server_clock.seen
        if self._test_clock is not None:
            test_now, seen = self._test_clock.now(), max(self._server_clock.shown, seen)
        try:
            return call.values(test_now, seen, arguments)
        except UnicodeEncodeError as error:
            raise ValueError(f"a text cannot be stored: {error.reason}") from error

    def note(self, answer: tuple[Instant, T, Hints]) -> tuple[T, Hints]:
        """Note the time of an answer that came by another way. Its hints must wait until it is durable."""
        now, result, hints = answer
        self._note_time(now)
        return result, hints

    def notify_all(self, hints: Hints) -> None:
        """Send hints to all listeners, each kind once."""
        kinds: dict[HintKind, dict[RunId, None]] = {}
        for kind, run_id in hints:
            runs = kinds.setdefault(kind, {})
            if run_id:  # empty: about no particular run
                runs[run_id] = None
        for kind, runs in kinds.items():
            hint = Hint(kind, tuple(runs))
            for notify in tuple(self.pool.listeners):
                notify(hint)

    async def _store_blobs(self) -> None:
        """Store the planned payloads before any row that may refer to them."""
        names, rows = self.blobs.take()
        call = STORE_BLOBS.encrypted if self.encrypts else STORE_BLOBS
        call.decode(await self._retrying(call, (rows,), is_urgent=False))
        self.blobs.stored(names, self.now())

    async def _retrying(self, call: Call[Any], arguments: tuple[Any, ...], *, is_urgent: bool) -> bytes:
        """Call a function, and repeat it while other transitions conflict."""
        pause, until = _PAUSE_SECONDS, float("inf")
        for _ in range(_CONFLICTS_MAX):
            try:
                return await self.pool.call(call, self.values(call, arguments), is_urgent=is_urgent)
            except ConflictError:
                now = self._clock.monotonic()
                until = min(until, now + (self.pool.urgent_timeout_seconds if is_urgent else self.pool.timeout_seconds))
                if now >= until:
                    break
                # A random pause, so that the conflicting calls do not meet again.
                await asyncio.sleep(pause * self.environment.random.random())
                pause = min(pause * 2, _PAUSE_SECONDS_MAX)
        raise _overrun(self.where)

    def _note_time(self, now: Instant) -> None:
        self._server_clock.note(now, self._clock.monotonic())


def _overrun(where: str) -> StoreUnavailableError:
    return unavailable(where, "other transactions conflicted again and again")
