"""Identifiers: unique, of version 7, and in the order of time."""

from __future__ import annotations

from uuid import UUID

from stepwell.clock import Instant, SystemClock
from stepwell.ids import SystemIds


class Ticking(SystemClock):
    """A clock that goes on by a microsecond whenever it is read."""

    def __init__(self) -> None:
        self._now = 1_700_000_000_000_000

    def now(self) -> Instant:
        self._now += 1
        return Instant(self._now)

    def monotonic(self) -> float:
        return self._now / 1_000_000


def test_ids_are_in_the_order_of_time_to_the_microsecond() -> None:
    ids = SystemIds(Ticking())

    made = [ids.uuid() for _ in range(3_000)]

    assert made == sorted(made)
    assert {(UUID(one).version, UUID(one).variant) for one in made} == {(7, "specified in RFC 4122")}


def test_ids_of_one_instant_differ() -> None:
    class Standing(Ticking):
        def now(self) -> Instant:
            return Instant(self._now)

    ids = SystemIds(Standing())

    assert len({ids.uuid() for _ in range(1_000)}) == 1_000
