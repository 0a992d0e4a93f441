"""Values come back as their annotations say, live and replayed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from stepwell import Break, Context, Continue, Engine, RunFailed, WorkerSettings, workflow


@dataclass
class Receipt:
    number: int


async def body(ctx: Context, number: int) -> Continue[int] | Break[Receipt]:
    return Break(Receipt(number)) if number == 2 else Continue(number + 1)


@workflow
async def breaks(ctx: Context) -> int:
    receipt = await ctx.loop("count", body, 0)
    await ctx.sleep("pause", "1ms")
    return receipt.number


@workflow
async def joins_nothing(ctx: Context) -> dict[str, int]:
    return await ctx.join("none", {})


@workflow
async def takes_text(ctx: Context, text: str) -> str:
    return text


@workflow
async def continues_wrongly(ctx: Context) -> str:
    ctx.continue_as_new(7, takes_text)  # type: ignore[misc]


@pytest.fixture(params=["live", "yield"])
def settings(request: pytest.FixtureRequest) -> WorkerSettings:
    return WorkerSettings(mode=request.param)


async def test_the_value_of_a_break_has_the_annotated_type(settings: WorkerSettings) -> None:
    async with Engine("memory:", workflows=[breaks], settings=settings) as engine:
        assert await (await engine.start(breaks)).result("60s") == 2


async def test_a_join_of_nothing_is_an_empty_result(settings: WorkerSettings) -> None:
    async with Engine("memory:", workflows=[joins_nothing], settings=settings) as engine:
        assert await (await engine.start(joins_nothing)).result("60s") == {}


async def test_a_wrong_input_of_a_successor_fails_the_run_with_the_violation(settings: WorkerSettings) -> None:
    async with Engine("memory:", workflows=[continues_wrongly, takes_text], settings=settings) as engine:
        with pytest.raises(RunFailed) as failed:
            await (await engine.start(continues_wrongly)).result("60s")

    assert "str" in failed.value.why


async def test_a_handle_on_an_existing_run_is_found_by_its_key(settings: WorkerSettings) -> None:
    async with Engine("memory:", workflows=[takes_text], settings=settings) as engine:
        await engine.start(takes_text, "hello", key="K")

        assert await (await engine.runs.handle(takes_text, "k")).result("60s") == "hello"
