"""Where emitted events go in a simulation: two receivers that are slow, refuse, and forget to say that they got it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from sim.programs import walk
from stepwell.model.messages import MESSAGES, TO_RUNS
from stepwell.model.retries import Retry
from stepwell.sinks.base import EmittedEvent, Sink
from stepwell.sinks.handlers import handler

if TYPE_CHECKING:
    from sim.process import Process
    from sim.world import World

ALL, BLUE = "all", "blue"
PATIENT = Retry(max_attempts=10_000, initial="50ms", max_delay="1s")
IMPATIENT = Retry(max_attempts=2, initial="50ms")  # makes dead letters


class Sinks:
    """The receivers of one seed; they outlive the processes that send to them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = random.Random(f"{world.seed} sinks")
        emits = any(node["op"] == "emit" or node.get("events") for node in walk(world.programs))
        self.is_on = emits if world.is_quiet else self._rng.random() < 0.6
        self._refusals = self._rng.choice((0.0, 0.1, 0.5))

    def make(self, process: Process) -> list[Sink]:
        """The sinks as one process has them."""
        if not self.is_on:
            return []
        return [
            handler(self._receive(ALL, process), name=ALL, retry=PATIENT),
            handler(self._receive(BLUE, process), "blue*", name=BLUE, retry=IMPATIENT),
        ]

    def _receive(self, sink: str, process: Process) -> Callable[[EmittedEvent], Coroutine[Any, Any, None]]:
        world, rng = self._world, self._rng

        async def receive(event: EmittedEvent) -> None:
            _check_lease(process, event)
            await asyncio.sleep(rng.choice((0, 0, 0.001, 0.02, 0.3)))
            refused = world.are_faults_on and rng.random() < self._refusals
            is_late = rng.random() < 0.5
            if refused and not is_late:
                raise OSError("refused")
            world.stats["events received"] += 1
            world.trace("event", process.name, sink, event.id, event.name)
            world.checker.outbox.received(sink, event)
            if refused:
                raise OSError("received, and the answer got lost")

        return receive


def _check_lease(process: Process, event: EmittedEvent) -> None:
    """Nobody begins to send after its lease: others may be sending by then."""
    worker = process.engine._worker  # None while it is leaving, and may still be sending
    own = worker.lease.incarnation if worker is not None else max(process.deadlines, key=process.deadlines.__getitem__)
    until = process.deadlines.get(own, 0.0)
    if process.environment.clock.monotonic() >= until:
        text = f"{process.name} sends {event.name} after its lease has run out"
        process.world.violate("I1b", event.run_id, text)


def sinks_of(name: str) -> tuple[str, ...]:
    """Which of them want an event, said without the engine. Messages between runs go to the runs."""
    if name.startswith(MESSAGES):
        return (TO_RUNS,)
    return (ALL, BLUE) if name.startswith("blue") else (ALL,)
