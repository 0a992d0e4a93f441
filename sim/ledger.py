"""The outside world: what step bodies really did, and when. Nothing in the engine can see it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from stepwell.replay.step_context import StepContext
from stepwell.virtual.lanes import LANE

if TYPE_CHECKING:
    from sim.world import World


_DRAWS = itertools.count(1)


class Execution(NamedTuple):
    """One start of one body."""

    at: float
    process: str
    run_id: str
    path: str
    attempt: int
    key: str


class Ledger:
    """Every body that ran."""

    def __init__(self, world: World) -> None:
        global _DRAWS
        _DRAWS = itertools.count(1)  # one world is simulated at a time, and the same seed draws the same numbers
        self._world = world
        self.executions: list[Execution] = []
        self.keys: dict[str, tuple[str, str]] = {}

    def began(self, info: StepContext) -> None:
        """A body runs its first line."""
        world = self._world
        process = LANE.get().name
        self.executions.append(
            Execution(world.loop.time(), process, info.run_id, info.path, info.attempt, info.idempotency_key)
        )
        world.stats["bodies"] += 1
        world.trace("body", process, info.run_id, info.path, info.attempt)
        owner = self.keys.setdefault(info.idempotency_key, (info.run_id, info.path))
        if owner != (info.run_id, info.path):
            world.violate("I27", info.run_id, f"key {info.idempotency_key} is shared by {owner} and {info.path}")
        run_id, _, place = info.idempotency_key.partition(":")
        is_carried = info.path.startswith("~run")
        expected = info.path.partition("/")[2] if is_carried else info.path
        if (
            place != expected.replace("~begun", "/~begun").replace("~undo", "/~undo")
            or (run_id == info.run_id) == is_carried
        ):
            world.violate("I27", info.run_id, f"key {info.idempotency_key} of {info.path} changed its form")


def world_here() -> World:
    """The world in which the calling code is simulated."""
    world: World = LANE.get().process.world
    return world


def draw_here() -> int:
    """A number that no replay would draw again. Workflow code calls this, and cannot tell which process runs it."""
    return next(_DRAWS)
