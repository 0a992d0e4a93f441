"""How far a long step is, on the command line."""

from __future__ import annotations

import asyncio
from pathlib import Path

from stepwell import Context, Engine, StepContext, workflow
from tests.edges.conftest import Cli


async def load(info: StepContext) -> None:
    info.progress(1_500, 6_000, unit="rows", note="north")
    await info.checkpoint({"page": 3})
    await asyncio.sleep(3600)


@workflow
async def importing(ctx: Context) -> None:
    await ctx.step(load)


def test_show_and_why_say_how_far_a_long_step_is(cli: Cli, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'long.db'}"

    async def leave_under_way() -> None:
        engine = Engine(url, workflows=[importing])
        await engine.__aenter__()
        await engine.start(importing, key="import-1")
        while not (await engine.runs.detail("import-1")).history.progress:  # noqa: ASYNC110  another task writes it
            await asyncio.sleep(0.01)
        await engine.shutdown(grace=0)

    asyncio.run(leave_under_way())
    shown, why = cli("show", "import-1", "--db", url), cli("why", "import-1", "--db", url, "-o", "json")
    body = cli("show", "import-1", "--db", url, "-o", "json").json

    assert "step load  1,500 of 6,000 rows (25 %), north" in shown.out
    [progress] = body["progress"]
    assert (progress["path"], progress["done"], progress["total"]) == ("load", 1_500, 6_000)
    assert progress["state"] == {"page": 3}
    assert "importing" in why.out
