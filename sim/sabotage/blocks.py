"""Switches that break what goes on beside the code: timers of asyncio, clean-ups, and handlers."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from sim.sabotage.patches import Patches, switches
from stepwell.clock import Instant
from stepwell.model import undos
from stepwell.model.states import WaitKind
from stepwell.replay import context, timers
from stepwell.replay.background import Background
from stepwell.replay.event_loop import Timer
from stepwell.replay.primitives import step as primitives_step
from stepwell.replay.primitives.cleanup import Cleanup
from stepwell.replay.scopes import Scope


def timers_not_recorded() -> Patches:
    """A timer of asyncio fires and is not recorded: a replay lets it fire once more, later."""

    def arm(scope: Scope, timer: Timer, location: Any, due_at: Instant) -> None:
        armed = scope.turn.arm(location, WaitKind.TIMER, due_at)

        def fire(future: asyncio.Future[Any]) -> None:
            scope.turn.waits.end(armed)
            if timers._is_wanted(timer, future):
                scope.time = max(scope.time, scope.turn.now)
                timer.callback(*timer.args)

        def disarm() -> None:
            armed.future.cancel()

        timer.disarm = disarm
        armed.future.add_done_callback(fire, context=timer.context)

    return [(timers, "_arm", arm)]


def timers_follow_the_clock() -> Patches:
    """The time of the loop is that of the worker: a replay counts a deadline from another one."""
    return [(Scope, "read_time", lambda self: self.turn.now)]


async def _nothing(*_: Any, **__: Any) -> None:
    return


def blocks_not_recorded() -> Patches:
    """That the code is in a block is known to this process alone."""

    async def enter(self: Cleanup) -> Cleanup:
        self._background.enter(self._location, self._scope)
        return self

    return [(Cleanup, "_enter", enter)]


def left_blocks_forgotten() -> Patches:
    """Nobody cleans up a block that the code was forced to leave."""
    return [(Background, "_left", lambda self: [])]


def outcomes_taken_for_known() -> Patches:
    """That a step with undo="always" has begun is not recorded."""
    return [(primitives_step, "begin_step", _nothing)]


def beginnings_never_settled() -> Patches:
    """The beginning of a step is undone besides its result."""
    return [(undos, "is_settled", lambda entry, entries: False)]


def effects_not_recorded() -> Patches:
    """What undoes an effect outside of steps is not recorded."""
    return [(context, "run_effect", _nothing)]


def handlers_not_awaited() -> Patches:
    """A run ends while requests are in progress."""
    return [(Background, "finish", _nothing)]


BLOCK_SWITCHES = switches(
    timers_not_recorded,
    timers_follow_the_clock,
    blocks_not_recorded,
    left_blocks_forgotten,
    outcomes_taken_for_known,
    beginnings_never_settled,
    effects_not_recorded,
    handlers_not_awaited,
)
# Which cases show each of them.
BLOCKS_SHOWN_BY: Final[dict[str, tuple[str, ...]]] = {
    "timers-not-recorded": ("timers of asyncio",),
    "timers-follow-the-clock": ("timers of asyncio",),
    "blocks-not-recorded": ("a block in a run that is cancelled",),
    "left-blocks-forgotten": ("blocks that are left",),
    "outcomes-taken-for-known": ("effects of every kind",),
    "beginnings-never-settled": ("effects of every kind",),
    "effects-not-recorded": ("effects of every kind",),
    "handlers-not-awaited": ("handlers in progress",),
}
