"""The sweep over crash points (T2): every golden program, a fault at every single store call, and at pairs of them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from sim.golden import golden_program
from sim.mix import Mix, Shape
from sim.world import Report, Scenario, simulate
from stepwell.config import WorkerSettings

FAULTS = ("crash_before", "crash_after", "ack_lost", "not_done", "pause_after")
_HANDLES = 100  # of a worker, within which it has come to the first steps of a golden program
_SECONDS = 12.0  # of virtual time, within which a golden program ends by itself


def sweep(
    name: str, store: str, mode: str, faults: tuple[str, ...] = FAULTS, *, pairs: int = 0
) -> Iterator[tuple[str, Report]]:
    """One program: each fault at each of its store calls, then `pairs` pairs of faults; each with what it was."""
    edges = count_edges(name, store, mode)
    for edge, fault in itertools.product(range(1, edges + 1), faults):
        yield f"{name}: {fault} at call {edge}", _run((name,), store, mode, [("*", edge, fault)])
    rng = random.Random(name)
    for _ in range(pairs):
        shots = [("*", rng.randint(1, edges + 10), rng.choice(faults)) for _ in range(2)]
        text = " and ".join(f"{fault} at call {edge}" for _, edge, fault in shots)
        yield f"{name}: {text}", _run((name,), store, mode, shots)


def sweep_in_turn(name: str, store: str, mode: str, first: int) -> Iterator[tuple[str, Report]]:
    """One program: one fault at each of its store calls, of all kinds in turn, from the kind with that number on."""
    for edge in range(1, count_edges(name, store, mode) + 1):
        fault = FAULTS[(first + edge) % len(FAULTS)]
        yield f"{name}: {fault} at call {edge}", _run((name,), store, mode, [("*", edge, fault)])


def sweep_freezes(name: str, store: str, mode: str) -> Iterator[tuple[str, Report]]:
    """One program: its workers stand still after each of their first handles in turn; each with what it was."""
    for handle in range(_HANDLES):
        yield f"{name}: frozen after handle {handle}", _run((name,), store, mode, [], freeze_at=handle)


def sweep_leaves(name: str, store: str, mode: str) -> Iterator[tuple[str, Report]]:
    """One program, beside one that keeps workers busy: at each store call, the worker that makes it leaves in order."""
    names = (name, "busy")
    for edge in range(1, _run(names, store, mode, []).stats["calls while it ran"] + 1):
        yield f"{name}: leave at call {edge}", _run(names, store, mode, [("*", edge, "leave")])


def sweep_endings(name: str, store: str, mode: str) -> Iterator[tuple[str, Report]]:
    """One program with one worker: it stands still after each of its first handles in turn, until its lease is lost.
    Then the loop that takes a new lease ends before it has it.
    """
    shots = [("register", 2, "loop_ends")]
    for handle in range(_HANDLES):
        report = _run((name,), store, mode, shots, freeze_at=handle, workers=1)
        yield f"{name}: frozen after handle {handle}, loop ended", report


def sweep_all(job: tuple[str, str, str, int]) -> tuple[int, list[str]]:
    """One program swept: how many runs that took, and what was broken in words."""
    name, store, mode, pairs = job
    count, problems = 0, []
    for what, report in sweep(name, store, mode, pairs=pairs):
        count += 1
        problems += [
            f"{one.invariant} violated ({store}, {mode}) by {what}: {one.text}" for one in report.violations[:1]
        ]
    return count, problems


def count_edges(name: str, store: str, mode: str) -> int:
    """How many store calls the program makes when nothing goes wrong."""
    return _run((name,), store, mode, []).stats["calls while it ran"]


def _run(
    names: tuple[str, ...],
    store: str,
    mode: str,
    shots: list[tuple[str, int, str]],
    *,
    freeze_at: int | None = None,
    workers: int = 2,
) -> Report:
    settings = WorkerSettings(mode=mode, lease=1.0, hold_max=0.1, sweep_every=0.5)  # type: ignore[arg-type]
    shape = Shape(store, settings, workers=workers, programs=len(names), faulty_seconds=_SECONDS)
    programs = [golden_program(name) for name in names]
    scenario = Scenario(Mix("sweep", shots=shots, budget=0, freeze_at=freeze_at), shape, programs)
    return simulate(1, store, mode, scenario=scenario)
