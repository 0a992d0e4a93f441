"""Counters, gauges and histograms, and the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

MEDIA: Final = "text/plain; version=0.0.4; charset=utf-8"

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
COUNTS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)

Labels = tuple[str, ...]  # values, in the order of the names


class Counter:
    """A number that only grows, for each combination of labels."""

    kind = "counter"

    def __init__(self, name: str, words: str, labels: Labels = ()) -> None:
        self.name, self.words, self.labels = name, words, labels
        self.values: dict[Labels, int] = {}

    def add(self, *labels: str, count: int = 1) -> None:
        """Add to the number of these labels."""
        self.values[labels] = self.values.get(labels, 0) + count

    def samples(self) -> Iterator[str]:
        """Its lines."""
        for labels, value in sorted(self.values.items()):
            yield f"{self.name}{_spell(self.labels, labels)} {value}"


class Histogram:
    """The number of measurements up to each bound."""

    kind = "histogram"

    def __init__(self, name: str, words: str, bounds: tuple[float, ...]) -> None:
        self.name, self.words, self.bounds = name, words, bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Add one measurement."""
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.total += value

    def samples(self) -> Iterator[str]:
        """Its lines."""
        count = 0
        for bound, more in zip((*self.bounds, "+Inf"), self.buckets, strict=True):
            count += more
            yield f'{self.name}_bucket{{le="{bound}"}} {count}'
        yield f"{self.name}_sum {self.total:.9g}"
        yield f"{self.name}_count {count}"


class Gauge:
    """A current value, made for one scrape."""

    kind = "gauge"

    def __init__(self, name: str, words: str, values: Mapping[Labels, float], labels: Labels = ()) -> None:
        self.name, self.words, self.labels, self.values = name, words, labels, values

    def samples(self) -> Iterator[str]:
        """Its lines."""
        for labels, value in sorted(self.values.items()):
            yield f"{self.name}{_spell(self.labels, labels)} {value:.9g}"


Metric = Counter | Gauge | Histogram


def render(metrics: Iterable[Metric]) -> str:
    """The metrics in the text format of Prometheus."""
    lines: list[str] = []
    for each in metrics:
        lines += (f"# HELP {each.name} {each.words}", f"# TYPE {each.name} {each.kind}", *each.samples())
    return "\n".join([*lines, ""])


def _spell(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in zip(names, values, strict=True)) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
