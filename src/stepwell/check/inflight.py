"""Every unfinished run of a database, replayed against the current code. Read-only: nothing in it changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final, NamedTuple

from stepwell.check import dry
from stepwell.check.dry import Divergence
from stepwell.check.exports import export_run, export_runs, with_inbox
from stepwell.check.histories import Recording
from stepwell.clock import Instant
from stepwell.codec.base import Codec
from stepwell.environment import LockstepThreads
from stepwell.errors import NotFoundError
from stepwell.ids import RunId
from stepwell.model.runs import Run
from stepwell.model.states import ACTIVE, TERMINAL
from stepwell.replay.registry import Registry
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import RunFilter

PAGE: Final = 200

Tell = Callable[[int], None]  # how many runs were checked


class Code(NamedTuple):
    """The code that runs are replayed with."""

    registry: Registry
    codec: Codec | None = None
    threads: LockstepThreads | None = None


class Broken(NamedTuple):
    """A run that could not continue with this code."""

    name: str  # its id, or its file
    run: Run
    divergence: Divergence


class Unable(NamedTuple):
    """A run that continues with this code, but has done steps that this code could not undo."""

    name: str
    run: Run
    paths: tuple[str, ...]


class Checked(NamedTuple):
    """The result of a check."""

    fit: int  # runs that continue with this code
    broken: tuple[Broken, ...] = ()
    unserved: tuple[tuple[str, int], ...] = ()  # "name@version" missing in this code, with the number of runs that wait
    unable: tuple[Unable, ...] = ()  # runs that fit, too

    @property
    def total(self) -> int:
        """How many runs were checked."""
        return self.fit + len(self.broken) + sum(count for _, count in self.unserved)


async def check_store(
    store: Store, code: Code, *, since: Instant | None = None, tell: Tell = lambda done: None
) -> Checked:
    """Replay every unfinished run of a store; with `since`, only runs that were created after it.

    Runs may continue meanwhile, so a run that seems not to fit is read again in one piece before it counts as broken.
    """
    found = _Found(code)
    async for runs in _pages(store, since):
        for recording in await export_runs(store, runs):
            if not found.add(recording.run.run_id, recording):
                again = await _read_again(store, recording.run.run_id)
                if again is not None:
                    found.add(again.run.run_id, again, is_sure=True)
        tell(found.total)
    return found.result()


def check_recordings(
    recordings: Iterable[tuple[str, Recording]], code: Code, *, tell: Tell = lambda done: None
) -> Checked:
    """Replay recordings, for example from files."""
    found = _Found(code)
    for name, recording in recordings:
        found.add(name, recording, is_sure=True)
        tell(found.total)
    return found.result()


class _Found:
    """The results so far."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._fit = 0
        self._broken: list[Broken] = []
        self._unable: list[Unable] = []
        self._unserved: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return self._fit + len(self._broken) + self._unserved.total()

    def add(self, name: str, recording: Recording, *, is_sure: bool = False) -> bool:
        """Replay one run. False if it does not fit and `is_sure` is false: then it is not counted yet."""
        registry, codec, threads = self._code
        workflow = registry.find(recording.run.definition)
        if workflow is None:
            self._unserved[recording.run.definition] += 1
            return True
        outcome = dry.replay(workflow, recording, codec=codec, threads=threads)
        if not isinstance(outcome, Divergence):
            self._fit += 1
            if outcome.unable:
                self._unable.append(Unable(name, recording.run, outcome.unable))
        elif not is_sure:
            return False
        else:
            self._broken.append(Broken(name, recording.run, outcome))
        return True

    def result(self) -> Checked:
        return Checked(self._fit, tuple(self._broken), tuple(sorted(self._unserved.items())), tuple(self._unable))


async def _pages(store: Store, since: Instant | None) -> AsyncIterator[list[Run]]:
    where, before = RunFilter(statuses=tuple(sorted(ACTIVE))), None
    while page := await store.views.list_runs(where, limit=PAGE, before=before):
        yield [run for run in page if since is None or run.created_at >= since]
        before = page[-1].run_id


async def _read_again(store: Store, run_id: RunId) -> Recording | None:
    """A run in one consistent read; None if it has ended meanwhile."""
    try:
        again = await with_inbox(store, await export_run(store, run_id))
    except NotFoundError:
        return None
    return None if again.run.status in TERMINAL else again
