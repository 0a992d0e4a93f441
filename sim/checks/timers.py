"""Timers on time: never early by the store's clock, and when nothing goes wrong, late by no more than a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.clock import SECOND, Instant, span

if TYPE_CHECKING:
    from sim.world import World

# Two looks without a hint, slow answers, and the body of a transactional step, for which all code stands still.
_LOOKS = 2
_REST = 2.0  # seconds
# Restarts, leases that have to end, and people who resume what they paused.
_AFTER_FAULTS = 25.0  # seconds
_ROOM = 50  # runs that a worker may have at once: with less, a run stands in line for good reason


class Timers:
    """How late timers of one seed may be."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._late_max = _LOOKS * span(world.shape.settings.sweep_every) + round(_REST * SECOND)
        self._calm_at: Instant | None = None  # by the store's clock

    def stop_faults(self) -> None:
        """From now on nothing goes wrong any more."""
        self._calm_at = self._world.checker.inspector.now()

    def check(self, run_id: str, path: str, due: Instant, at: Instant) -> None:
        """A timer that was due then has fired."""
        late = at - due
        if late > self._late_max and self._is_promised(due) and not self._was_set_again(run_id):
            text = f"timer {path} fired {late / SECOND:.3f} s late, and nothing had gone wrong"
            self._world.violate("I24", run_id, text)

    def _was_set_again(self, run_id: str) -> bool:
        """Whether the run was repaired or retried: a timer at a fixed time may be set again long after that time."""
        world = self._world
        return world.clients.operators.repairers.has_repaired(run_id) or world.checker.shadow(run_id).retries > 0

    def _is_promised(self, due: Instant) -> bool:
        world = self._world
        if world.shape.settings.runs_max < _ROOM or world.stats["poisonings"]:
            return False
        if self._calm_at is not None and due > self._calm_at + _AFTER_FAULTS * SECOND:
            return True
        return world.mix.is_calm and not world.clients.pauses.is_on
