"""Crashes that a test requests: at which path, and at which moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from stepwell.errors import InvalidOptionError
from stepwell.replay.bodies import Body
from stepwell.testing.faults import Target, matches
from stepwell.testing.nodes import Node
from stepwell.testing.world import Moment, Point, World

When = Literal["before_run", "after_run_before_record", "after_record"]


@dataclass(slots=True)
class Crash:
    """One crash. It happens once."""

    target: Target
    when: When
    has_happened: bool = False

    def __str__(self) -> str:
        name = self.target if isinstance(self.target, str) else getattr(self.target, "__name__", self.target)
        return f'crash_at({name!r}, when="{self.when}")'


class Crashes:
    """Kills the worker that reaches the path of a crash; another worker takes over."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._crashes: list[Crash] = []

    def add(self, target: Target, when: When) -> None:
        """Request a crash."""
        if when not in get_args(When):
            raise InvalidOptionError(f"when is {when!r}", where="crash_at", fix=f"one of {', '.join(get_args(When))}")
        self._crashes.append(Crash(target, when))
        self._world.on_begin, self._world.on_point = self._begins, self._meets

    @property
    def missed(self) -> list[Crash]:
        """Crashes that have not happened."""
        return [crash for crash in self._crashes if not crash.has_happened]

    def _begins(self, node: Node, body: Body, path: str) -> None:
        began = self._world.begun[-1]
        for crash in self.missed:
            if crash.when == "before_run" and matches(crash.target, path, began.fn):
                self._happen(crash, node)
                return

    def _meets(self, node: Node, moment: Moment, point: Point) -> None:
        when = "after_run_before_record" if moment == "before" else "after_record"
        for crash in self.missed:
            if crash.when == when and node.is_alive and any(self._means(crash, point, path) for path in point.paths):
                self._happen(crash, node)

    def _means(self, crash: Crash, point: Point, path: str) -> bool:
        fn = next((one.fn for one in self._world.begun if (one.run_id, one.path) == (point.run_id, path)), None)
        return matches(crash.target, path, fn)

    def _happen(self, crash: Crash, node: Node) -> None:
        crash.has_happened = True
        self._world.kill(node)
