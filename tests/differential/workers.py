"""Operations of workers."""

from __future__ import annotations

from stepwell.clock import Span
from stepwell.ids import Incarnation
from stepwell.model.workers import NewWorker, Renewed
from tests.differential.world import FLOWS, WORKERS, Operation, World

LEASE = Span(40_000_000)


def register(world: World, worker: Incarnation | None = None) -> Operation:
    """Register a worker, or repeat that."""
    world.clock.advance("1us")  # of two workers that begin at one instant, neither is older
    dead = [one.incarnation for one in world.state["workers"] if one.lease_until <= world.now]
    worker = worker or world.chance.choice(dead or WORKERS)
    is_known = any(one.incarnation == worker for one in world.state["workers"])
    new = NewWorker(worker, f"{worker} in Köln", LEASE, FLOWS)
    return Operation(
        "workers.register",
        (new,),
        lambda at: at.opened.store.workers.register(new),
        lambda _: ["again" if is_known else "new"],
    )


def renew(world: World) -> Operation:
    """Renew a lease."""
    worker = world.a_worker()

    def facts(answer: Renewed) -> list[str]:
        told = ["told of cancels"] if answer.cancelling else []
        return ["renewed", *told, *(["told of pauses"] if answer.held else [])]

    return Operation("workers.renew", (worker,), lambda at: at.opened.store.workers.renew(worker, LEASE), facts)


def retire(world: World) -> Operation:
    """Retire a worker."""
    worker = world.a_worker()
    owned = any(run.owner == worker for run in world.runs())
    return Operation(
        "workers.retire",
        (worker,),
        lambda at: at.opened.store.workers.retire(worker),
        lambda _: ["with runs" if owned else "without runs"],
    )
