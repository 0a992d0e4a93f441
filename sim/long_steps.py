"""Bodies of long steps: they work off pages, keep how far they came in several ways, and fail or yield in between."""

from __future__ import annotations

import asyncio
from typing import Any

from sim.ledger import world_here
from sim.programs import Node
from stepwell.model.retries import Retry
from stepwell.replay.step_context import StepContext
from stepwell.replay.steps import Step, step

RETRY = Retry(max_attempts=3, initial="50ms", max_delay="1s")


class Torn(Exception):
    """A page could not be turned, this time."""


async def _work(info: StepContext, node: Node, after: list[str]) -> Any:
    world = world_here()
    world.body_began(info, node)
    page = info.state or 0
    while page < node["pages"]:
        if node["lasts"]:
            await asyncio.sleep(node["lasts"] / node["pages"])
        page += 1
        if _turn_page(info, node, page) == "checkpoint":
            await info.checkpoint(page)
            world.progress.kept(info, page)
    return ["did", node["id"], node["value"]]


def _work_sync(info: StepContext, node: Node, after: list[str]) -> Any:
    world_here().body_began(info, node)
    page = info.state or 0
    while page < node["pages"]:
        page += 1
        if _turn_page(info, node, page) == "checkpoint":
            info.checkpoint(page)  # a simulated thread cannot wait for it
    return ["did", node["id"], node["value"]]


def _turn_page(info: StepContext, node: Node, page: int) -> str:
    world_here().progress.turned(info, page)
    info.progress(page, node["pages"], unit="pages")
    how: str = node["keeps"][page - 1]
    if page == node["fails_at"] and info.attempt == 1:
        info.heartbeat(page)
        raise Torn(f"page {page}")
    if how == "yield":
        info.yield_(page)
    if how == "heartbeat":
        info.heartbeat(page)
    return how


LONG_STEPS: dict[str, Step[..., Any]] = {"long": step(_work, retry=RETRY), "long_sync": step(_work_sync, retry=RETRY)}
