"""Many seeds, on several cores, and their totals."""

from __future__ import annotations

import gc
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.differential.coverage import missing
from tests.differential.seeds import OPERATIONS_PER_SEED, Report, run_seed

Job = tuple[int, int, tuple[str, ...]]  # seed, operations, stores


@dataclass(slots=True)
class Totals:
    """The totals of all seeds."""

    stores: tuple[str, ...]
    seeds: int = 0
    operations: int = 0
    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)
    facts: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed: list[Report] = field(default_factory=list)

    def add(self, report: Report) -> None:
        """Count one seed."""
        self.seeds += 1
        self.operations += report.operations
        self.kinds.update(report.kinds)
        self.facts.update(report.facts)
        if report.divergence:
            self.failed.append(report)

    @property
    def never(self) -> list[str]:
        """What should have happened in this many operations and did not."""
        return missing(self.facts, self.operations)

    @property
    def is_good(self) -> bool:
        """Whether the stores agree, and every method was used."""
        return not self.failed and not self.never

    def lines(self) -> Iterator[str]:
        """The totals, for people."""
        outcomes: dict[str, list[str]] = {}
        for (kind, fact), count in sorted(self.facts.items(), key=lambda item: (item[0][0], -item[1])):
            outcomes.setdefault(kind, []).append(f"{fact} {count:,}")
        for kind, count in sorted(self.kinds.items()):
            yield f"{kind:<26}{count:>10,}  {' · '.join(outcomes.get(kind, []))}"
        yield f"{'stores':<26}{', '.join(self.stores):>10}"
        yield f"{'seeds':<26}{self.seeds:>10,}"
        yield f"{'operations':<26}{self.operations:>10,}"
        yield f"{'divergences':<26}{len(self.failed):>10,}"
        yield f"{'seconds':<26}{self.seconds:>10.1f}"
        yield f"{'operations per second':<26}{self.operations / max(self.seconds, 1e-9):>10,.0f}"
        yield from (f"never happened: {what}" for what in self.never)


def jobs_for(operations: int, first_seed: int, stores: Sequence[str]) -> list[Job]:
    """As many seeds as the operations fill; the last one may be cut short."""
    jobs: list[Job] = []
    while operations > 0:
        jobs.append((first_seed + len(jobs), min(operations, OPERATIONS_PER_SEED), tuple(stores)))
        operations -= OPERATIONS_PER_SEED
    return jobs


def run_all(jobs: Sequence[Job], processes: int, each: Callable[[Report], None]) -> None:
    """Run seeds, and yield each report in their order."""
    if processes <= 1 or len(jobs) <= 1:
        for job in jobs:
            each(run_seed(*job))
        return
    with multiprocessing.get_context("spawn").Pool(processes, initializer=_prepare) as pool:
        for report in pool.imap(_run, jobs, chunksize=4):
            each(report)


def _prepare() -> None:
    """Nearly all objects here are short-lived, so frequent garbage collection would find nothing."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def _run(job: Job) -> Report:
    return run_seed(*job)


def command(report: Report, stores: Sequence[str]) -> str:
    """The command that reproduces it, and ends with the operation that caused it."""
    return (
        f'make differential OPS={report.operations} FIRST_SEED={report.seed} ARGS="--stores {",".join(stores)} --trace"'
    )


def describe(report: Report, stores: Sequence[str]) -> Iterator[str]:
    """Where the stores diverged, and how to reproduce it."""
    yield f"seed {report.seed}, operation {report.operations}: {report.divergence}"
    yield f"  {command(report, stores)}"
