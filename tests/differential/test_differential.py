"""The same operations on every store: same answers, same state; a store that differs is found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stepwell.ids import RunId
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.runners import InlineRunner, Runner
from stepwell.stores.sqlite.store import SqliteRuns, SqliteStore
from tests.differential import stores
from tests.differential.__main__ import main
from tests.differential.campaign import Totals, jobs_for
from tests.differential.coverage import EVERYTHING_FROM, SOMETHING_FROM, methods, required
from tests.differential.seeds import OPERATIONS_PER_SEED, Report, run_seed
from tests.differential.stores import STORES, Opened, Place

ROOT = Path(__file__).parents[2]
SEEDS = (*range(1, 16), 40)  # the last one with threads


@pytest.mark.parametrize("seed", SEEDS)
def test_all_stores_give_the_same_answers_and_show_the_same(seed: int) -> None:
    report = run_seed(seed, OPERATIONS_PER_SEED, tuple(STORES))

    assert report.divergence == ""
    assert report.operations == OPERATIONS_PER_SEED


# Leaves gaps between numbers, as sequences of a database do; not during a transfer, which brings its own numbers.
GAPPED = """
create temp trigger signal_gap after insert on stepwell_signals
when not exists (select 1 from stepwell_seals) begin
    update stepwell_signals set number = number + 3 where number = new.number;
end;
create temp trigger receipt_gap after insert on stepwell_receipts
when not exists (select 1 from stepwell_seals) begin
    update stepwell_meta set value = value + 2 where name = 'receipts';
end;
create temp trigger outbox_gap after insert on stepwell_outbox
when not exists (select 1 from stepwell_seals) begin
    update stepwell_outbox set number = number + 5 where number = new.number;
end;
create temp trigger record_gap after insert on stepwell_record_events
when not exists (select 1 from stepwell_seals) begin
    update sqlite_sequence set seq = seq + 4 where name = 'stepwell_records';
end;
"""

# Resumes a run without an audit row.
FORGETFUL = """
create temp trigger forgotten after insert on stepwell_audit when new.verb = 'resume' begin
    delete from stepwell_audit where id = new.id;
end;
"""


class CarelessRuns(SqliteRuns):
    """Never finds a run to rescue."""

    async def rescue(self, *, stalls_max: int) -> list[RunId]:
        await super().rescue(stalls_max=stalls_max)
        return []


class BrokenRuns(SqliteRuns):
    """Raises an error of its own."""

    async def retry(self, run_id: RunId, *, by: str, act: str = "") -> bool:
        raise KeyError(run_id)


Flaw = str | Callable[[Runner], SqliteRuns]  # triggers in the database, or other methods


def add_store(monkeypatch: pytest.MonkeyPatch, name: str, flaw: Flaw) -> None:
    @asynccontextmanager
    async def opener(place: Place) -> AsyncIterator[Opened]:
        runner = InlineRunner(SqliteDatabase(":memory:"))
        store = SqliteStore(place.environment, ":memory:", runner=runner)
        await store.open()
        if isinstance(flaw, str):
            runner.database.connection.execute(flaw)
        else:
            store.runs = flaw(runner)
        yield Opened(name, store)
        await store.close()

    monkeypatch.setitem(stores.STORES, name, opener)


@pytest.mark.parametrize("seed", range(1, 6))
def test_gaps_between_numbers_are_not_a_difference(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    add_store(monkeypatch, "gapped", GAPPED)

    report = run_seed(seed, OPERATIONS_PER_SEED, ("memory", "gapped"))

    assert report.divergence == ""


@pytest.mark.parametrize(
    ("name", "flaw", "kind", "words"),
    [
        ("forgetful", FORGETFUL, "runs.resume", "memory and forgetful show"),
        ("careless", CarelessRuns, "runs.rescue", "memory and careless answer"),
        ("broken", BrokenRuns, "runs.retry", "broken raises KeyError"),
    ],
)
def test_a_store_that_differs_is_found_at_the_operation_that_shows_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, flaw: Flaw, kind: str, words: str
) -> None:
    add_store(monkeypatch, name, flaw)

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


def test_every_method_of_the_contract_must_be_used() -> None:
    assert [method for method, _ in required(SOMETHING_FROM)] == methods()
    assert set(required(SOMETHING_FROM)) < set(required(EVERYTHING_FROM))
    assert {"runs.apply", "signals.redeliver", "events.publish", "outbox.settle", "views.orphans"} < set(methods())


@pytest.mark.parametrize(
    ("operations", "left_out"),
    [(SOMETHING_FROM, ("runs.retry", "retried")), (EVERYTHING_FROM, ("runs.retry", "failed child retried"))],
)
def test_a_campaign_that_missed_something_fails_and_names_it(operations: int, left_out: tuple[str, str]) -> None:
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
