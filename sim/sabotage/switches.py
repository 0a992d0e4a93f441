"""All switches by name, and how each is caught."""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial
from typing import Any
from unittest.mock import patch

from sim.cases.sweeps import sweep_cases
from sim.runner import prepare
from sim.sabotage.attributes import DESCRIPTION_SWITCHES, STARTER_SWITCHES
from sim.sabotage.blocks import BLOCK_SWITCHES, BLOCKS_SHOWN_BY
from sim.sabotage.engine import ENGINE_SWITCHES
from sim.sabotage.events import EVENT_SWITCHES
from sim.sabotage.live import LIVE_SWITCHES
from sim.sabotage.long_steps import LONG_STEP_SWITCHES
from sim.sabotage.neighbours import NEIGHBOUR_SWITCHES
from sim.sabotage.outbox import OUTBOX_SWITCHES
from sim.sabotage.outside import OUTSIDE_POSTGRES_SWITCHES, OUTSIDE_SWITCHES, SHOWN_BY
from sim.sabotage.patches import Switches
from sim.sabotage.pauses import PAUSE_SWITCHES
from sim.sabotage.postgres import POSTGRES_SWITCHES
from sim.sabotage.programs import PROGRAM_SWITCHES
from sim.sabotage.records import RECORD_SWITCHES
from sim.sabotage.regressions import FOUND_SWITCHES, RARE_SWITCHES
from sim.sabotage.repairs import REPAIR_SWITCHES
from sim.sabotage.signals import SIGNAL_SWITCHES
from sim.sabotage.starts import START_SWITCHES
from sim.sabotage.stores import STORE_SWITCHES
from sim.sabotage.transactions import RARE_TRANSACTION_SWITCHES, TRANSACTION_SWITCHES
from sim.sweep import sweep, sweep_endings, sweep_freezes, sweep_leaves
from sim.world import Report, place_of, simulate

Switch = Callable[[], AbstractContextManager[None]]
Found = tuple[int, Report] | None

USUAL: Switches = {
    **ENGINE_SWITCHES,
    **STORE_SWITCHES,
    **SIGNAL_SWITCHES,
    **EVENT_SWITCHES,
    **FOUND_SWITCHES,
    **OUTBOX_SWITCHES,
    **LIVE_SWITCHES,
    **START_SWITCHES,
    **LONG_STEP_SWITCHES,
    **PAUSE_SWITCHES,
    **REPAIR_SWITCHES,
    **TRANSACTION_SWITCHES,
    **OUTSIDE_SWITCHES,
    **PROGRAM_SWITCHES,
    **DESCRIPTION_SWITCHES,
    **STARTER_SWITCHES,
    **RECORD_SWITCHES,
    **BLOCK_SWITCHES,
    **NEIGHBOUR_SWITCHES,
}
RARE: Switches = {**RARE_SWITCHES, **RARE_TRANSACTION_SWITCHES}
POSTGRES: Switches = {**POSTGRES_SWITCHES, **OUTSIDE_POSTGRES_SWITCHES}
_ALL = {**USUAL, **RARE, **POSTGRES}


@contextmanager
def _broken(name: str) -> Iterator[None]:
    with ExitStack() as stack:
        for target, attribute, replacement in _ALL[name]():
            if isinstance(target, dict):
                stack.enter_context(patch.dict(target, {attribute: replacement}))
            else:
                stack.enter_context(patch.object(target, attribute, replacement))
        yield


def _switch(name: str) -> Switch:
    return lambda: _broken(name)


EVERY: dict[str, Switch] = {name: _switch(name) for name in _ALL}

_CRASHES = ("crash_before", "crash_after")
# What goes wrong with these needs a fault at one certain moment, which random programs hardly meet: golden programs are
# swept for it instead, with a crash or an orderly leave at every store call, or with workers that stand still after
# every handle. What users do is not among random programs at all: cases are tried for it.
SWEPT: dict[str, Callable[[], Iterator[tuple[str, Report]]]] = {
    "receipt-among-rivals": lambda: sweep("receive beside a child", "sqlite", "yield", _CRASHES),
    "time-of-a-later-receipt": lambda: sweep("receive and tell the time", "sqlite", "live", _CRASHES),
    "cursor-lost-at-failure": lambda: sweep("loop at most once", "sqlite", "live", _CRASHES),
    "rollback-keeps-its-failures": lambda: sweep("an undo that stops", "sqlite", "live", _CRASHES),
    "recorded-before-what-is-ready": lambda: sweep("cancelled tasks", "sqlite", "live", _CRASHES),
    "tasks-numbered-in-the-turn": lambda: sweep("tasks behind what is passed over", "sqlite", "live", _CRASHES),
    "lost-tasks-go-on": lambda: sweep("tasks of a lost branch", "sqlite", "live", _CRASHES),
    "odd-values-escape": lambda: sweep("odd exceptions", "sqlite", "live", _CRASHES),
    "late-bodies-begin": lambda: sweep_freezes("three steps", "sqlite", "live"),
    "late-claims-begin-bodies": lambda: sweep_leaves("emits and receives", "sqlite", "yield"),
    "late-reclaims-begin-bodies": lambda: sweep_leaves("long steps side by side", "sqlite", "live"),
    "lease-never-taken-anew": lambda: sweep_endings("three steps", "sqlite", "live"),
    **dict.fromkeys(DESCRIPTION_SWITCHES, lambda: sweep("describes", "sqlite", "yield", _CRASHES)),
    "histories-not-awaited": lambda: sweep_leaves("emits and receives", "sqlite", "yield"),
    **{name: partial(sweep_cases, cases) for name, cases in {**SHOWN_BY, **BLOCKS_SHOWN_BY}.items()},
}


def store_of(name: str) -> str:
    """The store that a switch is tried on."""
    return "postgres" if name in POSTGRES else "sqlite"


def catch(name: str, seeds: int, first_seed: int = 1) -> Found:
    """Simulate with the engine broken until the checker notices; how many seeds it took, or None.

    A seed that the whole engine fails too proves nothing about the switch, and is passed over.
    """
    prepare()
    if name in SWEPT:
        return _catch_by_sweep(name)
    for count, seed in enumerate(itertools.islice(itertools.count(first_seed), seeds), 1):
        place = place_of(seed, store_of(name))
        with EVERY[name]():
            report = simulate(seed, *place)
        if report.violations and _is_clean(seed, *place):
            return count, report
    return None


@cache
def _is_clean(seed: int, store: str, mode: str) -> bool:
    """Whether the whole engine keeps every promise with this seed. Many switches ask it of the same seed."""
    return not simulate(seed, store, mode).violations


def _catch_by_sweep(name: str) -> Found:
    """`catch`, by a sweep that the whole engine survives."""
    with EVERY[name]():
        for count, (_, report) in enumerate(SWEPT[name](), 1):
            if report.violations:
                return count, report
    return None


def _catch(job: tuple[str, int, int]) -> tuple[str, Found]:
    return job[0], catch(*job)


def find_out(names: Any, seeds: int, first_seed: int = 1, jobs: int = 1) -> Iterator[tuple[str, Found]]:
    """Break everything, one after the other, on several cores."""
    todo = [(name, seeds, first_seed) for name in names]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(_catch, todo, chunksize=1)
