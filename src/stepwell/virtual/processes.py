"""One process of a virtual world: it can be killed and paused, and has an environment of its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from stepwell.clock import Clock
from stepwell.environment import Environment
from stepwell.ids import Ids
from stepwell.virtual.executors import BlockingCalls, InlineCalls, LaneExecutor
from stepwell.virtual.lanes import Lane
from stepwell.virtual.loop import VirtualLoop


class VirtualProcess:
    """A lane, and an environment whose work belongs to it."""

    def __init__(
        self,
        loop: VirtualLoop,
        lane: Lane,
        clock: Clock,
        ids: Ids,
        rng: random.Random,
        *,
        calls: BlockingCalls | None = None,
        threads_max: int = 8,
        on_body: Callable[[Any, Any], None] | None = None,
    ) -> None:
        self.lane = lane
        self.executor = LaneExecutor(loop, lane, calls or InlineCalls(loop), threads_max)
        self.environment = Environment(clock, ids, rng, self.executor, lane.name, on_body)

    @property
    def name(self) -> str:
        """Its name."""
        return self.lane.name

    @property
    def is_alive(self) -> bool:
        """Whether it has not been killed."""
        return not self.lane.is_dead

    @property
    def is_stopped(self) -> bool:
        """Whether it does not run: it was killed, or is paused."""
        return self.lane.is_dead or self.lane.is_paused

    def pause(self) -> None:
        """Pause the process, as a long garbage collection or a closed laptop does."""
        self.lane.is_paused = True

    def resume(self) -> None:
        """Continue as if no time had passed; overdue callbacks run now."""
        self.lane.is_paused = False

    def kill(self) -> None:
        """Stop at once and permanently: no clean-up, and no further call to the store."""
        self.lane.kill()
        self.executor.end()
