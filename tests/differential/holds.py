"""Pausing and resuming workflows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.differential.world import FLOWS, Handle, Operation, World

_WORKFLOWS = tuple({flow.rpartition("@")[0]: None for flow in FLOWS})


def _a_workflow(world: World) -> str | None:
    return world.chance.choice([None, *_WORKFLOWS, "nobody's"])


def pause(world: World) -> Operation | None:
    """Pause a workflow, or all; not too many at once, or nothing would run."""
    if world.state["holds"] and world.likely(0.7):
        return None
    workflow, reason = _a_workflow(world), world.chance.choice(["", 'it\'s "why"\n– \\ 🙂'])
    return Operation(
        "holds.pause",
        (workflow, reason),
        lambda at: at.opened.store.holds.pause(workflow, by="ann", reason=reason),
        lambda answer: ["paused" if answer else "paused before"],
    )


def resume(world: World) -> Operation | None:
    """Resume a paused workflow, sometimes one that is not paused."""
    held = [one.workflow for one in world.state["holds"]]
    if not held and world.likely(0.9):
        return None
    workflow = world.chance.choice(held) if held and world.likely(0.9) else _a_workflow(world)
    return Operation(
        "holds.resume",
        (workflow,),
        lambda at: at.opened.store.holds.resume(workflow, by="ann"),
        lambda answer: ["resumed" if answer else "not paused"],
    )


def _read(name: str, *given: Any, call: Callable[[Any], Any]) -> Operation:
    async def ask(at: Handle) -> Any:
        return await call(at.opened.store.holds)

    return Operation(f"holds.{name}", given, ask, lambda answer: ["found" if answer else "nothing"])


def list_holds(world: World) -> Operation:
    """The holds."""
    return _read("list_holds", call=lambda holds: holds.list_holds())


def list_acts(world: World) -> Operation:
    """The acts."""
    limit = world.chance.choice([1, 3, 100])
    return _read("list_acts", limit, call=lambda holds: holds.list_acts(limit=limit))
