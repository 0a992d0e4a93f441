"""Orderly leaves: no body begins while a process leaves, and with enough grace time none that began runs again."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from stepwell.replay.step_context import StepContext

if TYPE_CHECKING:
    from sim.process import Process
    from sim.world import World

# What was called for before is on its way to its task or thread.
_ON_ITS_WAY = 0.1  # seconds


class _Began(NamedTuple):
    """One attempt at a body."""

    run_id: str
    path: str
    attempt: int


class Leaves:
    """Watches processes that leave in one seed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._bodies: defaultdict[_Began, list[Process]] = defaultdict(list)
        self._loading: defaultdict[Process, dict[str, float]] = defaultdict(dict)  # since when a history is asked for
        self._leaving: dict[Process, float] = {}  # since when
        self._until: dict[Process, float] = {}  # the end of its grace time, by its own clock
        self._left: set[Process] = set()  # in less than their grace time, with their lease

    async def leave(self, process: Process, grace: float) -> None:
        """Let a process leave in order."""
        self._leaving[process] = self._world.loop.time()
        self._until[process] = process.environment.clock.monotonic() + grace
        await process.leave(grace)
        if self._has_time_left(process) and self._has_its_lease(process):
            self._left.add(process)

    def began(self, process: Process, info: StepContext) -> None:
        """A body runs its first line."""
        began = _Began(info.run_id, info.path, info.attempt)
        self._bodies[began].append(process)
        late = self._world.loop.time() - self._leaving.get(process, float("inf"))
        # The beginning of a body that must not run twice is recorded: it can only continue here.
        if late > _ON_ITS_WAY and self._kind(began) != "once_only":
            text = f"{process.name} begins {began.path} {late:.3f} s after it began to leave"
            self._world.violate("I43", began.run_id, text)

    def asked(self, process: Process, method: str, args: tuple[Any, ...]) -> None:
        """A process asks the store for something."""
        now = self._world.loop.time()
        if method == "load":
            self._loading[process].update(dict.fromkeys(args[0], now))
        elif method == "retire" and process in self._leaving:
            since = self._leaving[process]
            left = [run_id for run_id, asked_at in self._loading[process].items() if asked_at < since]
            if left and self._has_time_left(process) and self._is_sound(process):
                self._world.violate("I43", left[0], f"{process.name} leaves, and does not wait for its history")

    def answered(self, process: Process, method: str, args: tuple[Any, ...]) -> None:
        """A process has its answer."""
        if method == "load":
            for run_id in args[0]:
                self._loading[process].pop(run_id, None)

    def check_end(self) -> None:
        """No body that began in a process that left in order has run again."""
        for began, processes in self._bodies.items():
            orderly = next((one for one in processes[:-1] if one in self._left and self._is_sound(one)), None)
            if orderly is not None and not self._may_run_again(began):
                text = (
                    f"attempt {began.attempt} of {began.path} began in {orderly.name}, which left in order, and again"
                )
                self._world.violate("I43", began.run_id, text)

    def _has_time_left(self, process: Process) -> bool:
        """Whether its grace time is not over, by the clock of its worker: another one rounds differently."""
        return process.environment.clock.monotonic() < self._until[process]

    def _has_its_lease(self, process: Process) -> bool:
        """Whether its lease has surely not ended. It does while the store is silent, and others take the runs."""
        now = process.environment.clock.monotonic()
        return all(now < until for until in process.deadlines.values())

    def _is_sound(self, process: Process) -> bool:
        """Whether it never lost its lease: then no other worker could have its runs."""
        return len(process.deadlines) == 1 and not process.was_frozen and not self._world.checker.lost[process]

    def _may_run_again(self, began: _Began) -> bool:
        """Long steps continue elsewhere; after a repair, what is taken out is done again."""
        is_repaired = self._world.clients.operators.repairers.has_repaired(began.run_id)
        is_long = self._kind(began).startswith("long")
        return is_long or is_repaired or self._world.checker.shadow(began.run_id).retries > 0

    def _kind(self, began: _Began) -> str:
        kind: str = self._world.checker.node_at(began.path).get("kind", "")
        return kind
