"""A disk without space: clients are told so, nothing is lost, and work goes on when there is space again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.errors import StoreFullError
from stepwell.ids import RunId
from stepwell.model.runs import NewRun
from tests.servers.postgres import PostgresServer
from tests.system.postgres.crew import Crew
from tests.system.postgres.disks import Disk, small_disk
from tests.system.postgres.load import Load

STARTS_MAX = 5_000  # 10 kB each


@pytest.fixture
def disk(server: PostgresServer) -> Iterator[Disk]:
    with small_disk(server) as disk:
        yield disk


async def test_a_full_disk_is_told_to_clients_and_work_goes_on_when_there_is_space(disk: Disk, tmp_path: Path) -> None:
    with Crew(tmp_path, disk.url) as crew:
        hands = await asyncio.gather(crew.enlist("first"), crew.enlist("second"))
        async with Load(crew) as load:
            load.begin()
            await load.goes_on()
            disk.fill()
            with pytest.raises(StoreFullError, match="no space left") as told:
                for number in range(STARTS_MAX):
                    # Of a workflow that nobody serves: it only takes space.
                    await load.store.runs.create([NewRun(RunId(f"filler-{number}"), "filler", 1, b"x" * 10_000)])
            disk.free()
            await load.goes_on(10)
            await load.store.runs.create([NewRun(RunId("late"), "filler", 1, b"x" * 10_000)])
            for run in await load.engine.runs.list(limit=STARTS_MAX):
                if run.workflow == "filler":
                    await load.engine.cancel(run.run_id)

            await load.check(await load.settle())
        assert all(hand.is_alive for hand in hands)

    assert "free some space" in told.value.fix
