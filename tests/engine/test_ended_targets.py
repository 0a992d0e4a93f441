"""Signals to runs that have ended, and starts of many with an id that is taken."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Context, errors, workflow
from stepwell.engine.starts import Start
from stepwell.model.signals import Delivery
from tests.cases.harness import Harness


@workflow
async def approval(ctx: Context) -> str:
    message = await ctx.receive("approve")
    return f"approved {message.payload}"


@workflow
async def chain(ctx: Context, left: int) -> int:
    message = await ctx.receive("approve")
    if left:
        ctx.continue_as_new(left - 1)
    return int(message.payload)


async def ended(harness: Harness, **options: Any) -> tuple[Any, str]:
    worker = await harness.worker(approval)
    run = await worker.start(approval, **options)
    assert await worker.signal(run.run_id, "approve", 5, dedup_key="d1") is Delivery.DELIVERED
    await harness.advance("1s")
    return worker, run.run_id


@pytest.mark.parametrize("if_missing", ["raise", "hold"])
async def test_a_signal_to_the_id_of_an_ended_run_says_that_it_has_ended(harness: Harness, if_missing: str) -> None:
    worker, run_id = await ended(harness, key="order-1")

    with pytest.raises(errors.RunEndedError, match="has ended: it is completed") as caught:
        await worker.signal(run_id, "approve", 6, if_missing=if_missing)

    assert isinstance(caught.value, errors.NotFoundError)
    assert "order-1" in caught.value.fix
    assert await worker.engine.signals.list_held() == []
    assert await worker.signal(run_id, "approve", 6, if_missing="drop") is Delivery.MISSING


async def test_a_signal_to_the_key_of_an_ended_run_says_so_or_is_held(harness: Harness) -> None:
    worker, _ = await ended(harness, key="order-1")

    with pytest.raises(errors.RunEndedError, match="has ended: it is completed"):
        await worker.signal("order-1", "approve", 6)

    assert await worker.signal("order-1", "approve", 6, if_missing="hold") is Delivery.HELD
    with pytest.raises(errors.NotFoundError, match="there is no active run 'nobody'"):
        await worker.signal("nobody", "approve", 6)


async def test_an_acknowledged_signal_that_is_repeated_after_the_end_is_a_duplicate(harness: Harness) -> None:
    worker, run_id = await ended(harness, key="order-1")

    for target in (run_id, "order-1"):
        assert await worker.signal(target, "approve", 5, dedup_key="d1") is Delivery.DUPLICATE
        with pytest.raises(errors.RunEndedError):
            await worker.signal(target, "approve", 5, dedup_key="d2")
    assert await worker.signal(run_id, "approve", 5, dedup_key="d1", if_missing="hold") is Delivery.DUPLICATE


async def test_a_signal_that_a_predecessor_took_is_a_duplicate_after_the_end(harness: Harness) -> None:
    worker = await harness.worker(chain)
    run = await worker.start(chain, 1)
    for number in (1, 2):
        await worker.signal(run.run_id, "approve", number, dedup_key=f"d{number}")
        await harness.advance("1s")

    for number in (1, 2):
        assert await worker.signal(run.run_id, "approve", number, dedup_key=f"d{number}") is Delivery.DUPLICATE


async def test_a_start_of_many_with_a_taken_id_starts_none(harness: Harness) -> None:
    worker = await harness.worker(approval)
    await worker.start(approval, run_id="taken-1")

    with pytest.raises(errors.AlreadyExistsError, match="taken-1"):
        await worker.do(
            worker.engine.runs.start_many(approval, [Start(), Start(run_id="taken-1"), Start(run_id="free-1")])
        )

    assert [run.run_id for run in await worker.engine.runs.list()] == ["taken-1"]
