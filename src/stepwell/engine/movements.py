"""Movements: what changes in all runs, looked for once for all followers of a process."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from stepwell.clock import SECOND, Instant, Span
from stepwell.engine.backend import Backend
from stepwell.errors import StoreError
from stepwell.ids import RunId
from stepwell.model.states import TERMINAL, RunStatus
from stepwell.stores.base.faults import is_final
from stepwell.stores.base.overviews import Movement, State
from stepwell.stores.base.wakeups import Hint

LOOKS_PER_SECOND: Final = 4
WATCHED_MAX: Final = 200  # runs of one follower
_LOOK_AGAIN: Final = 1.0  # seconds without a hint
_READ_MAX: Final = 500  # runs of each kind in one look
_REPORTED_MAX: Final = 500  # runs in one report
_HINTED_MAX: Final = 1_000
_KEPT_MAX: Final = 600  # reports, for followers that come back
_OVERLAP: Final = Span(2 * SECOND)  # a transaction may be visible only some time after its own time
_GAP_MAX: Final = Span(300 * SECOND)  # without followers, after which everything has to be read again

_Mark = tuple[RunStatus, int]


class Report(NamedTuple):
    """Runs that have changed. A follower that comes back continues behind `mark`.

    If `is_whole` is false, more may have changed: what is shown has to be read again.
    """

    mark: str
    runs: tuple[State, ...]
    is_whole: bool


class _Look(NamedTuple):
    """What one look has found."""

    number: int
    runs: tuple[State, ...]
    is_whole: bool


class Movements:
    """`engine.movements`: follows all runs. One reader serves all followers, and does nothing without one."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._followers = 0
        self._watched: Counter[RunId] = Counter()
        self._name = ""  # identifies this process in marks
        self._number = 0  # of the last look that has found something
        self._looks: deque[_Look] = deque(maxlen=_KEPT_MAX)
        self._known: dict[RunId, _Mark] = {}
        self._moving: frozenset[RunId] = frozenset()
        self._hinted: set[RunId] = set()
        self._looked_at: Instant | None = None
        self._hint = asyncio.Event()
        self._found = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None

    async def follow(self, after: str = "", watched: Sequence[str] = ()) -> AsyncGenerator[Report | None, None]:
        """The runs that change from now on, or from a mark on, at most four times a second; None for each second
        without a change.

        Starts, ends and changes of status are reported of all runs, every commit of the watched runs. What a run goes
        through between two looks is not reported if the run waits before and after it, unless it is watched. Never
        ends by itself.
        """
        if not self._name:
            self._name = self._backend.environment.ids.uuid().replace("-", "")[:12]
        ids = [RunId(one) for one in dict.fromkeys(watched)][:WATCHED_MAX]
        await self._join(ids)
        try:
            number, is_known = self._resume(after)
            yield Report(self._mark(number), (), is_known)
            while True:
                found = [look for look in self._looks if look.number > number]
                if found:
                    number = found[-1].number
                    yield Report(self._mark(number), tuple(_latest(found)), all(look.is_whole for look in found))
                    continue
                try:
                    async with asyncio.timeout(_LOOK_AGAIN):
                        await self._found.wait()
                except TimeoutError:
                    self._check_reader()
                    yield None
        finally:
            self._leave(ids)

    def _mark(self, number: int) -> str:
        return f"{self._name}-{number}"

    def _resume(self, after: str) -> tuple[int, bool]:
        """The number behind which a follower continues, and whether nothing is missing before it."""
        name, _, text = after.partition("-")
        if not after:
            return self._number, True
        number = int(text) if name == self._name and text.isdecimal() and len(text) < 16 else -1
        first = self._looks[0].number if self._looks else self._number + 1
        if first - 1 <= number <= self._number:
            return number, True
        return self._number, False

    def _check_reader(self) -> None:
        """Raise what the reader has ended with."""
        if self._reader is not None and self._reader.done() and not self._reader.cancelled():
            error = self._reader.exception()
            if error is not None:
                raise error

    # --- followers ---

    async def _join(self, ids: Iterable[RunId]) -> None:
        fresh = [one for one in ids if one not in self._known]
        self._watched.update(ids)
        self._followers += 1
        try:
            if self._reader is None or self._reader.done():
                await self._begin()
            if fresh:
                # What a follower has read itself is no change for it.
                movement = await self._read(self._backend.store.now(), fresh)
                self._known.update((one.run_id, _mark_of(one)) for one in movement.runs if one.run_id in fresh)
        except BaseException:
            self._leave(ids)
            raise

    def _leave(self, ids: Iterable[RunId]) -> None:
        self._followers -= 1
        self._watched.subtract(ids)
        self._watched += Counter()  # without those that nobody watches any more
        if not self._followers:
            self._hint.set()  # the reader ends at once

    async def _begin(self) -> None:
        now = self._backend.store.now()
        if self._looked_at is None or now - self._looked_at > _GAP_MAX:
            self._known.clear()
            self._looks.clear()
            self._number += 1  # no follower continues from before
            self._note(await self._read(now, list(self._watched)), now)
        executor = self._backend.environment.executor
        self._reader = executor.spawn(self._look_on(), name="stepwell-movements")

    # --- the reader ---

    async def _look_on(self) -> None:
        clock, stop = self._backend.environment.clock, self._listen()
        try:
            while self._followers:
                began = clock.monotonic()
                await self._look()
                await asyncio.sleep(max(0.0, 1 / LOOKS_PER_SECOND - (clock.monotonic() - began)))
                try:
                    async with asyncio.timeout(_LOOK_AGAIN):
                        await self._hint.wait()
                except TimeoutError:
                    pass
                self._hint.clear()
        finally:
            stop()

    def _listen(self) -> Callable[[], None]:
        def heard(hint: Hint) -> None:
            if len(self._hinted) < _HINTED_MAX:
                self._hinted.update(hint.runs)
            self._hint.set()

        return self._backend.store.wakeups.listen(heard)

    async def _look(self) -> None:
        """Look once, and tell the followers what is new."""
        hinted, self._hinted = self._hinted, set()
        now = self._backend.store.now()
        since = Instant((self._looked_at or now) - _OVERLAP)
        try:
            movement = await self._read(since, list({*self._watched, *self._moving, *hinted}))
        except StoreError as error:
            if is_final(error):
                raise
            self._hinted |= hinted
            return
        changed = [one for one in movement.runs if self._known.get(one.run_id) != _mark_of(one)]
        is_whole = movement.is_whole and len(changed) <= _REPORTED_MAX
        self._note(movement, now)
        if changed or not is_whole:
            self._number += 1
            self._looks.append(_Look(self._number, tuple(changed[:_REPORTED_MAX]), is_whole))
            found, self._found = self._found, asyncio.Event()
            found.set()

    def _note(self, movement: Movement, now: Instant) -> None:
        self._known = {one.run_id: _mark_of(one) for one in movement.runs}
        self._moving = frozenset(one.run_id for one in movement.runs if one.status not in _AT_REST)
        self._looked_at = now

    async def _read(self, since: Instant, watched: Sequence[RunId]) -> Movement:
        return await self._backend.store.overviews.list_movement(since, watched, limit=_READ_MAX)


_AT_REST: Final = TERMINAL | {RunStatus.WAITING}


def _mark_of(state: State) -> _Mark:
    return state.status, state.revision


def _latest(looks: Iterable[_Look]) -> Iterable[State]:
    """The latest state of each run."""
    found: dict[RunId, Any] = {state.run_id: state for look in looks for state in look.runs}
    return found.values()
