"""Random forests of runs are pruned: only what may go goes, all of it goes in the end, and nothing is left behind.

`python -m tests.retention.campaign --forests 200` on each store. Between two steps of a pass, runs are retried, new
things happen, or the pass begins again, as after a crash.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from stepwell.codec.json_codec import JsonCodec
from stepwell.conformance.scene import Scene
from stepwell.engine.backend import Backend
from stepwell.engine.retention import PrunePass, Retention
from stepwell.ids import RunId
from stepwell.model.states import RunStatus
from stepwell.replay.registry import Registry
from stepwell.stores.base.store import Store
from stepwell.virtual.clock import ManualClock
from tests.differential.stores import STORES, Opened, Place
from tests.retention.forest import WORKFLOWS, Forest
from tests.retention.oracle import World, allowed, dangling, dump
from tools.progress import Bar
from tools.results import Result, Trial, keep

_SPANS = (None, "1h", "2h", "10h", "5d")


class Wrong(AssertionError):
    """A run was deleted that must stay, or the reverse."""


async def one_forest(name: str, seed: int, *, operations: int = 120) -> Counter[str]:
    """Plant a forest and prune it; returns figures. Raises `Wrong`."""
    rng = random.Random(seed)
    clock = ManualClock()
    with tempfile.TemporaryDirectory(prefix="stepwell-retention-") as folder:
        async with STORES[name](Place(clock, Path(folder), seed)) as opened:
            scene = Scene(opened.store, clock)
            forest = Forest(scene, rng)
            await forest.plant(operations)
            for _ in range(rng.choice([0, 1, 3])):
                clock.advance(rng.choice([1_800, 7_200, 6 * 86_400]))
            return await _prune(opened, forest, rng, _policy(rng))


def _policy(rng: random.Random) -> Retention:
    def outcomes() -> dict[str, Any]:
        names = ("completed", "failed", "compensated", "cancelled", "continued")
        return {name: span for name in names if (span := rng.choice(_SPANS)) is not None}

    ended = rng.choice([None, "1h", "3h", "3h"])
    others = {one: Retention(rng.choice(["1h", "4h"]), **outcomes()) for one in WORKFLOWS if rng.random() < 0.3}
    return Retention(ended, **outcomes(), workflows=others)


async def _prune(opened: Opened, forest: Forest, rng: random.Random, policy: Retention) -> Counter[str]:
    store = opened.store
    backend = _backend(store)
    figures: Counter[str] = Counter()
    limit = rng.choice([1, 3, 10, 500])
    disturbances = rng.choice([0, 2, 6])
    work = PrunePass(backend, policy, limit=limit)
    before = await dump(store)
    figures["runs"] = len(before.runs)
    while not work.is_over:
        await work.step()
        after = await dump(store)
        _compare(before, after, policy, store)
        before = after
        if disturbances and rng.random() < 0.3:
            disturbances -= 1
            figures["disturbances"] += 1
            if rng.random() < 0.5:
                work = PrunePass(backend, policy, limit=limit)
            await _disturb(forest, before, rng)
            before = await dump(store)
    # What was disturbed goes with the next pass.
    report = await PrunePass(backend, policy, limit=limit).finish()
    figures["passes"] += 1 + (report.runs > 0)
    left = await dump(store)
    _compare(before, left, policy, store)
    rest = allowed(left, policy, store.now())
    if rest:
        raise Wrong(f"these runs may go and are still there: {sorted(rest)}")
    figures["deleted"] = figures["runs"] - len(left.runs)
    figures["kept"] = len(left.runs)
    wrong = [*dangling(left), *opened.unsound(), *await _orphaned(store)]
    if wrong:
        raise Wrong(f"orphans: {wrong}")
    return figures


def _backend(store: Store) -> Backend:
    from stepwell.environment import system_environment

    return Backend(system_environment(), store, Registry(()), JsonCodec())


def _compare(before: World, after: World, policy: Retention, store: Store) -> None:
    gone = before.runs.keys() - after.runs.keys()
    wrong = gone - allowed(before, policy, store.now()) if gone else set()
    if wrong:
        raise Wrong(f"these runs were deleted and must stay: {sorted(wrong)}")
    if dangling(after):
        raise Wrong(f"these links lead nowhere: {dangling(after)}")


async def _disturb(forest: Forest, world: World, rng: random.Random) -> None:
    failed = [run.run_id for run in world.runs.values() if run.status is RunStatus.FAILED]
    if failed and rng.random() < 0.6:
        await forest.scene.store.runs.retry(RunId(rng.choice(sorted(failed))), by="ann")
    else:
        await forest.do()


async def _orphaned(store: Store) -> list[str]:
    """Rows of runs that are gone, in every table."""
    found: list[str] = []
    tables = (
        *("payloads", "attributes", "published", "chunks", "entries", "names", "attempts", "progress", "cursors"),
        *("waits", "receipts", "signals", "outbox", "audit", "records"),
    )
    for table, count in (await _count_orphans(store, tables)).items():
        if count:
            found.append(f"{count} rows of {table}")
    return found


async def _count_orphans(store: Store, tables: tuple[str, ...]) -> dict[str, int]:
    runner: Any = getattr(store.runs, "_runner", None)
    counts: dict[str, int] = {}
    if runner is not None:
        for table in tables:
            sql = f"select count(*) from stepwell_{table} where run not in (select id from stepwell_runs)"
            counts[table] = (await runner.read(lambda c, sql=sql: c.execute(sql).fetchone()))[0]
        sql = "select count(*) from stepwell_record_labels where record not in (select number from stepwell_records)"
        counts["record_labels"] = (await runner.read(lambda c: c.execute(sql).fetchone()))[0]
        events = "select count(*) from stepwell_record_events where record not in (select number from stepwell_records)"
        counts["record_events"] = (await runner.read(lambda c: c.execute(events).fetchone()))[0]
        return counts
    import psycopg

    address: Any = getattr(store, "address")  # noqa: B009
    with psycopg.connect(address.conninfo, autocommit=True) as connection:
        for table in (*tables, "heads"):
            sql = f"select count(*) from stepwell.{table} where run not in (select id from stepwell.runs)"
            row = connection.execute(sql.encode()).fetchone()
            assert row is not None
            counts[table] = row[0]
        sql = "select count(*) from stepwell.record_events where record not in (select number from stepwell.records)"
        row = connection.execute(sql.encode()).fetchone()
        assert row is not None
        counts["record_events"] = row[0]
    return counts


def main(arguments: list[str] | None = None) -> int:
    """Read the command line, prune forests, and say how it went."""
    parser = argparse.ArgumentParser(prog="retention", description=__doc__)
    parser.add_argument("--store", choices=tuple(STORES), help="SQLite in memory and PostgreSQL, if it is left out")
    parser.add_argument("--forests", type=int, default=200, help="for each store")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--record", action="store_true", help="write the result to scorecard/")
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    trials, began, wrong = [], time.monotonic(), 0
    for name in [options.store] if options.store else ("memory", "postgres"):
        figures: Counter[str] = Counter()
        failed: list[str] = []
        bar = Bar(options.forests, f"forests on {name}")
        for number in range(seed, seed + options.forests):
            try:
                figures += asyncio.run(one_forest(name, number))
            except Wrong as error:
                failed.append(f"  --store {name} --seed {number} --forests 1: {error}")
            bar.show(number + 1 - seed)
        print(f"\n{options.forests:,} forests on {name}, seeds from {seed}: {dict(figures)}")
        print(*failed[:5], sep="\n")
        wrong += len(failed)
        fault = f"random trees, operators and crashes while they are pruned, {name}"
        trials.append(Trial(fault, options.forests, figures["runs"], lost=len(failed), doubled=None, stuck=None))
    print(f"{wrong} WRONG FORESTS" if wrong else "only what may go is gone, all of it is, and nothing of it is left")
    if options.record:
        command = f"make retention FORESTS={options.forests}"
        keep(Result("retention", command, time.monotonic() - began, tuple(trials)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
