"""Sabotage: each switch breaks the engine in one way, and the checker must notice.

A switch patches one function (or one statement) of the loaded code for as long as its context lasts; the engine itself
carries no switches. Those that break a store break the memory store unless their name says otherwise.
"""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from sim.runner import prepare
from sim.sabotage_engine import ENGINE_SWITCHES
from sim.sabotage_events import EVENT_SWITCHES, SQLITE_EVENT_SWITCHES
from sim.sabotage_found import FOUND_SWITCHES, RARE_SWITCHES
from sim.sabotage_live import LIVE_STORE_SWITCHES, LIVE_SWITCHES
from sim.sabotage_long_steps import LONG_STEP_SWITCHES
from sim.sabotage_outbox import OUTBOX_SQLITE_SWITCHES, OUTBOX_SWITCHES
from sim.sabotage_pauses import PAUSE_SWITCHES, PAUSE_WORKER_SWITCHES, SQLITE_PAUSE_SWITCHES
from sim.sabotage_postgres import POSTGRES_SWITCHES
from sim.sabotage_repairs import REPAIR_SWITCHES
from sim.sabotage_signals import RECEIPT_SWITCHES, SIGNAL_SWITCHES
from sim.sabotage_starts import SQLITE_START_SWITCHES, START_SWITCHES
from sim.sabotage_stores import SQLITE_SWITCHES, STORE_SWITCHES
from sim.sabotage_transactions import MEANWHILE_SWITCHES, TRANSACTION_SWITCHES
from sim.sweep import sweep
from sim.world import Report, place_of, simulate

Patch = tuple[Any, str, Any]  # whose attribute, its name, what it becomes
Switch = Callable[[], AbstractContextManager[None]]
Found = tuple[int, Report] | None

_ALL: dict[str, Callable[[], list[Patch]]] = {
    **ENGINE_SWITCHES,
    **STORE_SWITCHES,
    **SQLITE_SWITCHES,
    **SIGNAL_SWITCHES,
    **RECEIPT_SWITCHES,
    **EVENT_SWITCHES,
    **SQLITE_EVENT_SWITCHES,
    **FOUND_SWITCHES,
    **RARE_SWITCHES,
    **OUTBOX_SWITCHES,
    **OUTBOX_SQLITE_SWITCHES,
    **LIVE_SWITCHES,
    **LIVE_STORE_SWITCHES,
    **START_SWITCHES,
    **SQLITE_START_SWITCHES,
    **LONG_STEP_SWITCHES,
    **PAUSE_SWITCHES,
    **PAUSE_WORKER_SWITCHES,
    **SQLITE_PAUSE_SWITCHES,
    **REPAIR_SWITCHES,
    **TRANSACTION_SWITCHES,
    **MEANWHILE_SWITCHES,
    **POSTGRES_SWITCHES,
}


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
_APART = {**RARE_SWITCHES, **MEANWHILE_SWITCHES, **POSTGRES_SWITCHES}
SWITCHES = {name: switch for name, switch in EVERY.items() if name not in _APART}

# What goes wrong with these needs a crash while one certain body runs, which random programs hardly meet.
_SWEPT = {
    "receipt-among-rivals": "receive beside a child",
    "time-of-a-later-receipt": "receive and tell the time",
}


def store_of(name: str) -> str:
    """The store that a switch is about."""
    if name in POSTGRES_SWITCHES:
        return "postgres"
    sqlite = {**SQLITE_SWITCHES, **SQLITE_EVENT_SWITCHES, **OUTBOX_SQLITE_SWITCHES, **SQLITE_START_SWITCHES}
    if name in {**sqlite, **TRANSACTION_SWITCHES, **MEANWHILE_SWITCHES, **SQLITE_PAUSE_SWITCHES}:
        return "sqlite"
    memory = {**STORE_SWITCHES, **SIGNAL_SWITCHES, **EVENT_SWITCHES, **OUTBOX_SWITCHES, **LIVE_STORE_SWITCHES}
    memory |= {**START_SWITCHES, **FOUND_SWITCHES, **RARE_SWITCHES, **LONG_STEP_SWITCHES, **PAUSE_SWITCHES}
    memory |= REPAIR_SWITCHES
    return "memory" if name in memory else "both"


def catch(name: str, seeds: int, first_seed: int = 1) -> Found:
    """Simulate with the engine broken until the checker notices; how many seeds it took, or None.

    A seed that the whole engine fails too proves nothing about the switch, and is passed over.
    """
    prepare()
    if name in _SWEPT:
        return _catch_by_sweep(name)
    for count, seed in enumerate(itertools.islice(itertools.count(first_seed), seeds), 1):
        place = place_of(seed, store_of(name))
        with EVERY[name]():
            report = simulate(seed, *place)
        if report.violations and not simulate(seed, *place).violations:
            return count, report
    return None


def _catch_by_sweep(name: str) -> Found:
    """`catch`, with a crash at every store call of one golden program, which the whole engine survives."""
    with EVERY[name]():
        for count, (_, report) in enumerate(sweep(_SWEPT[name], "memory", "live", ("crash_before", "crash_after")), 1):
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
