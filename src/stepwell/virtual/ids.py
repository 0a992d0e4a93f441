"""Ids that are the same in every execution."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

from stepwell.clock import Clock
from stepwell.ids import format_uuid7


class VirtualIds:
    """Time-sorted ids, made of the virtual time and a number."""

    def __init__(self, clock: Clock, number: Callable[[], int]) -> None:
        self._clock = clock
        self._number = number

    def uuid(self) -> str:
        return format_uuid7(self._clock.now() // 1_000, self._number())


def counted_ids(clock: Clock, first: int = 1) -> VirtualIds:
    """Ids numbered in the order in which they are made."""
    return VirtualIds(clock, itertools.count(first).__next__)


def drawn_ids(clock: Clock, rng: random.Random) -> VirtualIds:
    """Ids with random numbers, from a seed."""
    return VirtualIds(clock, lambda: rng.getrandbits(74))
