"""Real drivers in processes of their own, with as little work as shows that they are driven: nothing here is timed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from bench.peers.catalogue import Participant, choose
from bench.peers.drive import RefusedError, measure
from bench.peers.drivers.workloads import STARTS_AT_ONCE, Adapter, start_each
from bench.peers.places import Spot, spot_for


@pytest.fixture
def spot(tmp_path: Path) -> Iterator[Spot]:
    [ours] = choose("stepwell-sqlite")
    with spot_for(ours, None, tmp_path) as spot:
        yield spot


def given(workload: str, **order: Any) -> Participant:
    [ours] = choose("stepwell-sqlite")
    return replace(ours, less={workload: order})


async def test_a_driver_tells_its_figures_and_is_looked_at_meanwhile(spot: Spot) -> None:
    figures = await measure(given("W1", steps=5), "W1", spot)

    assert figures["units"] == 5
    assert figures["steps_per_s"] > 0
    assert figures["cpu_driver_s"] >= 0
    assert figures["cpu_servers_s"] == 0


async def test_every_peer_is_asked_to_start_each_run_by_a_call_of_its_own_64_at_a_time() -> None:
    under_way: set[str] = set()
    most, started = 0, list[tuple[str, str, int]]()

    class Peer:
        async def start(self, kind: str, run: str, argument: int) -> None:
            nonlocal most
            under_way.add(run)
            most = max(most, len(under_way))
            await asyncio.sleep(0)
            under_way.remove(run)
            started.append((kind, run, argument))

    runs = [f"run-{number}" for number in range(1_000)]

    await start_each(cast("Adapter", Peer()), "sequence", runs, 10)

    assert sorted(started) == sorted(("sequence", run, 10) for run in runs)
    assert most == STARTS_AT_ONCE == 64


@pytest.mark.parametrize("bulk", [False, True])
async def test_many_runs_are_started_one_by_one_or_by_one_call(spot: Spot, *, bulk: bool) -> None:
    figures = await measure(given("W2", runs=5, steps=2, bulk=bulk), "W2", spot)

    assert figures["units"] == 10
    assert figures["steps_per_s"] == pytest.approx(2 * figures["runs_per_s"])


async def test_waiting_runs_are_weighed(spot: Spot) -> None:
    figures = await measure(given("W7", runs=10, settle=0, idle=0.1), "W7", spot)

    assert figures["units"] == 10
    assert {"memory_kib", "idle_cpu_percent", "stored_bytes"} <= set(figures)


async def test_a_killed_process_is_followed_by_one_that_completes_everything(spot: Spot) -> None:
    participant = given("W6", runs=20, steps=50, settings={"lease": "500ms"})

    figures = await measure(participant, "W6", spot)

    assert figures["lost"] == 0
    assert 500 <= figures["killed_after"] < 1_000
    # At most the steps that were executing when it was killed.
    assert 0 <= figures["again"] <= 20


async def test_a_long_run_is_resumed_by_another_process(spot: Spot) -> None:
    figures = await measure(given("W8", lengths=[3, 6], history=10, settle=0), "W8", spot)

    assert figures["first_per_s"] == figures["steps_per_s_3"]
    assert figures["last_per_s"] == figures["steps_per_s_6"]
    assert figures["resume_steps_per_s"] == pytest.approx(10 / figures["resume_s"])


async def test_a_driver_that_falls_over_is_a_refusal_with_its_last_words(spot: Spot) -> None:
    spot.order["url"] = "nowhere://"

    with pytest.raises(RefusedError, match=r"exit code 1: .*sqlite:///"):
        await measure(given("W1", steps=5), "W1", spot)


def test_a_place_is_gone_afterwards(tmp_path: Path) -> None:
    [ours] = choose("stepwell-sqlite")
    with spot_for(ours, None, tmp_path) as spot:
        (spot.folder / "peer.db").write_bytes(b"12345")
        assert spot.size() == 5

    assert list(tmp_path.iterdir()) == []
