"""Runs that were parked because their code did not fit go on by themselves when a worker with fitting code is there."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from stepwell.clock import SECOND, Instant, span
from stepwell.errors import (
    CorruptRecordError,
    DuplicateLocationError,
    HistoryDivergedError,
    LostChangeError,
    NonDeterministicError,
    ReplayError,
    ReplyOwedError,
    ReplyTwiceError,
    StoreError,
    StuckError,
    UnawaitedOperationError,
)
from stepwell.ids import RunId
from stepwell.model.failures import decode_failure
from stepwell.model.runs import Run
from stepwell.model.states import RunStatus
from stepwell.replay.rehearsals import rehearse
from stepwell.stores.base.damage import UNREADABLE
from stepwell.stores.base.views import RunFilter
from stepwell.worker.resources import Resources
from stepwell.worker.rounds import Rounds

_LOG = logging.getLogger("stepwell.worker")

PAGE: Final = 200
SWEEPS: Final = 5  # one look for so many sweeps
KNOWN_MAX: Final = 10_000
_PARKED: Final = RunFilter(statuses=(RunStatus.PAUSED,))
# What other code may mend. That a run took its workers down is for a person to look at.
_MENDABLE: Final = frozenset(
    error.code
    for error in (
        ReplayError,
        DuplicateLocationError,
        NonDeterministicError,
        UnawaitedOperationError,
        StuckError,
        ReplyOwedError,
        ReplyTwiceError,
        LostChangeError,
        HistoryDivergedError,
    )
)


class Resumer:
    """Looks through parked runs, and lets those go on that the code of this worker fits."""

    def __init__(self, resources: Resources, rounds: Rounds) -> None:
        self._resources = resources
        self._rounds = rounds
        self._store = resources.store
        self._registry = resources.registry
        self._own: set[RunId] = set()  # parked by this very code: it will not become another in this process
        self._unfit: dict[RunId, int] = {}  # judged, at this revision
        self._tried: dict[
            RunId, tuple[int, Instant]
        ] = {}  # how often it was let go on from here, and not before when again
        self._before: RunId | None = None  # where the next page begins

    def note_parked(self, run_id: RunId) -> None:
        """This worker could not go on with a run."""
        if len(self._own) < KNOWN_MAX:
            self._own.add(run_id)

    async def serve(self) -> None:
        """Look once at all that is parked, and then at a page from time to time."""
        every = SWEEPS * span(self._resources.settings.sweep_every) / SECOND
        while True:
            is_more = await self._rounds.guarded(self.look_once(), otherwise=False)
            await asyncio.sleep(0 if is_more else every)

    async def look_once(self) -> bool:
        """Look at one page of parked runs; whether there may be more behind it."""
        page = await self._store.views.list_runs(_PARKED, limit=PAGE, before=self._before)
        is_full = len(page) == PAGE
        self._before = page[-1].run_id if is_full else None
        for run in [run for run in page if self._may_fit(run)]:
            await self._try(run)
        return is_full

    def _may_fit(self, run: Run) -> bool:
        if run.failure is None or run.hold is not None or run.run_id in self._own:
            return False
        if self._unfit.get(run.run_id) == run.revision:
            return False
        if self._registry.find(run.definition) is None or not _is_mendable(run.failure):
            return False
        _, not_before = self._tried.get(run.run_id, (0, Instant(0)))
        return self._store.now() >= not_before

    async def _try(self, run: Run) -> None:
        """Rehearse a run with the code at hand, and let it go on if nothing is in its way."""
        workflow = self._registry.find(run.definition)
        assert workflow is not None
        try:
            [history] = await self._store.runs.load([run.run_id])
            problem = rehearse(
                workflow, run, history, self._resources.codec, self._resources.environment.executor.lockstep_threads
            )
        except StoreError as error:
            if not isinstance(error, CorruptRecordError):
                raise
            problem = ReplayError("its history cannot be read")
        except Exception:  # noqa: BLE001  whatever it is, this code does not fit
            problem = ReplayError("the replay broke off")
        if problem is not None:
            if len(self._unfit) >= KNOWN_MAX:
                self._unfit.clear()
            self._unfit[run.run_id] = run.revision
            return
        times, _ = self._tried.get(run.run_id, (0, Instant(0)))
        # Workers with the old code may still be there, and park it again: each time it is left to them for longer.
        pause = SWEEPS * span(self._resources.settings.sweep_every) << min(times, 6)
        self._tried[run.run_id] = times + 1, Instant(self._store.now() + pause)
        by = f"worker {self._resources.settings.name}: its code fits"
        if await self._store.runs.resume(run.run_id, by=by, even_if_held=False):
            _LOG.info("run %s goes on: the code of this worker fits it", run.run_id)


def _is_mendable(failure: bytes) -> bool:
    """Whether other code may mend it; not if what is stored cannot be read."""
    try:
        return decode_failure(failure).code in _MENDABLE
    except UNREADABLE:
        return False
