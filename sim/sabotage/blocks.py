"""Switches that break what goes on beside the code: timers of asyncio, clean-ups, and handlers."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from sim.sabotage.patches import Patches, switches
from stepwell.clock import Instant
from stepwell.model.states import WaitKind
from stepwell.replay import timers
from stepwell.replay.event_loop import Timer
from stepwell.replay.scopes import Scope


def timers_not_recorded() -> Patches:
    """A timer of asyncio fires and is not recorded: a replay lets it fire once more, later."""

    def arm(scope: Scope, timer: Timer, location: Any, due_at: Instant) -> None:
        armed = scope.turn.arm(location, WaitKind.TIMER, due_at)

        def fire(future: asyncio.Future[Any]) -> None:
            scope.turn.waits.end(armed)
            if timers._is_wanted(timer, future):
                timer.callback(*timer.args)

        timer.disarm = lambda: None if armed.future.cancel() else None
        armed.future.add_done_callback(fire, context=timer.context)

    return [(timers, "_arm", arm)]


def timers_follow_the_clock() -> Patches:
    """The time of the loop is that of the worker: a replay counts a deadline from another one."""
    return [(Scope, "read_time", lambda self: self.turn.now)]


BLOCK_SWITCHES = switches(timers_not_recorded, timers_follow_the_clock)
# Which cases show each of them.
BLOCKS_SHOWN_BY: Final[dict[str, tuple[str, ...]]] = {
    "timers-not-recorded": ("timers of asyncio",),
    "timers-follow-the-clock": ("timers of asyncio",),
}
