"""What the checker reports of a worker that shuts down in order: a body that it cut off although it had time left."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sim.checks.leaves import Leaves
from stepwell.virtual.clock import ContinuousClock, ProcessClock

BEGAN, GRACE = 1.974064989859159, 0.2  # a moment and a grace time at which clocks round differently
# The monotonic time of each process has an origin of its own, so its seconds are rounded in another way.
ORIGINS = tuple(10_000.1 * number for number in range(1, 100))


class LeavingProcess:
    """A process that shuts down for some part of its grace time, counted by its own clock as a worker does."""

    name = "worker"
    was_frozen = False

    def __init__(self, leaves: Leaves, host: ContinuousClock, origin: float, part: float, lease: float = 60.0) -> None:
        clock = ProcessClock(host, origin=origin)
        self.environment = SimpleNamespace(clock=clock)
        self.deadlines = {"incarnation": clock.monotonic() + lease}
        self._leaves, self._host, self._part = leaves, host, part

    async def leave(self, grace: float) -> None:
        clock = self.environment.clock
        deadline = clock.monotonic() + grace * self._part
        while clock.monotonic() < deadline:
            self._host.go_to(self._host.monotonic() + (deadline - clock.monotonic()))
        self._leaves.asked(self, "retire", ("incarnation",))  # type: ignore[arg-type]


async def reported(origin: float, part: float, *, is_loading: bool, lease: float = 60.0) -> list[str]:
    """What is reported when a process shuts down while it loads a history, or during a body that is run again."""
    found: list[str] = []
    host = ContinuousClock()
    checker = SimpleNamespace(lost={}, node_at=lambda _: {}, shadow=lambda _: SimpleNamespace(retries=0))
    repairers = SimpleNamespace(has_repaired=lambda _: False)
    world: Any = SimpleNamespace(
        checker=checker,
        clients=SimpleNamespace(operators=SimpleNamespace(repairers=repairers)),
        loop=SimpleNamespace(time=host.monotonic),
        violate=lambda invariant, _, text: found.append(f"{invariant} {text}"),
    )
    leaves = Leaves(world)
    first: Any = LeavingProcess(leaves, host, origin, part, lease)
    checker.lost[first] = False
    body: Any = SimpleNamespace(run_id="r", path="step", attempt=1)
    if is_loading:
        leaves.asked(first, "load", (["r"],))
    else:
        leaves.began(first, body)
    host.go_to(BEGAN)
    await leaves.leave(first, GRACE)
    if not is_loading:
        leaves.began(LeavingProcess(leaves, host, 0.0, 1.0), body)  # type: ignore[arg-type]
    leaves.check_end()
    return found


@pytest.mark.parametrize("is_loading", [True, False])
async def test_a_worker_that_used_its_grace_time_by_its_own_clock_is_not_reported(*, is_loading: bool) -> None:
    assert [await reported(origin, 1.0, is_loading=is_loading) for origin in ORIGINS] == [[]] * len(ORIGINS)


async def test_a_body_that_was_cut_off_before_the_grace_time_was_over_is_reported() -> None:
    text = "I43 attempt 1 of step began in worker, which left in order, and again"

    assert [await reported(origin, 0.999, is_loading=False) for origin in ORIGINS] == [[text]] * len(ORIGINS)


async def test_a_history_that_was_not_awaited_before_the_grace_time_was_over_is_reported() -> None:
    text = "I43 worker leaves, and does not wait for its history"

    assert [await reported(origin, 0.999, is_loading=True) for origin in ORIGINS] == [[text]] * len(ORIGINS)


async def test_a_body_whose_worker_lost_its_lease_before_it_had_left_is_not_reported() -> None:
    lease = BEGAN + GRACE / 2

    assert await reported(ORIGINS[0], 0.999, is_loading=False, lease=lease) == []
