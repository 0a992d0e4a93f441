"""Lanes: the callbacks and tasks of one process on the shared event loop."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any

_TASKS_KEPT = 1_000  # before ended tasks are dropped


class Lane:
    """The handles and tasks of one process. A dead lane never runs again; a paused lane keeps everything."""

    __slots__ = (
        "_context",
        "_prune_at",
        "fuse",
        "is_dead",
        "is_paused",
        "name",
        "on_fuse",
        "process",
        "queue",
        "tasks",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue: deque[tuple[int, asyncio.Handle]] = deque()  # each with its number in the order of the whole loop
        self.tasks: list[asyncio.Task[Any]] = []
        self.is_dead = False
        self.is_paused = False
        self.fuse = -1  # handles until `on_fuse` is called; negative: never
        self.on_fuse: Callable[[], None] = lambda: None
        self.process: Any = None  # the process that it belongs to
        self._prune_at = _TASKS_KEPT
        self._context = copy_context()
        self._context.run(LANE.set, self)

    def context(self) -> Context:
        """A context whose handles and tasks belong to this lane."""
        return self._context.copy()

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Keep a task until it has ended: a garbage collected task would run its `finally` blocks. A failed task whose
        exception was not retrieved is kept as well.
        """
        # The tasks of a killed process stay where they are.
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.tasks.append(task)
        if len(self.tasks) > self._prune_at:
            self.tasks = [each for each in self.tasks if not each.done() or each._log_traceback]
            self._prune_at = 2 * len(self.tasks) + _TASKS_KEPT

    def kill(self) -> None:
        """Stop at once and permanently, without running a `finally` block."""
        self.is_dead = True
        self.queue.clear()


LANE: ContextVar[Lane | None] = ContextVar("stepwell_lane", default=None)

Choose = Callable[[list[Lane]], Lane]  # which of these lanes, each with something to do, runs its next handle


def first_in(lanes: list[Lane]) -> Lane:
    """First in, first out: the lane whose next handle has waited longest."""
    return min(lanes, key=_number)


def drawn(rng: random.Random) -> Choose:
    """A random lane, by the seed."""
    return lambda lanes: lanes[int(rng.random() * len(lanes))]


def _number(lane: Lane) -> int:
    return lane.queue[0][0]
