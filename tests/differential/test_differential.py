"""The same operations on every store: same answers, same state; and whoever differs is found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from stepwell.ids import RunId
from stepwell.stores.memory.store import MemoryRuns, MemoryStore
from stepwell.stores.memory.transaction import Transaction
from tests.differential import stores
from tests.differential.__main__ import main
from tests.differential.campaign import Totals, jobs_for
from tests.differential.coverage import EVERYTHING_FROM, SOMETHING_FROM, methods, required
from tests.differential.models import ModelTransactions
from tests.differential.seeds import OPERATIONS_PER_SEED, Report, run_seed
from tests.differential.stores import STORES, Opened, Place

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
SEEDS = (*range(1, 16), 40)  # the last one in a file


@pytest.mark.parametrize("seed", SEEDS)
def test_every_store_answers_alike_and_shows_the_same(seed: int) -> None:
    report = run_seed(seed, OPERATIONS_PER_SEED, tuple(STORES))

    assert report.divergence == ""
    assert report.operations == OPERATIONS_PER_SEED


class Gapped(MemoryStore):
    """Uses up numbers for nothing, as sequences of a database do."""

    def transact(self, transition: Callable[[Transaction], T]) -> T:
        self.database.signals_sent += 3
        self.database.receipts_given += 2
        self.database.counters["outbox"] = self.database.counters.get("outbox", 0) + 5
        return super().transact(transition)


class Forgetful(MemoryStore):
    """Resumes a run without a note of who did it."""

    def operate(self, transition: Callable[[Transaction], T]) -> T:
        outcome = super().operate(transition)
        self.database.audit = {run: acts for run, acts in self.database.audit.items() if acts[-1].verb != "resume"}
        return outcome


class Careless(MemoryStore):
    """Finds nothing to rescue, whatever there is."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.runs = CarelessRuns(self)


class CarelessRuns(MemoryRuns):
    async def rescue(self, *, stalls_max: int) -> list[RunId]:
        await super().rescue(stalls_max=stalls_max)
        return []


class Broken(MemoryStore):
    """Does not know its own rows."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.runs = BrokenRuns(self)


class BrokenRuns(MemoryRuns):
    async def retry(self, run_id: RunId, *, by: str) -> bool:
        raise KeyError(run_id)


def add_store(monkeypatch: pytest.MonkeyPatch, name: str, cls: type[MemoryStore]) -> None:
    @asynccontextmanager
    async def opener(place: Place) -> AsyncIterator[Opened]:
        store = cls(place.environment)
        await store.open()
        yield Opened(name, store, ModelTransactions(store))
        await store.close()

    monkeypatch.setitem(stores.STORES, name, opener)


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_store_that_leaves_gaps_between_its_numbers_is_alike(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    add_store(monkeypatch, "gapped", Gapped)

    report = run_seed(seed, OPERATIONS_PER_SEED, ("memory", "gapped"))

    assert report.divergence == ""


@pytest.mark.parametrize(
    ("cls", "kind", "words"),
    [
        (Forgetful, "runs.resume", "memory and forgetful show"),
        (Careless, "runs.rescue", "memory and careless answer"),
        (Broken, "runs.retry", "broken raises KeyError"),
    ],
)
def test_a_store_that_differs_is_found_at_the_operation_that_shows_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], cls: type[MemoryStore], kind: str, words: str
) -> None:
    name = cls.__name__.lower()
    add_store(monkeypatch, name, cls)

    assert main(["--ops", "3000", "--stores", f"memory,{name}", "--jobs", "1"]) == 1
    printed = capsys.readouterr().out
    found = re.search(rf"seed (\d+), operation (\d+): {re.escape(kind)}", printed)
    assert found is not None
    assert words in printed
    seed, operation = found.groups()
    assert f'make differential OPS={operation} FIRST_SEED={seed} ARGS="--stores memory,{name} --trace"' in printed

    assert main(["--ops", operation, "--first-seed", seed, "--stores", f"memory,{name}", "--trace"]) == 1
    again = capsys.readouterr().out
    assert f"seed {seed}, operation {operation}: {kind}" in again
    assert f"operations                {operation:>10}" in again
    assert main(["--ops", str(int(operation) - 1), "--first-seed", seed, "--stores", f"memory,{name}"]) == 0


def test_the_same_seed_gives_the_same_operations_whatever_the_hash_seed() -> None:
    first, second = (
        subprocess.run(
            [sys.executable, "-m", "tests.differential", "--ops", "200", "--first-seed", "7", "--trace"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.partition("\nblobs.")[0]
        for hash_seed in ("1", "31337")
    )

    assert first.count("\n") > 300
    assert first == second


def test_every_method_of_the_contract_has_to_be_seen_at_work() -> None:
    assert [method for method, _ in required(SOMETHING_FROM)] == methods()
    assert set(required(SOMETHING_FROM)) < set(required(EVERYTHING_FROM))
    assert {"runs.apply", "signals.redeliver", "events.publish", "outbox.settle", "views.orphans"} < set(methods())


@pytest.mark.parametrize(
    ("operations", "left_out"),
    [(SOMETHING_FROM, ("runs.retry", "retried")), (EVERYTHING_FROM, ("runs.retry", "failed child retried"))],
)
def test_a_campaign_that_left_something_out_fails_and_says_what(operations: int, left_out: tuple[str, str]) -> None:
    everything = Counter(required(EVERYTHING_FROM))
    whole, partial, small = Totals(("memory",)), Totals(("memory",)), Totals(("memory",))
    whole.add(Report(1, operations, facts=everything))
    partial.add(Report(1, operations, facts=everything - Counter([left_out])))
    small.add(Report(1, operations - 1, facts=everything - Counter([left_out])))

    assert (whole.is_good, partial.is_good, small.is_good) == (True, False, True)
    assert list(partial.lines())[-1] == f"never happened: {': '.join(left_out)}"


def test_a_campaign_fills_whole_seeds_and_cuts_the_last_one_short() -> None:
    jobs = jobs_for(2 * OPERATIONS_PER_SEED + 1, 7, ("memory", "sqlite"))

    assert [(seed, count) for seed, count, _ in jobs] == [(7, OPERATIONS_PER_SEED), (8, OPERATIONS_PER_SEED), (9, 1)]


@pytest.mark.parametrize("names", ["memory", "memory,memory", "memory,nothing", ""])
def test_a_campaign_needs_two_known_stores(names: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--stores", names])
    assert "two or more" in capsys.readouterr().err
