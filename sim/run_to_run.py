"""What programs do to other runs: they tell, ask, start and stop them, and publish for all that wait."""

from __future__ import annotations

from typing import Any

from sim.bodies import check_headers
from sim.plain import PlainTwin
from sim.programs import Node
from sim.witness import WITNESSES
from stepwell.errors import AskRefused, Unanswered, WaitTimeout
from stepwell.replay.context import Context
from stepwell.replay.primitives.wait_any import done, timer
from stepwell.replay.workflows import Workflow

NOBODY = "nobody-of-this-id"


async def tell(ctx: Context | PlainTwin, node: Node, path: str) -> Any:
    """Send a signal."""
    target: str = {"self": ctx.run_id, "nobody": NOBODY, node["to"]: node["to"]}[node["to"]]
    mark = WITNESSES.mark(ctx.run_id, path, target)
    dedup = mark if node["dedup"] else None
    how = {"dedup_key": dedup, "if_missing": node["if_missing"], "name": node["id"]}
    await ctx.signal(target, node["signal"], {"mark": mark}, **how)
    return ["told", mark]


async def question(ctx: Context | PlainTwin, node: Node, path: str) -> Any:
    """Ask, and say what came of it."""
    mark = WITNESSES.mark(ctx.run_id, path, node["to"])
    try:
        answer = await ctx.ask(node["to"], node["signal"], {"mark": mark}, timeout=node["timeout"], name=node["id"])
    except AskRefused as refused:
        return ["asked", "refused", mark, refused.title]
    except Unanswered:
        return ["asked", "unanswered", mark, None]
    except WaitTimeout:
        return ["asked", "late", mark, None]
    return ["asked", "given", mark, answer]


async def announce(ctx: Context | PlainTwin, node: Node, path: str) -> Any:
    """Publish an event."""
    mark = WITNESSES.mark(ctx.run_id, path, node["topic"])
    how = {"deliver": node["deliver"], "retain": node["retain"], "name": node["id"]}
    await ctx.publish(node["topic"], {"mark": mark, "n": node["n"]}, **how)
    return ["announced", mark]


async def launch(ctx: Context | PlainTwin, node: Node, helper: Workflow[Any, Any]) -> Any:
    """Start a run that is no child, and perhaps wait for its end."""
    flow: Any = helper.name if node["is_named"] else helper
    run_id = await ctx.start(flow, node["program"], name=node["id"], **node["options"])
    if node["late"] is None:
        return ["launched", run_id, None]
    arrived = await ctx.wait_any(f"{node['id']} end", ended=done(run_id), late=timer(node["late"]))
    return ["launched", run_id, arrived.label]


async def stop(ctx: Context | PlainTwin, node: Node, helper: Workflow[Any, Any]) -> Any:
    """Start a run that waits for what never comes, and cancel it."""
    run_id = await ctx.start(helper, node["program"], name=f"{node['id']} start")
    await ctx.cancel(run_id, "not needed", compensate=node["compensate"], name=node["id"])
    arrived = await ctx.wait_any(f"{node['id']} end", ended=done(run_id), late=timer(3.0))
    return ["stopped", run_id, arrived.value.status if arrived.label == "ended" else None]


def look_at_headers(ctx: Context | PlainTwin, node: Node) -> Any:
    """The headers are those of the program, whoever started it."""
    check_headers(ctx.run_id, ctx.headers, node)
    return ["headers"]
