"""Every case by its name, and the sweep over all the ways to try it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from sim.cases import (
    arguments,
    blocks,
    bodies,
    branches,
    chains,
    compensations,
    connections,
    files,
    loops,
    repairs,
    runs,
    signals,
    threads,
    timers,
)
from sim.cases.case import Case, Tried
from sim.checker import Violation
from sim.world import Report

_RUNS: dict[str, Case] = {
    **compensations.CASES,
    **arguments.CASES,
    **branches.CASES,
    **signals.CASES,
    **loops.CASES,
    **bodies.CASES,
    **repairs.CASES,
    **timers.CASES,
    **runs.CASES,
    **blocks.CASES,
}
CASES: dict[str, Callable[[], Iterator[Tried]]] = {
    **{name: case.tries for name, case in _RUNS.items()},
    **threads.PLAYS,
    **runs.PLAYS,
    **chains.PLAYS,
    **files.PLAYS,
    **connections.PLAYS,
}


def sweep_cases(names: Iterable[str]) -> Iterator[tuple[str, Report]]:
    """Each way to try each of these cases, with what came of it as the simulation tells that."""
    for name in names:
        for what, mode, problem in CASES[name]():
            violations = [Violation("case", "", f"{name}: {what}: {problem}")] if problem else []
            yield f"{name}: {what}", Report(0, "sqlite", mode, "case", violations=violations)


def sweep_case(name: str) -> list[Report]:
    """What came of each way to try one case."""
    return [report for _, report in sweep_cases([name])]
