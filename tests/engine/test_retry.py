"""An operator's retry reaches what made the run fail, wherever it stands."""

from __future__ import annotations

from collections import Counter

import pytest

from stepwell import Context, Engine, Retry, RunFailed, step, workflow

ONCE = Retry(max_attempts=1)


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path) -> str:
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/retry.db"


class Outage:
    """A step that fails until the outage is over, and counts its executions."""

    def __init__(self) -> None:
        self.is_over = False
        self.calls: Counter[str] = Counter()

    async def call(self, name: str) -> str:
        self.calls[name] += 1
        if not self.is_over and name == "fails":
            raise OSError("down")
        return name


async def test_a_retry_runs_the_failed_branch_of_a_join_again_and_not_the_others(url: str) -> None:
    outage = Outage()
    body = step(outage.call, name="call", retry=ONCE)

    async def good(ctx: Context) -> str:
        return await ctx.step(body, "works")

    async def bad(ctx: Context) -> str:
        return await ctx.step(body, "fails")

    @workflow(name="joined")
    async def joined(ctx: Context) -> list[str]:
        return sorted((await ctx.join("both", {"good": good, "bad": bad})).values())

    async with Engine(url, workflows=[joined]) as engine:
        run = await engine.start(joined)
        with pytest.raises(RunFailed):
            await run.result("5s")

        outage.is_over = True

        assert await engine.retry(run.run_id) is True
        assert await run.result("5s") == ["fails", "works"]
        assert outage.calls == {"works": 1, "fails": 2}


async def test_a_retry_reaches_the_failed_child_and_its_failed_step(url: str) -> None:
    outage = Outage()
    body = step(outage.call, name="call", retry=ONCE)

    @workflow(name="inner")
    async def inner(ctx: Context) -> str:
        return await ctx.step(body, "fails")

    @workflow(name="outer")
    async def outer(ctx: Context) -> str:
        await ctx.step("before", outage.call, "works")
        return await ctx.child(inner)

    async with Engine(url, workflows=[inner, outer]) as engine:
        run = await engine.start(outer)
        with pytest.raises(RunFailed):
            await run.result("5s")

        outage.is_over = True

        assert await engine.retry(run.run_id) is True
        assert await run.result("5s") == "fails"
        assert outage.calls == {"works": 1, "fails": 2}
        assert await engine.retry(run.run_id) is False
