"""A steady load for a long time, with kills, and a look at what grows: `python -m tests.system.soak --minutes 60`.

One worker lives for the whole time and is looked at, as is the client; another one is killed again and again. First
both are kept as busy as they can be, which tells the capacity; the load is a part of that. Exit code 1: something
grows more than it may, or runs did not end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from bench.peers.observing import own_bytes
from stepwell import Engine
from tests.servers.postgres import PostgresServer
from tests.system.fleet import Fleet, Member
from tests.system.grounds import SqliteGround
from tests.system.ledger import Ledger
from tests.system.soak_figures import LIMITS, Point, Verdict, judge
from tests.system.soak_worker import types_of, vitals_of
from tests.system.storm_client import Client
from tests.system.storm_workflows import MAKE_EFFECTS, SINKS, TRANSACTIONAL, WORKFLOWS
from tools.results import Result, Trial, keep

_MIB = 1_048_576
_TYPES_SHOWN = 12


class Tally(Ledger):
    """Counts what was acknowledged, and keeps nothing."""

    def __init__(self) -> None:
        super().__init__(Path(os.devnull))
        self.counts: Counter[str] = Counter()

    def note(self, kind: str, **facts: Any) -> None:
        self.counts[kind] += 1

    def acknowledged(self, kind: str, **facts: Any) -> None:
        self.counts[kind] += 1

    @property
    def ended(self) -> int:
        """Runs whose end was heard of."""
        return self.counts["result"] + self.counts["ended"]


class Place:
    """The database, and what can be told of it from outside."""

    def __init__(self, folder: Path, url: str, server: PostgresServer | None) -> None:
        self.url = url
        self._wal = folder / "storm.db-wal"
        self._server = server

    def look(self) -> dict[str, float]:
        """The size of SQLite's log, or how many connections PostgreSQL has."""
        if self._server is None:
            return {"WAL": (self._wal.stat().st_size if self._wal.exists() else 0) / _MIB}
        [(count,)] = self._server.execute("select count(*) from pg_stat_activity where backend_type = 'client backend'")
        return {"connections": float(count)}


@contextmanager
def _place(store: str, folder: Path) -> Iterator[Place]:
    if store == "sqlite":
        yield Place(folder, SqliteGround(folder).url, None)
        return
    with PostgresServer(durable=True) as server:
        yield Place(folder, server.create_database(), server)


class Soak:
    """One store under load."""

    def __init__(self, store: str, folder: Path, place: Place, options: argparse.Namespace) -> None:
        self._store = store
        self._folder = folder
        self._place = place
        self._options = options
        self._seconds = options.minutes * 60.0
        self._began = time.monotonic()
        self._tally = Tally()
        self._series: defaultdict[tuple[str, str], list[Point]] = defaultdict(list)
        self._kills = 0
        self._types: list[tuple[str, Counter[str], Counter[str]]] = []

    async def run(self) -> bool:
        """All of it; whether it was good."""
        workflows = (*WORKFLOWS, *TRANSACTIONAL)
        fleet = Fleet(self._folder, self._place.url, program="tests.system.soak_worker")
        with fleet:
            async with Engine(
                self._place.url, workflows=workflows, worker=False, sinks=SINKS, lifecycle=True
            ) as engine:
                await engine.transact(lambda tx: tx.execute(MAKE_EFFECTS))
                lasting = await fleet.up(*(("--traces",) if self._options.traces else ()))
                await fleet.up()
                capacity = await self._capacity(engine)
                rate = capacity * self._options.load
                self._say(f"capacity {capacity:.1f} runs/s; load {rate:.1f} for {self._seconds / 60:.1f} minutes")
                unfinished = await self._load(engine, fleet, lasting, rate)
        return self._report(unfinished)

    async def _capacity(self, engine: Engine) -> float:
        """Runs that end in a second while as many are under way as there is room for."""
        seconds = min(self._options.capacity_seconds, self._seconds / 4)
        client = self._client(engine, active_max=self._options.active)
        stop = asyncio.Event()
        busy = asyncio.ensure_future(client.keep_busy(stop, 0.001))
        await asyncio.sleep(seconds / 3)
        before, began = self._tally.ended, time.monotonic()
        await asyncio.sleep(seconds * 2 / 3)
        rate = (self._tally.ended - before) / (time.monotonic() - began)
        stop.set()
        await busy
        await client.finish()
        return max(rate, 0.5)

    def _client(self, engine: Engine, *, active_max: int) -> Client:
        workflows = (*WORKFLOWS, *TRANSACTIONAL)
        chance = random.Random(self._options.seed)
        return Client(engine, self._tally, chance, active_max=active_max, workflows=workflows)

    async def _load(self, engine: Engine, fleet: Fleet, lasting: Member, rate: float) -> int:
        """The load, with kills and looks; how many runs had not ended some time after it."""
        # The machine may be slower than it was: then less is started, and nothing piles up.
        client, stop = self._client(engine, active_max=self._options.active), asyncio.Event()
        busy = asyncio.ensure_future(client.keep_busy(stop, 1 / rate))
        self._began = time.monotonic()
        killing = asyncio.ensure_future(self._kill(fleet, lasting))
        has_asked = False
        while (now := self._now) < self._seconds:
            await self._look(lasting)
            if now >= self._warm_at and not has_asked:
                has_asked = True
                lasting.send(signal.SIGUSR1)
            await asyncio.sleep(self._options.every)
        killing.cancel()
        stop.set()
        await busy
        try:
            async with asyncio.timeout(120):
                await client.finish()
        except TimeoutError:
            pass
        unfinished = len(await engine.runs.list("status:active", limit=1_000))
        lasting.send(signal.SIGUSR1)
        await self._compare_types(lasting)
        return unfinished

    async def _kill(self, fleet: Fleet, lasting: Member) -> None:
        while True:
            await asyncio.sleep(self._options.kill_every)
            for member in [one for one in fleet.members if one is not lasting and one.is_up]:
                await asyncio.to_thread(member.kill)
                fleet.replace(member)
                self._kills += 1

    @property
    def _now(self) -> float:
        return time.monotonic() - self._began

    @property
    def _warm_at(self) -> float:
        """Caches, pools and statistics have their size by then."""
        return self._seconds / 3

    async def _look(self, lasting: Member) -> None:
        now, names = self._now, {"worker": lasting.pid, "client": os.getpid()}
        figures: dict[tuple[str, str], float] = {}
        for who, pid in names.items():
            figures[who, "RSS"] = own_bytes(psutil.Process(pid)) / _MIB
            figures[who, "fds"] = psutil.Process(pid).num_fds()
        vitals = vitals_of(self._folder, lasting.pid)
        if vitals.exists():
            figures |= {("worker", name): value for name, value in json.loads(vitals.read_text()).items()}
        figures["client", "tasks"] = len(asyncio.all_tasks())
        figures["client", "threads"] = threading.active_count()
        look = await asyncio.to_thread(self._place.look)
        figures |= {("database", name): value for name, value in look.items()}
        for key, value in figures.items():
            self._series[key].append(Point(now, value))
        self._say(
            f"{now / 60:6.1f} min  ended {self._tally.ended:,}  kills {self._kills}  "
            + "  ".join(f"{who} {what} {value:,.1f}" for (who, what), value in sorted(figures.items()))
        )

    async def _compare_types(self, lasting: Member) -> None:
        """What there is more of than after the warm-up: where to look if something grows."""
        first, second = (types_of(self._folder, lasting.pid, number) for number in (1, 2))
        for _ in range(100):
            if second.exists():
                break
            await asyncio.sleep(0.1)
        if not (first.exists() and second.exists()):
            return
        before, after = (json.loads(path.read_text()) for path in (first, second))
        for path, said in ((first, before), (second, after)):
            at = path.stat().st_mtime - time.time() + self._now
            self._series["worker", "objects"].append(Point(at, sum(said["types"].values())))
        for kind in after:
            self._types.append((kind, Counter(before.get(kind, {})), Counter(after[kind])))

    def _report(self, unfinished: int) -> bool:
        verdicts: list[Verdict] = []
        for (who, what), points in sorted(self._series.items()):
            verdict = judge(who, what, points, warm_at=0.0 if what == "objects" else self._warm_at)
            if verdict is not None and what in LIMITS:
                verdicts.append(verdict)
        print(f"\n{self._store}: {self._tally.ended:,} runs ended, {self._kills} kills; after the first third:")
        for verdict in verdicts:
            print(f"  {verdict.text}")
        for kind, before, after in self._types:
            grown = {name: after[name] - before[name] for name in after}
            print(f"  worker, what there is more of ({kind}):")
            for name, count in sorted(grown.items(), key=lambda one: -one[1])[:_TYPES_SHOWN]:
                if count > 0:
                    print(f"    {count:>+10,} of {after[name]:>10,}  {name}")
        is_good = bool(verdicts) and all(verdict.is_good for verdict in verdicts) and not unfinished
        if unfinished:
            print(f"  FAIL  {unfinished} runs have not ended")
        print(f"  {'good' if is_good else 'BAD'}", flush=True)
        if self._options.record:
            self._record(verdicts, unfinished)
        return is_good

    def _record(self, verdicts: list[Verdict], unfinished: int) -> None:
        minutes = self._options.minutes
        grown = sum(not verdict.is_good for verdict in verdicts)
        trial = Trial(
            f"kills under a steady load for {minutes:g} minutes, {self._store}",
            self._kills,
            self._tally.ended,
            lost=None,
            doubled=None,
            stuck=unfinished + grown,
        )
        figures = {f"{verdict.who}, {verdict.what}": verdict.text for verdict in verdicts}
        command = f"make soak MINUTES={minutes:g} ARGS='--store {self._store}'"
        keep(Result(f"soak-{self._store}", command, self._seconds, (trial,), figures))

    def _say(self, text: str) -> None:
        print(f"{self._store}: {text}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.system.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="for each store")
    parser.add_argument("--store", choices=("sqlite", "postgres", "both"), default="both")
    parser.add_argument("--load", type=float, default=0.6, help="the part of the capacity")
    parser.add_argument("--active", type=int, default=150, help="runs under way while the capacity is measured")
    parser.add_argument("--capacity-seconds", type=float, default=30.0)
    parser.add_argument("--kill-every", type=float, default=20.0, metavar="SECONDS")
    parser.add_argument("--every", type=float, default=5.0, metavar="SECONDS", help="between two looks")
    parser.add_argument("--traces", action="store_true", help="trace every allocation of the worker that is looked at")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="write the results to scorecard/")
    return parser.parse_args()


def main() -> int:
    """One store after the other."""
    options = _options()
    stores = ("sqlite", "postgres") if options.store == "both" else (options.store,)
    are_good = []
    for store in stores:
        folder = Path(tempfile.mkdtemp(prefix="stepwell-soak-"))
        try:
            with _place(store, folder) as place:
                are_good.append(asyncio.run(Soak(store, folder, place, options).run()))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(are_good) else 1


if __name__ == "__main__":
    sys.exit(main())
