"""What type checkers infer of state, watches, registered types, flows and retries."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, assert_type

from stepwell import Context, Engine, Retry, StepFailed, SyncEngine, codec, step, workflow
from stepwell.codec import NotStored
from stepwell.engine.repair_plans import RepairPlan
from stepwell.flows import flow, flow_step, http_step
from stepwell.ids import RunId
from stepwell.views import RunView


@dataclass
class Quote:
    price: int
    cache: NotStored[dict[str, int]] = field(default_factory=NotStored)


class Share:
    def __init__(self, value: Fraction) -> None:
        self.value = value


codec.register(Share, encode=lambda share: str(share.value), decode=lambda text: Share(Fraction(text)))


@flow("score")
async def score(customer: str) -> int:
    return len(customer)


@step(retry=Retry(max_attempts=None))
async def split(parts: int) -> list[Share]:
    return [Share(Fraction(1, parts))]


@workflow
async def sharing(ctx: Context, parts: int) -> int:
    try:
        assert_type(await ctx.step(split, parts), list[Share])
    except StepFailed as error:
        assert_type(error.data, Any)
    assert_type(await ctx.step(flow_step("score", {"customer": "ann"})), Any)
    assert_type(await ctx.step(http_step("charge", "https://bank.example"), {"amount": 1}), Any)
    assert_type(await score("ann"), int)
    return parts


@workflow(retry=Retry(max_attempts=None))
async def tried(ctx: Context, left: int) -> str:
    assert_type(ctx.attempt, int)
    assert_type(await ctx.child(tried, left, retry=Retry(initial="1m")), str)
    assert_type(await ctx.start(tried, left, retry=Retry()), RunId)
    return ""


async def asynchronous(engine: Engine) -> None:
    handle = await engine.start(tried, 1, retry=Retry(max_attempts=5))
    assert_type(await handle.result(), str)
    assert_type((await handle.status()).attempt, int)
    assert_type(await engine.state("k", "quote", as_type=Quote, wait="10s"), Quote | None)
    assert_type(await engine.state("k", wait="10s"), Any)
    assert_type(engine.watch("k"), AsyncGenerator[RunView, None])
    assert_type(await engine.repairs.fork("k", "a", version=2), RepairPlan)
    assert_type(await engine.repairs.mark_undone("k", "a", reason="by hand"), bool)
    assert_type(Quote(1).cache.get(), dict[str, int])


def synchronous(engine: SyncEngine) -> None:
    assert_type(engine.start(tried, 1, retry=Retry(max_attempts=5)).result(), str)
    assert_type(engine.state("k", "quote", as_type=Quote, wait="10s"), Quote | None)
    for view in engine.watch("k"):
        assert_type(view, RunView)
