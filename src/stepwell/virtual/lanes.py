"""Lanes: what belongs to one process, as the event loop sees it."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any

_TASKS_KEPT = 1_000  # at least, before those that have ended are dropped


class Lane:
    """The handles and tasks of one process. Nothing of a dead one ever runs again; a paused one keeps everything."""

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
        self.process: Any = None  # whom it belongs to
        self._prune_at = _TASKS_KEPT
        self._context = copy_context()
        self._context.run(LANE.set, self)

    def context(self) -> Context:
        """A context whose handles and tasks belong to this lane."""
        return self._context.copy()

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Hold on to a task until it has ended: one that vanished half-way would run its `finally` blocks. One that
        failed, and that nobody asked about it, is kept as well.
        """
        # A process that is killed leaves its tasks where they are.
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.tasks.append(task)
        if len(self.tasks) > self._prune_at:
            self.tasks = [each for each in self.tasks if not each.done() or each._log_traceback]
            self._prune_at = 2 * len(self.tasks) + _TASKS_KEPT

    def kill(self) -> None:
        """Stop at once and for ever: no `finally` block, no last word."""
        self.is_dead = True
        self.queue.clear()


LANE: ContextVar[Lane | None] = ContextVar("stepwell_lane", default=None)

Choose = Callable[[list[Lane]], Lane]  # which of these lanes, each with something to do, runs its next handle


def first_in(lanes: list[Lane]) -> Lane:
    """First in, first out: the lane whose next handle has waited longest."""
    return min(lanes, key=_number)


def drawn(rng: random.Random) -> Choose:
    """Any of them, as the seed has it."""
    return lambda lanes: lanes[int(rng.random() * len(lanes))]


def _number(lane: Lane) -> int:
    return lane.queue[0][0]
