"""What a soak looks at, how it grows, and how much growth is too much."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

HOUR = 3_600.0
_POINTS_MAX = 200  # of a series that slopes are computed of; a slope of more is that of their means


class Limit(NamedTuple):
    """How much a figure may grow: in an hour, and by chance however short the time is; and what it may never reach."""

    unit: str
    per_hour: float
    by_chance: float
    most: float | None = None


LIMITS = {
    "RSS": Limit("MiB", per_hour=4.0, by_chance=3.0),
    "objects": Limit("", per_hour=20_000, by_chance=10_000),
    "fds": Limit("", per_hour=2, by_chance=3),
    "tasks": Limit("", per_hour=10, by_chance=40),
    "threads": Limit("", per_hour=2, by_chance=4),
    "WAL": Limit("MiB", per_hour=1.0, by_chance=4.0, most=16.0),
    "connections": Limit("", per_hour=2, by_chance=4),
}


class Point(NamedTuple):
    """A figure at one moment, in seconds."""

    at: float
    value: float


def slope(points: Sequence[Point]) -> float:
    """The growth per second: the median over all pairs of points, which a few odd ones do not move."""
    points = _thinned(points)
    rises = [(b.value - a.value) / (b.at - a.at) for a, b in combinations(points, 2) if b.at > a.at]
    return statistics.median(rises) if rises else 0.0


def _thinned(points: Sequence[Point]) -> Sequence[Point]:
    size = -(-len(points) // _POINTS_MAX)
    if size <= 1:
        return points
    parts = [points[start : start + size] for start in range(0, len(points), size)]
    return [Point(statistics.mean(p.at for p in part), statistics.mean(p.value for p in part)) for part in parts]


@dataclass(frozen=True)
class Verdict:
    """One figure of one process, after the warm-up."""

    who: str
    what: str
    first: float
    last: float
    most: float
    grown: float  # by its slope, over the time that was looked at
    allowed: float
    per_hour: float

    @property
    def is_good(self) -> bool:
        """Whether it grows no more than it may, and has stayed below what it may never reach."""
        limit = LIMITS[self.what].most
        return self.grown <= self.allowed and (limit is None or self.most <= limit)

    @property
    def text(self) -> str:
        """A line for people."""
        unit, limit = LIMITS[self.what].unit, LIMITS[self.what].most
        bound = "" if limit is None else f", at most {self.most:,.1f} of {limit:,.0f}"
        return (
            f"{'ok  ' if self.is_good else 'FAIL'}  {self.who:<22} {self.what:<12} "
            f"{self.first:>10,.1f} → {self.last:>10,.1f} {unit:<4} {self.per_hour:>+10,.1f}/h, "
            f"grown {self.grown:+,.1f} of {self.allowed:,.1f}{bound}"
        )


def judge(who: str, what: str, points: Sequence[Point], *, warm_at: float) -> Verdict | None:
    """What is to be said of a series once it is warm; None if there is too little of it."""
    warm = [point for point in points if point.at >= warm_at]
    if len(warm) < 2:
        return None
    seconds, rise = warm[-1].at - warm[0].at, slope(warm)
    limit = LIMITS[what]
    tenth = max(1, len(warm) // 10)
    return Verdict(
        who,
        what,
        first=statistics.median(point.value for point in warm[:tenth]),
        last=statistics.median(point.value for point in warm[-tenth:]),
        most=max(point.value for point in points),
        grown=rise * seconds,
        allowed=limit.per_hour * seconds / HOUR + limit.by_chance,
        per_hour=rise * HOUR,
    )
