"""Listings of more runs than are looked through in order: what matches may be among the oldest, or anywhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bench.multiply import multiply
from bench.workflows import breaking, looking_out, sequence
from stepwell import Engine, RunFailed, Workflow

COPIES = 6_000


@pytest.fixture(params=["sqlite", "postgres"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    """A few runs, the oldest, and thousands of completed ones that have no tags."""
    url = f"sqlite:///{tmp_path}/many.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    workflows: list[Workflow[Any, Any]] = [breaking, looking_out, sequence]
    async with Engine(url, workflows=workflows) as worker:
        with pytest.raises(RunFailed):
            await (await worker.start(breaking, key="broken")).result()
        for number in range(5):
            tags = {"team": "blue", "place": f"{number}"} if number % 2 else {"team": "red"}
            await (await worker.start(sequence, 1, key=f"old-{number}", tags=tags)).result()
        done = await worker.start(sequence, 1)
        await done.result()
    multiply(url, done.run_id, COPIES)
    async with Engine(url, workflows=workflows) as client:
        yield client


async def _keys(engine: Engine, where: str, limit: int = 50) -> list[str | None]:
    """Page after page."""
    found: list[str | None] = []
    before = None
    while True:
        page = await engine.runs.list(where, limit=limit, before=before)
        found += [run.key for run in page]
        if len(page) < limit:
            return found
        before = page[-1].run_id


async def test_what_few_runs_have_is_found_among_the_oldest(engine: Engine) -> None:
    assert await _keys(engine, "tag:team=blue") == ["old-3", "old-1"]
    assert await _keys(engine, "tag:team=*", limit=2) == ["old-4", "old-3", "old-2", "old-1", "old-0"]
    assert await _keys(engine, "tag:team=* -tag:team=red", limit=1) == ["old-3", "old-1"]
    assert await _keys(engine, "tag:place=3 status:completed workflow:seq*") == ["old-3"]
    assert await _keys(engine, "tag:team=green") == []
    assert await _keys(engine, "workflow:breaking") == ["broken"]
    assert await _keys(engine, "workflow:break*") == ["broken"]
    assert await _keys(engine, "tag:team=blue sort:created") == ["old-1", "old-3"]


async def test_what_most_runs_have_comes_newest_first_to_the_last_page(engine: Engine) -> None:
    keys = await _keys(engine, "workflow:sequence -tag:team=red", limit=1_000)

    assert len(keys) == COPIES + 3
    assert keys[-3:] == [None, "old-3", "old-1"]


@pytest.mark.parametrize("by", ["created", "started", "ended"])
async def test_the_runs_of_a_workflow_come_in_an_order_by_time_to_the_last_page(engine: Engine, by: str) -> None:
    old = [f"old-{number}" for number in range(5)]
    first = await _keys(engine, f"workflow:sequence sort:{by}", limit=1_000)
    last = await _keys(engine, f"workflow:seq* sort:-{by}", limit=1_000)

    assert len(first) == len(last) == COPIES + 6
    assert (first[:5], last[-5:]) == (old, old[::-1])
    assert await _keys(engine, f"workflow:breaking sort:-{by}") == ["broken"]
    assert await _keys(engine, f"sort:{by}", limit=1_000) == ["broken", *first]
