"""A database as one process has it: its time, its hints, and asking again what met another one's transition."""

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
from stepwell.stores.postgres.calls import LOOK_IN, STORE_BLOBS, Call, Hints, Opening, RunNumber, Statement
from stepwell.stores.postgres.faults import ConflictError, unavailable
from stepwell.stores.postgres.migrator import is_newest
from stepwell.stores.postgres.pool import Pool

T = TypeVar("T")

_CONFLICTS_MAX = 60
_PAUSE_SECONDS, _PAUSE_SECONDS_MAX = 0.002, 0.2


class PostgresDatabase:
    """Calls transitions and readings, and keeps what the answers say of the time.

    With a `told` clock that is the time, as tests want it; without, the server's own is.
    """

    def __init__(self, pool: Pool, environment: Environment, where: str, told: Clock | None = None) -> None:
        self.pool = pool
        self.where = where
        self.environment = environment
        self.blobs = NewBlobs()
        self.encrypts = False  # values that are written through here are encrypted
        self.known: dict[RunId, tuple[Fence, RunNumber]] = {}  # runs whose plain commits go the shortest way
        self._told = told
        self._clock = environment.clock
        self._times = pool.times

    def now(self) -> Instant:
        """The server's clock, as far as this process knows it."""
        times = self._times
        return times.show(times.estimate(self._clock.monotonic()) if self._told is None else self._told.now())

    async def open(self, prepare: Callable[[], None]) -> int:
        """Connect, prepare the database unless all is there, and learn what time it is; the number that is its own."""
        await self.pool.open()
        try:
            found = await self._look_in()
            if found is None:
                await self.pool.beside(prepare)
                found = await self.read(LOOK_IN)
        except BaseException:
            await self.pool.close()
            raise
        self._note_time(found.now)
        return found.identity

    async def _look_in(self) -> Opening | None:
        """What there is, in one question; None if that is not plainly all that this release needs."""
        try:
            found = await self.read(LOOK_IN)
        except StoreUnavailableError:
            raise
        except (StepwellError, ValueError, msgspec.MsgspecError):
            return None  # whoever prepares looks closely, and says what it is
        return found if is_newest(found.version) else None

    async def read(self, call: Call[T], *arguments: Any) -> T:
        """Ask a function that only reads."""
        return call.decode(await self._surely(call, arguments, is_urgent=False))

    async def put(self, call: Call[T], *arguments: Any) -> T:
        """Carry out a transition that has no hints, and whose time is of no interest."""
        if not self.blobs.is_empty:
            await self._store_blobs()
        return await self.read(call, *arguments)

    async def put_one(self, statement: Statement[T | None], values: list[bytes | None]) -> T | None:
        """`put` by a statement of its own."""
        if not self.blobs.is_empty:
            await self._store_blobs()
        try:
            return statement.decode(await self.pool.call(statement, values))
        except ConflictError:
            return None  # whoever judges it asks again

    async def say(self, call: Call[Any], *arguments: Any) -> None:
        """Ask once, whatever comes of it."""
        await self.pool.call(call, self.values(call, arguments))

    async def write(self, call: Call[tuple[Instant, T, Hints]], *arguments: Any, is_urgent: bool = False) -> T:
        """Carry out a transition. When this returns it is durable, and its hints have been told."""
        if not self.blobs.is_empty:
            await self._store_blobs()
        call = call.encrypted if self.encrypts else call
        now, result, hints = call.decode(await self._surely(call, arguments, is_urgent=is_urgent))
        self._note_time(now)
        if hints:
            self.tell_all(hints)
        return result

    def look(self, call: Call[T], *arguments: Any) -> T:
        """`read`, for a caller that cannot wait."""
        for _ in range(_CONFLICTS_MAX):
            try:
                return call.decode(self.pool.call_now(call, self.values(call, arguments)))
            except ConflictError:
                continue
        raise _overrun(self.where)

    def values(self, call: Call[Any], arguments: tuple[Any, ...]) -> list[bytes | None]:
        """The parameters of a call at this moment."""
        told, seen = None, self._times.seen
        if self._told is not None:
            told, seen = self._told.now(), max(self._times.shown, seen)
        try:
            return call.values(told, seen, arguments)
        except UnicodeEncodeError as error:
            raise ValueError(f"a text cannot be stored: {error.reason}") from error

    def note(self, answer: tuple[Instant, T, Hints]) -> tuple[T, Hints]:
        """What an answer that came by another way says; its hints are for when it is durable."""
        now, result, hints = answer
        self._note_time(now)
        return result, hints

    def tell_all(self, hints: Hints) -> None:
        """Tell what may have changed, each kind once."""
        kinds: dict[HintKind, dict[RunId, None]] = {}
        for kind, run_id in hints:
            runs = kinds.setdefault(kind, {})
            if run_id:  # else it is about none in particular
                runs[run_id] = None
        for kind, runs in kinds.items():
            hint = Hint(kind, tuple(runs))
            for tell in tuple(self.pool.listeners):
                tell(hint)

    async def _store_blobs(self) -> None:
        """Before anything that may refer to them."""
        names, rows = self.blobs.take()
        call = STORE_BLOBS.encrypted if self.encrypts else STORE_BLOBS
        call.decode(await self._surely(call, (rows,), is_urgent=False))
        self.blobs.stored(names)

    async def _surely(self, call: Call[Any], arguments: tuple[Any, ...], *, is_urgent: bool) -> bytes:
        """Ask until no other transition is in the way."""
        pause, until = _PAUSE_SECONDS, float("inf")
        for _ in range(_CONFLICTS_MAX):
            try:
                return await self.pool.call(call, self.values(call, arguments), is_urgent=is_urgent)
            except ConflictError:
                now = self._clock.monotonic()
                until = min(until, now + (self.pool.patience_urgent if is_urgent else self.pool.patience))
                if now >= until:
                    break
                # Not all at the same moment again.
                await asyncio.sleep(pause * self.environment.random.random())
                pause = min(pause * 2, _PAUSE_SECONDS_MAX)
        raise _overrun(self.where)

    def _note_time(self, now: Instant) -> None:
        self._times.note(now, self._clock.monotonic())


def _overrun(where: str) -> StoreUnavailableError:
    return unavailable(where, "again and again another transaction was in the way")
