"""What was measured, kept in one JSON file that later runs may add to, and the arithmetic over it."""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

LIMITS = "limits"
"""The participant that the raw limits belong to: they are measured at the beginning of every round of a workload, and
in W1 again after each turn of ours."""


class Kind(NamedTuple):
    """One figure of a workload."""

    key: str
    label: str
    more_is_better: bool = False
    digits: int = 0


FIGURES: dict[str, tuple[Kind, ...]] = {
    "W1": (Kind("steps_per_s", "steps/s", True), Kind("cpu_ms", "CPU ms/step", digits=2)),
    "W2": (Kind("steps_per_s", "steps/s", True), Kind("cpu_ms", "CPU ms/step", digits=2)),
    "W3": (Kind("p50_ms", "p50 ms", digits=2), Kind("p99_ms", "p99 ms", digits=2)),
    "W4": (Kind("p50_ms", "p50 ms", digits=2), Kind("p99_ms", "p99 ms", digits=2)),
    "W5": (
        Kind("p99_ms", "late p99 ms"),
        Kind("p50_ms", "late p50 ms"),
        Kind("over_s", "due within s", digits=1),
        Kind("cpu_ms", "CPU ms/run", digits=2),
    ),
    "W6": (Kind("recover_s", "s to all complete", digits=1), Kind("again", "steps again"), Kind("lost", "steps lost")),
    "W7": (
        Kind("memory_kib", "KiB/run", digits=2),
        Kind("idle_cpu_percent", "idle CPU %", digits=1),
        Kind("stored_bytes", "bytes stored/run"),
    ),
    "W8": (
        Kind("last_per_s", "steps/s, longest", True),
        Kind("first_per_s", "steps/s, shortest", True),
        Kind("resume_steps_per_s", "recorded steps/s at resume", True),
        Kind("resume_s", "s to resume", digits=2),
    ),
}
"""The first of each is the one that ratios are made of."""

TITLES = {
    "W1": "one run of sequential steps",
    "W2": "many short runs at once",
    "W3": "start to result of a one-step run",
    "W4": "signal to the end of a waiting run",
    "W5": "sleeps that end together",
    "W6": "kill -9 in the middle, restart",
    "W7": "runs that wait",
    "W8": "longer and longer runs, and resuming one",
}


@dataclass(frozen=True)
class Sample:
    """One measure: figures, or why there are none."""

    participant: str
    workload: str
    round: int
    figures: dict[str, float] = field(default_factory=dict)
    refused: str = ""
    order: dict[str, Any] = field(default_factory=dict)


@dataclass
class Results:
    """All samples, and what has to be known of the machine and the versions."""

    machine: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)  # who could not take part, and why
    samples: list[Sample] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> Results:
        """What the file says."""
        raw = json.loads(path.read_text(encoding="utf-8"))
        samples = [Sample(**one) for one in raw["samples"]]
        return cls(raw["machine"], raw["versions"], raw["absent"], samples)

    def save(self, path: Path) -> None:
        """For whoever wants to look closer, or to add to it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    def next_round(self, workload: str, participants: Collection[str]) -> int:
        """The number of the first round that none of these has been through."""
        rounds = (one.round for one in self.samples if one.workload == workload and one.participant in participants)
        return 1 + max(rounds, default=0)

    def of(self, participant: str, workload: str) -> list[Sample]:
        """Its rounds, in order."""
        found = [one for one in self.samples if (one.participant, one.workload) == (participant, workload)]
        return sorted(found, key=lambda one: one.round)

    def values(self, participant: str, workload: str, key: str) -> list[float]:
        """One figure of all its rounds that have it."""
        return [one.figures[key] for one in self.of(participant, workload) if key in one.figures]

    def limits(self, key: str) -> list[float]:
        """One of the limits, in all rounds of all workloads."""
        return [one.figures[key] for one in self.samples if one.participant == LIMITS and key in one.figures]

    def part(self, ours: str, key: str) -> float | None:
        """What part of a limit the steps of W1 reach: the median over the rounds, each with what was measured of the
        limit just before and just after it.
        """
        parts: list[float] = []
        for sample in self.of(ours, "W1"):
            rate, beside = sample.figures.get("steps_per_s"), self._limits_beside(sample, key)
            if rate is not None and beside:
                parts.append(rate / statistics.mean(beside))
        return statistics.median(parts) if parts else None

    def _limits_beside(self, sample: Sample, key: str) -> list[float]:
        """A limit as it was last measured before a sample in its round, and first after it."""
        place = self.samples.index(sample)
        beside: list[float] = []
        for others in (reversed(self.samples[:place]), self.samples[place:]):
            same_round = (one for one in others if (one.workload, one.round) == (sample.workload, sample.round))
            limits = (one.figures[key] for one in same_round if one.participant == LIMITS and key in one.figures)
            beside.extend(itertools.islice(limits, 1))
        return beside

    def refusal(self, participant: str, workload: str) -> str:
        """Why it has no figures there; empty if it has, or was never asked."""
        if participant in self.absent:
            return self.absent[participant]
        samples = self.of(participant, workload)
        return "" if any(one.figures for one in samples) else next((one.refused for one in samples), "")

    def ratio(self, workload: str, *, ours: str, theirs: str) -> float | None:
        """How many times `ours` is ahead of `theirs`: the median over the rounds that have both."""
        kind = FIGURES[workload][0]
        mine = {one.round: one.figures.get(kind.key) for one in self.of(ours, workload)}
        ratios: list[float] = []
        for sample in self.of(theirs, workload):
            a, b = mine.get(sample.round), sample.figures.get(kind.key)
            # Nothing, or less than nothing by the noise of a measure, has no ratio to anything.
            if a is not None and b is not None and a > 0 and b > 0:
                ratios.append(a / b if kind.more_is_better else b / a)
        return statistics.median(ratios) if ratios else None


class Spread(NamedTuple):
    """A figure over its rounds."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread | None:
    """Median and extremes; None of nothing."""
    return Spread(statistics.median(values), min(values), max(values)) if values else None
