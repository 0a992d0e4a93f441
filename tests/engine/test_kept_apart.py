"""Values that are kept apart from their rows: every look at a run has them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from stepwell import Context, Engine, workflow

LARGE = "x" * 150_000


async def _make() -> str:
    return LARGE


@workflow
async def large(ctx: Context, text: str) -> str:
    made = await ctx.join("j", {"a": lambda inner: inner.step("make", _make)})
    return made["a"]


@pytest.fixture(params=["database", "folder"])
def offload(request: pytest.FixtureRequest, tmp_path: Path) -> Literal["database"] | Path:
    return "database" if request.param == "database" else tmp_path / "blobs"


async def test_a_look_at_a_run_has_the_values_that_are_kept_apart(offload: Literal["database"] | Path, tmp_path: Path):
    url = f"sqlite:///{tmp_path}/apart.db"
    async with Engine(url, workflows=[large], offload=offload) as engine:
        run = await engine.start(large, LARGE)
        assert await run.result("30s") == LARGE
        view = await run.status()
        assert (view.input, view.output) == (LARGE, LARGE)
        values = {entry.path: entry.value for entry in await engine.runs.history(run.run_id)}
        assert values == {"j/a/make": LARGE, "j": [["a", LARGE]]}
        [listed] = await engine.runs.list()
        assert listed.output.keys() == {"offloaded", "size"}
    async with Engine(url) as client:  # which was not told where
        found = await client.status(run.run_id)
        assert found is not None
        assert (found.output == LARGE) is (offload == "database")
