"""The database's file is deleted under an open engine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stepwell import Context, Engine, Start, StepwellError, workflow
from stepwell.errors import StoreLostError


@workflow
async def ship(ctx: Context, number: int) -> int:
    await ctx.receive("go")
    return number


async def test_starts_signals_and_results_raise_and_the_worker_stops(tmp_path: Path):
    file = tmp_path / "shop.db"
    engine = Engine(f"sqlite:///{file}", workflows=[ship])
    async with engine:
        run = await engine.start(ship, 1, key="first")
        waiting = asyncio.ensure_future(run.result())
        file.unlink()

        with pytest.raises(StoreLostError, match="was deleted or renamed while it was open"):
            await engine.start(ship, 2)
        with pytest.raises(StoreLostError):
            await engine.signal("first", "go")
        with pytest.raises(StoreLostError):
            await engine.runs.start_many(ship, [Start(3), Start(4)])
        with pytest.raises(StoreLostError):
            await waiting
        why: StepwellError = await engine.wait_failed()

        assert why.code == "SW616"
        assert engine._worker is not None
        assert engine._worker.active == 0
        assert engine._worker.offer() is None
    assert not file.exists()
