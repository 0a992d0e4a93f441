"""How clients start runs: urgent ones, ones with little time, ones that replace others, and debounced ones."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from sim.interpreter import PROGRAM
from sim.process import UNKNOWN
from stepwell import Retry
from stepwell.errors import AlreadyExistsError

if TYPE_CHECKING:
    from sim.clients import Clients, Order
    from stepwell.wiring import Engine

QUIET, MAX_WAIT = 0.4, 1.5  # seconds
PREFIX = "debounced "


def draw_options(rng: random.Random) -> dict[str, Any]:
    """What is said about a start beside its key."""
    options: dict[str, Any] = {}
    if rng.random() < 0.4:
        options["priority"] = rng.choice((-1, 1, 5))
    if rng.random() < 0.15:
        options["deadline"] = rng.choice((0.2, 1.0, 3.0, 8.0))
    if rng.random() < 0.15:
        options["max_suspend"] = rng.choice((0.2, 1.0, 3.0))
    if rng.random() < 0.2:
        options["tags"] = {"team": "sim"}
    if rng.random() < 0.15:
        options["retry"] = Retry(max_attempts=rng.choice((2, 3)), initial=rng.choice((0.0, 0.3)), max_delay=0.5)
    return options


def draw_description(rng: random.Random) -> dict[str, Any]:
    """What is said about a run at its start, for people."""
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        options["by"] = rng.choice(("ann", "bo"))
    if rng.random() < 0.2:
        options["title"] = "A run of the simulation"
    if rng.random() < 0.2:
        options["attributes"] = {"kind": "sim", "size": rng.choice((1, 2.5, 2**60))}
    return options


@dataclass(slots=True)
class Debounced:
    """The calls for one key: numbered, one after the other."""

    key: str
    calls: int = 0
    acknowledged: int = 0  # the last call that was
    told: set[str] = field(default_factory=set)


class Starters:
    """Clients that replace and debounce."""

    def __init__(self, clients: Clients, rng: random.Random) -> None:
        self._clients = clients
        self._rng = rng
        self.debounced = [Debounced(f"{PREFIX}{number}") for number in range(rng.choice((0, 0, 1, 2)))]

    async def debounce(self, one: Debounced) -> None:
        """Call again and again, with pauses that are sometimes long enough."""
        for _ in range(self._rng.randint(1, 8)):
            await asyncio.sleep(self._rng.choice((0.01, 0.1, 0.3, 0.6, 2.0)))
            one.calls += 1
            program = _numbered(one.calls, self._rng.choice((0.0, 0.05, 1.0)))
            try:
                handle = await self._clients.ask(partial(_debounce, program, one.key))
            except UNKNOWN:
                continue
            one.acknowledged = one.calls
            one.told.add(handle.run_id)
            self._clients.world.stats["debounced"] += 1

    async def replace(self, order: Order) -> None:
        """Start the same once more, in the place of what has the key."""
        clients, world = self._clients, self._clients.world
        order.is_replaced = True
        clients.touched.add(order.key or "")
        try:
            handle = await clients.ask(
                lambda engine: engine.start(
                    PROGRAM, order.program, key=order.key, on_conflict="replace", **order.options
                )
            )
        except (*UNKNOWN, AlreadyExistsError):
            return
        world.stats["replaced"] += handle.replaced is not None
        order.told.add(handle.run_id)


def _debounce(program: dict[str, Any], key: str, engine: Engine) -> Any:
    return engine.runs.start_debounced(PROGRAM, program, key=key, quiet=QUIET, max_wait=MAX_WAIT)


def _numbered(number: int, seconds: float) -> dict[str, Any]:
    """A program that does next to nothing, and says which call it is of."""
    items = [{"op": "once", "id": "once0"}, {"op": "sleep", "id": "sleep0", "seconds": seconds}]
    return {"body": {"op": "seq", "id": "seq0", "items": items}, "ending": None, "continues": 0, "call": number}
