"""Switches that break long steps."""

from __future__ import annotations

import asyncio
from typing import Any

from sim.sabotage.patches import Patches, switches
from sim.sabotage.stores import stands
from stepwell.model.entries import Progress
from stepwell.replay.bodies import Attempted, Bodies, Body, Raised, Yielded
from stepwell.replay.journal import Journal
from stepwell.stores.sqlite.transitions import commits
from stepwell.worker.attempts import AttemptLink
from stepwell.worker.commits import Commits
from stepwell.worker.progress import RunProgress


def yield_counted_as_attempt() -> Patches:
    """A step that gives its slot back has failed."""
    original = Bodies.settle

    def settle(self: Bodies, body: Body, attempted: Attempted) -> None:
        original(self, body, Raised(RuntimeError("yielded")) if isinstance(attempted, Yielded) else attempted)

    return [(Bodies, "settle", settle)]


def progress_outside_the_fence() -> Patches:
    """A worker that has lost its run still keeps how far its bodies came."""
    original = commits._apply_one

    def apply_one(tx: Any, commit: Any, quota: Any, claimant: Any) -> Any:
        run, owner, epoch, _ = stands(tx, commit)
        if run and (owner, epoch) != commit.fence:
            for progress in commit.progress:
                tx.run("progress.keep", run=run, **progress._asdict())
        return original(tx, commit, quota, claimant)

    return [(commits, "_apply_one", apply_one)]


def progress_not_removed() -> Patches:
    """A step that is done leaves behind how far it had come."""
    return [(Journal, "end_progress", lambda self, location: None)]


def progress_survives_the_end() -> Patches:
    """A run that has ended keeps how far its bodies came."""
    original = Commits.send

    def send(self: Commits, commit: Any, answer: Any) -> None:
        left, self._journal.progress = self._journal.progress, {}
        try:
            original(self, commit, answer)
        finally:
            self._journal.progress = left

    return [(Commits, "send", send)]


def last_heartbeat_lost() -> Patches:
    """An attempt that fails forgets what it had not written yet."""
    original = AttemptLink.close

    def close(self: AttemptLink, attempted: Any) -> Progress | None:
        progress = original(self, attempted)
        return progress if isinstance(attempted, Yielded) else None

    return [(AttemptLink, "close", close)]


def yield_forgets_its_state() -> Patches:
    """A step that gives its slot back begins anew."""
    original = AttemptLink.close

    def close(self: AttemptLink, attempted: Any) -> Progress | None:
        progress = original(self, attempted)
        return progress and progress._replace(state=None)

    return [(AttemptLink, "close", close)]


def checkpoint_not_awaited() -> Patches:
    """A checkpoint returns before it is durable."""
    original = RunProgress.keep_durably

    def keep_durably(self: RunProgress, progress: Progress) -> asyncio.Future[None]:
        original(self, progress)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    return [(RunProgress, "keep_durably", keep_durably)]


def state_from_memory() -> Patches:
    """A body starts before what the last turn kept is durable."""
    original = Journal.keep_progress

    def keep_progress(self: Journal, progress: Progress) -> None:
        was = self.pending.is_urgent
        original(self, progress)
        self.pending.is_urgent = was

    return [(Journal, "keep_progress", keep_progress)]


LONG_STEP_SWITCHES = switches(
    yield_counted_as_attempt,
    progress_outside_the_fence,
    progress_not_removed,
    progress_survives_the_end,
    last_heartbeat_lost,
    yield_forgets_its_state,
    checkpoint_not_awaited,
    state_from_memory,
)
