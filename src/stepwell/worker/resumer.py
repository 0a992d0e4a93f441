"""The resumer: continues runs that were paused by changed code, when this worker has code that fits them."""

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
from stepwell.worker.run_logs import fields_of

_LOG = logging.getLogger("stepwell.worker")

PAGE: Final = 200
SWEEPS: Final = 5  # it looks once in this many sweep intervals
KNOWN_MAX: Final = 10_000
_PAUSED: Final = RunFilter(statuses=(RunStatus.PAUSED,))
# Errors that other code may fix. A run that stopped its workers needs a person.
_FIXABLE: Final = frozenset(
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
    """Replays paused runs, and resumes the runs that fit the code of this worker."""

    def __init__(self, resources: Resources, rounds: Rounds) -> None:
        self._resources = resources
        self._rounds = rounds
        self._store = resources.store
        self._registry = resources.registry
        self._own: set[RunId] = set()  # paused by this process, whose code does not change
        self._unfit: dict[RunId, int] = {}  # does not fit, at this revision
        self._tried: dict[RunId, tuple[int, Instant]] = {}  # how often it was resumed here, and when it may be again
        self._before: RunId | None = None  # where the next page begins

    def note_paused(self, run_id: RunId) -> None:
        """This worker has paused a run, so it does not resume it."""
        if len(self._own) < KNOWN_MAX:
            self._own.add(run_id)

    async def serve(self) -> None:
        """Look at all paused runs once, and then at one page from time to time."""
        every = SWEEPS * span(self._resources.settings.sweep_every) / SECOND
        while True:
            is_more = await self._rounds.guarded(self.look_once(), otherwise=False)
            await asyncio.sleep(0 if is_more else every)

    async def look_once(self) -> bool:
        """Look at one page of paused runs; returns whether there may be more."""
        page = await self._store.views.list_runs(_PAUSED, limit=PAGE, before=self._before)
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
        if self._registry.find(run.definition) is None or not _is_fixable(run.failure):
            return False
        _, not_before = self._tried.get(run.run_id, (0, Instant(0)))
        return self._store.now() >= not_before

    async def _try(self, run: Run) -> None:
        """Replay a run with the current code, and resume it if it fits."""
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
        except Exception:  # noqa: BLE001  any error means that this code does not fit
            problem = ReplayError("the replay failed")
        if problem is not None:
            if len(self._unfit) >= KNOWN_MAX:
                self._unfit.clear()
            self._unfit[run.run_id] = run.revision
            return
        times, _ = self._tried.get(run.run_id, (0, Instant(0)))
        # Workers with the old code may pause it again, so each further try waits longer.
        pause = SWEEPS * span(self._resources.settings.sweep_every) << min(times, 6)
        self._tried[run.run_id] = times + 1, Instant(self._store.now() + pause)
        by = f"worker {self._resources.settings.name}: its code fits"
        if await self._store.runs.resume(run.run_id, by=by, even_if_held=False):
            _LOG.info("run %s is resumed: the code of this worker fits it", run.run_id, extra=fields_of(run))


def _is_fixable(failure: bytes) -> bool:
    """Whether other code may fix the failure; false if the record is unreadable."""
    try:
        return decode_failure(failure).code in _FIXABLE
    except UNREADABLE:
        return False
