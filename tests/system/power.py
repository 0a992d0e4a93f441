"""Cut the power under SQLite many times, and check every promise: `python -m tests.system.power --cuts 2500`.

Each round runs a real engine on a disk that remembers every write and every sync. Then the power is cut at many random
moments of it: what was not synced is kept, lost or torn at random. Whatever had been acknowledged must be there; now
and then a new engine goes on with what is left, until everything has ended.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

from stepwell import Engine, WorkerSettings
from stepwell.clock import SystemClock
from stepwell.environment import system_environment
from stepwell.model.states import ACTIVE, RunStatus
from stepwell.stores.base.views import RunFilter
from stepwell.stores.sqlite import database as sqlite_database
from stepwell.stores.sqlite.connections import Synchronous
from stepwell.stores.sqlite.store import SqliteStore
from tests.system import storm_workflows
from tests.system.disk import Change, Cut, Image, RecordingDisk, images, write_image
from tests.system.evidence import Evidence, Observed, collect
from tests.system.ledger import Ledger, Line
from tests.system.storm_checks import (
    check_effects,
    check_given,
    check_histories,
    check_keys,
    check_results,
    check_signals,
    check_starts,
    check_values,
    violations,
)
from tests.system.storm_client import Client
from tests.system.storm_workflows import EFFECTS, MAKE_EFFECTS, SINKS, TRANSACTIONAL, WORKFLOWS, relay, talk
from tests.system.takeovers import percentile
from tools.progress import Bar
from tools.results import Result, Trial, keep

ACKNOWLEDGED = ("started", "signalled", "cancelled", "result", "ended")
FILE = "power.db"
CUTS_PER_ROUND = 250
GO_ON_EVERY = 25  # so many cuts, one is followed by a new engine that ends everything
SETTLE_SECONDS = 60.0
_WORKFLOWS = (*WORKFLOWS, *TRANSACTIONAL)
# Nothing is repeated for a reason that a ledger could know: the power is the reason.
_NOT_ASKED = ("unexplained repeats", "zombies")


class MemoryLedger(Ledger):
    """Keeps its lines in memory, each with the number of changes that the disk had seen by then."""

    def __init__(self, changes: list[Change]) -> None:
        super().__init__(Path(os.devnull))
        self._changes = changes
        self.lines: list[Line] = []

    def note(self, kind: str, **facts: Any) -> None:
        self.lines.append(Line(kind, float(len(self._changes)), os.getpid(), facts))

    def acknowledged(self, kind: str, **facts: Any) -> None:
        self.note(kind, **facts)


class Round:
    """One engine at work, and the cuts under it."""

    def __init__(self, folder: Path, rng: random.Random, synchronous: Synchronous, seconds: float) -> None:
        self._folder = folder
        self._rng = rng
        self._synchronous: Synchronous = synchronous
        self._seconds = seconds
        self._disk = RecordingDisk()
        self._begins = 0  # nobody was promised anything before
        self.lines: list[Line] = []
        self.found: dict[str, list[str]] = {}
        self.opened: list[float] = []  # seconds until a store was open again
        self.figures: Counter[str] = Counter()

    async def work(self) -> None:
        """Have an engine that is busy, and everything that it writes."""
        home = self._folder / "before"
        home.mkdir()
        changes = self._disk.changes
        ledger = MemoryLedger(changes)
        storm_workflows.use(ledger)
        with self._disk:
            store = SqliteStore(system_environment(), home / FILE, synchronous=self._synchronous)
            settings = WorkerSettings(mode=self._rng.choice(("live", "yield")), lease="2s", name="power")
            engine = Engine(store, workflows=_WORKFLOWS, sinks=SINKS, lifecycle=True, settings=settings)
            async with engine:
                await engine.transact(lambda tx: tx.execute(MAKE_EFFECTS))
                self._begins = len(changes)
                client = Client(engine, ledger, self._rng, active_max=16, workflows=_WORKFLOWS)
                stop = asyncio.Event()
                busy = asyncio.ensure_future(client.keep_busy(stop, 0.05))
                await asyncio.sleep(self._seconds)
                stop.set()
                await busy
                await client.abandon()
        self.lines = ledger.lines
        self.figures["writes"] += sum(change.kind == "write" for change in changes)
        self.figures["syncs"] += sum(change.kind == "sync" for change in changes)
        self.figures["written back"] += sum(c.kind == "sync" and c.file == FILE for c in changes)

    def cuts(self, count: int) -> Iterator[Cut]:
        """At random moments, many of them just before or just after a sync."""
        rng, changes = self._rng, self._disk.changes
        syncs = [number for number, c in enumerate(changes) if c.kind == "sync" and number > self._begins]
        for _ in range(count):
            at = rng.randint(self._begins, len(changes))
            if rng.random() < 0.5:
                at = min(len(changes), rng.choice(syncs) + rng.choice((0, 1)))
            yield Cut(at, share=rng.choice((0.0, 0.0, 0.3, 0.7, 1.0)), tears=rng.random() < 0.5)

    async def cut(self, count: int, bar: Bar, done: int) -> None:
        """Cut the power so many times, and look at what is left."""
        for number, (cut, image) in enumerate(images(self._disk.changes, self.cuts(count), self._rng)):
            lines = [line for line in self.lines if line.at <= cut.at]
            self.figures["acknowledged"] += sum(line.kind in ACKNOWLEDGED for line in lines)
            found = await self._look(image, lines, goes_on=number % GO_ON_EVERY == 0)
            for promise, broken in found.items():
                self.found.setdefault(promise, []).extend(f"after {cut}: {text}" for text in broken)
            bar.show(done + number + 1)

    async def _look(self, image: Image, lines: list[Line], *, goes_on: bool) -> dict[str, list[str]]:
        folder = self._folder / "after"
        write_image(image, folder)
        began = time.monotonic()
        try:
            store = SqliteStore(system_environment(), folder / FILE)
            async with Engine(store, workflows=_WORKFLOWS, sinks=SINKS, lifecycle=True, worker=False) as engine:
                self.opened.append(time.monotonic() - began)
                found = _promises(await _evidence(engine, store, lines))
        except Exception as error:
            return {"damaged": [f"{type(error).__name__}: {error}"]}
        damage = _damage(folder / FILE)
        if goes_on and not damage:
            self.figures["went on"] += 1
            found |= await self._go_on(folder / FILE, lines)
        return found | {"damaged": damage}

    async def _go_on(self, path: Path, lines: list[Line]) -> dict[str, list[str]]:
        """Let a new worker end everything."""
        ledger = MemoryLedger([])
        ledger.lines = [line._replace(at=line.at - 1e9) for line in lines]  # before everything that comes now
        storm_workflows.use(ledger)
        clock = SystemClock()
        store = SqliteStore(system_environment(), path)
        settings = WorkerSettings(lease="2s", sweep_every="200ms", name="power-again")
        async with Engine(store, workflows=_WORKFLOWS, sinks=SINKS, lifecycle=True, settings=settings) as engine:
            client = Client(engine, ledger, self._rng, active_max=0, workflows=_WORKFLOWS)
            deadline = clock.monotonic() + SETTLE_SECONDS
            while clock.monotonic() < deadline:
                active = await store.views.list_runs(RunFilter(statuses=tuple(ACTIVE)), limit=1_000)
                if not active and not await store.outbox.list_owed(is_dead=False, limit=1):
                    break
                for run in active:
                    if run.workflow in (talk.name, relay.name) and run.status is RunStatus.WAITING:
                        await client.send(run.run_id)
                await asyncio.sleep(0.1)
            found = violations(await _evidence(engine, store, ledger.lines))
        return {promise: texts for promise, texts in found.items() if promise not in _NOT_ASKED}


async def _evidence(engine: Engine, store: SqliteStore, lines: list[Line]) -> Evidence:
    evidence = await collect(engine, store, lines, Observed())
    rows = await engine.transact(lambda tx: tx.execute(f"select run, value from {EFFECTS}"))
    evidence.effects = [(run, value) for run, value in rows]
    return evidence


def _promises(evidence: Evidence) -> dict[str, list[str]]:
    """What must hold of a file at any moment, while runs are under way."""
    return {
        "lost acks": [*check_starts(evidence), *check_results(evidence), *check_signals(evidence)],
        "double commits": [*check_histories(evidence), *check_values(evidence), *check_effects(evidence)],
        "bad effects": [*check_given(evidence), *check_keys(evidence)],
    }


def _damage(path: Path) -> list[str]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        answers = [str(row[0]) for row in connection.execute("pragma integrity_check")]
    finally:
        connection.close()
    return [] if answers == ["ok"] else answers


class Campaign:
    """Rounds, until enough cuts were made."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._rng = random.Random(options.seed)
        self.found: dict[str, list[str]] = {}
        self.opened: list[float] = []
        self.figures: Counter[str] = Counter()

    async def run(self) -> None:
        """All of it."""
        options = self._options
        bar, done = Bar(options.cuts, "cuts"), 0
        while done < options.cuts:
            count = min(CUTS_PER_ROUND, options.cuts - done)
            # In every other round the log is written back all the time.
            pages = 600 if self.figures["rounds"] % 2 else 30
            vars(sqlite_database).update(CHECKPOINT_PAGES=pages, RESTART_PAGES=2 * pages)
            with tempfile.TemporaryDirectory(prefix="stepwell-power-") as folder:
                one = Round(Path(folder), self._rng, options.synchronous, options.seconds)
                await one.work()
                await one.cut(count, bar, done)
            for promise, broken in one.found.items():
                self.found.setdefault(promise, []).extend(broken)
            self.opened += one.opened
            self.figures += one.figures
            self.figures["rounds"] += 1
            done += count

    def report(self, seconds: float) -> int:
        """Print what came of it; the number of violations."""
        options, figures = self._options, self.figures
        broken = sum(map(len, self.found.values()))
        print(f"\npower cuts under SQLite {apsw.sqlite_lib_version()}, synchronous={options.synchronous}:")
        print(f"  {'cuts':<16}{options.cuts:>10,}  in {figures['rounds']} rounds, seed {options.seed}")
        for name in ("writes", "syncs", "written back", "acknowledged", "went on"):
            print(f"  {name:<16}{figures[name]:>10,}")
        recovery = f"p50 {percentile(self.opened, 0.5):.3f} s, p99 {percentile(self.opened, 0.99):.3f} s"
        print(f"  {'open again':<16}{recovery}")
        for promise, texts in sorted(self.found.items()):
            print(f"  {promise:<16}{len(texts):>10,}")
            for text in texts[:5]:
                print(f"    - {text}")
        print(f"{broken} VIOLATIONS" if broken else "all promises held", f"({seconds:.0f} s)")
        if options.record:
            keep(self._result(seconds, recovery))
        return broken

    def _result(self, seconds: float, recovery: str) -> Result:
        options, count = self._options, {name: len(texts) for name, texts in self.found.items()}
        trial = Trial(
            f"power cut under SQLite, synchronous={options.synchronous}",
            options.cuts,
            self.figures["acknowledged"],
            lost=count.get("lost acks", 0) + count.get("damaged", 0) + count.get("bad effects", 0),
            doubled=count.get("double commits", 0),
            stuck=count.get("unfinished", 0) + count.get("orphans", 0),
            recovery=f"open again: {recovery}",
        )
        return Result("power", f"make power CUTS={options.cuts}", seconds, (trial,))


def main(arguments: list[str] | None = None) -> int:
    """Read the command line, cut, and say how it went."""
    parser = argparse.ArgumentParser(prog="power", description=__doc__)
    parser.add_argument("--cuts", type=int, default=2_500)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long an engine works in each round")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--synchronous", choices=("FULL", "NORMAL"), default="FULL")
    parser.add_argument("--record", action="store_true", help="write the result to scorecard/")
    options = parser.parse_args(arguments)
    options.seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    logging.getLogger("stepwell").setLevel(logging.ERROR)  # the sink of the storm fails at times, as it should
    campaign, began = Campaign(options), time.monotonic()
    asyncio.run(campaign.run())
    return 1 if campaign.report(time.monotonic() - began) else 0


if __name__ == "__main__":
    sys.exit(main())
