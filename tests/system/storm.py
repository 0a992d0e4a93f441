"""Kill real workers, and the servers of their database, many times, and check every promise:
`python -m tests.system.storm --store sqlite|postgres`.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from stepwell import Engine
from stepwell.addresses import open_store
from stepwell.environment import system_environment
from stepwell.errors import StoreUnavailableError
from stepwell.ids import Incarnation
from stepwell.model.locations import format_path
from stepwell.model.runs import Run
from stepwell.model.states import ACTIVE, RunStatus
from stepwell.stores.base.views import Detail, RunFilter
from tests.system.evidence import Evidence, Observed, collect
from tests.system.fleet import CALM, LEDGER, Fleet, Member
from tests.system.grounds import Ground, PostgresGround, SqliteGround
from tests.system.ledger import Ledger, read_ledger
from tests.system.storm_checks import violations
from tests.system.storm_client import Client
from tests.system.storm_options import ACTS, read_options
from tests.system.storm_progress import Progress
from tests.system.storm_report import print_report, record
from tests.system.storm_worker import LedgerHandler
from tests.system.storm_workflows import EFFECTS, MAKE_EFFECTS, SINKS, TRANSACTIONAL, WORKFLOWS, relay, talk
from tests.system.takeovers import Takeovers

T = TypeVar("T")

OWNED = (RunStatus.RUNNING, RunStatus.CANCELLING, RunStatus.COMPENSATING)
LIMIT = 5_000
PAUSE_SECONDS = 0.05


class Storm:
    """One storm: a fleet, a client, and whoever kills."""

    def __init__(self, options: argparse.Namespace, folder: Path, ground: Ground) -> None:
        self.options = options
        self.folder = folder
        self.ground = ground
        self.chance = random.Random(options.seed)
        self.fleet = Fleet(folder, ground.url)
        self.ledger = Ledger(folder / LEDGER)
        logging.getLogger("stepwell").addHandler(LedgerHandler(self.ledger))
        self.takeovers = Takeovers()
        self.observed = Observed()
        self.acts = [act for act in ACTS for _ in range(getattr(options, f"{act.replace(' ', '_')}s"))]
        self.done: dict[str, int] = dict.fromkeys(ACTS, 0)
        self.problems: list[str] = []
        self.progress = Progress(len(self.acts))
        self._store = open_store(ground.url, system_environment())
        workflows = (*WORKFLOWS, *TRANSACTIONAL)
        self._engine = Engine(self._store, workflows=workflows, worker=False, sinks=SINKS, lifecycle=True)
        self._client = Client(self._engine, self.ledger, self.chance, active_max=options.active, workflows=workflows)
        self._aside: set[asyncio.Task[None]] = set()
        self._server = asyncio.Lock()  # one thing at a time is done to the servers

    async def run(self) -> int:
        """All of it; the number of violations."""
        found: dict[str, list[str]] = {}
        with self.fleet:
            async with asyncio.timeout(self.options.seconds_max), self._engine:
                evidence = await self._weather()
                found |= violations(evidence)
        found["database"] = await asyncio.to_thread(self.ground.check)
        found["workers"] = self.problems
        found["takeover"] = self._check_takeovers()
        self._tell("done", at_once=True)
        self.progress.end()
        return self._report(await asyncio.to_thread(self.ground.describe), evidence, found)

    def _report(self, ground: str, evidence: Evidence, found: dict[str, list[str]]) -> int:
        """Print what came of it; the number of violations."""
        if self.options.record:
            record(self.options, ground, evidence, self.takeovers, self.done, found, self.progress.seconds)
        return print_report(self.options, ground, evidence, self.takeovers, self.done, found, self.progress.seconds)

    async def _weather(self) -> Evidence:
        self._tell("starting workers", at_once=True)
        await self._engine.transact(lambda tx: tx.execute(MAKE_EFFECTS))
        for number in range(self.options.workers):
            self._hire(number)
        for member in self.fleet.members:
            await self.fleet.wait_up(member)
        lag = asyncio.ensure_future(self.takeovers.measure_lag())
        await self._rage()
        await self._settle()
        lag.cancel()
        await self._drain()
        self._tell("checking", at_once=True)
        evidence = await collect(self._engine, self._store, read_ledger(self.folder / LEDGER), self.observed)
        rows = await self._engine.transact(lambda tx: tx.execute(f"select run, value from {EFFECTS}"))
        evidence.effects = [(run, value) for run, value in rows]
        return evidence

    def _hire(self, number: int) -> None:
        self.fleet.spawn(*self._arguments(number))

    def _arguments(self, number: int) -> tuple[str, ...]:
        mode = "yield" if number % 3 == 1 else "live"
        return ("--lease", str(self.options.lease), "--mode", mode, "--starts", str(4 + 4 * (number % 2)))

    # --- the storm ---

    async def _rage(self) -> None:
        self.chance.shuffle(self.acts)
        stop = asyncio.Event()
        busy = asyncio.ensure_future(self._client.keep_busy(stop, 0.1))
        ends_at = time.monotonic() + self.options.seconds
        for number, act in enumerate(self.acts):
            pace = max(0.0, ends_at - time.monotonic()) / (len(self.acts) - number)
            await asyncio.sleep(pace * self.chance.uniform(0.4, 1.6))
            await self._act(act)
            self._tell("storm")
        await self._calm_down()
        stop.set()
        await busy
        (self.folder / CALM).touch()

    async def _act(self, act: str) -> None:
        match act:
            case "kill":
                await self._kill(await self._choose())
            case "stop":
                self._spawn(self._pause(await self._choose()))
            case "term":
                self._spawn(self._terminate(await self._choose()))
            case _:
                assert isinstance(self.ground, PostgresGround)
                self._spawn(self._strike(self.ground, act))
                return
        self.done[act] += 1

    async def _choose(self) -> Member:
        """Somebody who serves, while somebody else does: workers that never live long enough to work prove nothing."""
        while True:
            free = [member for member in self.fleet.members if not member.is_reserved and member.is_up]
            if len(free) >= min(2, self.options.workers):
                member = self.chance.choice(free)
                member.is_reserved = True
                return member
            self._tell("storm")
            await asyncio.sleep(0.02)

    async def _kill(self, member: Member) -> None:
        member.kill()
        killed_at = time.monotonic()
        self.fleet.replace(member)
        _, held = await self._patiently(lambda: self._held_by(member))
        done: dict[str, list[str]] = {}
        for run in held:
            detail = await self._detail(run)
            self.observed.see(detail)
            # Another one that was quicker than we may have recorded more: then it is not known what there was before.
            done[run.run_id] = [] if detail.run.epoch > run.epoch else sorted(recorded(detail))
        self.ledger.note("killed", pid=member.pid, held=done)
        if held:
            self._spawn(self.takeovers.watch(self._store, held, killed_at))

    async def _held_by(self, member: Member) -> tuple[set[Incarnation], list[Run]]:
        """A process' incarnations, and what it holds under any of them."""
        workers = await self._store.views.list_workers()
        own = {worker.incarnation for worker in workers if worker.name == f"storm-{member.pid}"}
        runs = await self._store.views.list_runs(RunFilter(statuses=OWNED), limit=LIMIT)
        return own, [run for run in runs if run.owner in own]

    async def _detail(self, run: Run) -> Detail:
        return await self._patiently(lambda: self._engine.runs.detail(run.run_id))

    async def _pause(self, member: Member) -> None:
        lasts = self.options.lease * self.chance.uniform(1.6, 2.6)
        hold = self.takeovers.hold() if self.ground.is_held_up else None
        self.ledger.note("stopped", pid=member.pid)
        member.send(signal.SIGSTOP)
        ends_at = time.monotonic() + lasts
        own, held = await self._patiently(lambda: self._held_by(member))
        await asyncio.sleep(max(0.0, ends_at - time.monotonic()))
        taken: dict[str, list[str]] = {}
        for run in held:
            detail = await self._detail(run)
            # A run that is due has no owner. One without a known owner may be in the hands of the stopped process yet.
            if detail.run.epoch > run.epoch or detail.run.wake_at is not None:
                taken[run.run_id] = sorted(recorded(detail))
        self.ledger.note("continued", pid=member.pid, incarnations=sorted(own), taken=taken)
        member.send(signal.SIGCONT)
        member.is_reserved = False
        if hold is not None:
            hold.end()

    async def _terminate(self, member: Member) -> None:
        member.send(signal.SIGTERM)
        code = await member.left()
        if code != 0:
            self.problems.append(f"worker {member.pid} left with {code} after SIGTERM")
        self.ledger.note("terminated", pid=member.pid)
        self.fleet.replace(member)

    async def _strike(self, ground: PostgresGround, act: str) -> None:
        async with self._server:
            lease = self.options.lease
            # Mostly it comes back as quickly as it can; sometimes every lease runs out meanwhile.
            down = 0.0 if self.chance.random() < 0.6 else self.chance.uniform(0.5, 3.0) * lease
            hold = self.takeovers.hold()
            self.ledger.note("server down")
            await asyncio.to_thread(ground.fail_over if act == "promotion" else lambda: ground.kill_server(down))
            self.ledger.note("server up")
            hold.end()
            self.done[act] += 1
            if act == "promotion":
                await asyncio.to_thread(ground.rebuild_standby)

    # --- afterwards ---

    async def _calm_down(self) -> None:
        """Wait for the faults that are under way, and for whom they hit."""
        while self._aside:
            self._tell("storm, the last faults")
            await asyncio.wait(self._aside, timeout=1.0)
        for member in self.fleet.members:
            await self.fleet.wait_up(member)

    async def _settle(self) -> None:
        """No more faults: everything must end."""
        deadline = time.monotonic() + self.options.settle
        while time.monotonic() < deadline:
            active = await self._store.views.list_runs(RunFilter(statuses=tuple(ACTIVE)), limit=LIMIT)
            owed = await self._store.outbox.list_owed(is_dead=False, limit=LIMIT)
            if not active and not owed:
                await self._client.finish()
                return
            self._tell(f"settling, {len(active)} runs and {len(owed)} events left")
            for run in active:
                if run.workflow in (talk.name, relay.name) and run.status is RunStatus.WAITING:
                    await self._client.send(run.run_id)  # whoever should have sent it may be dead
            await asyncio.sleep(0.5)
        await self._client.abandon()

    async def _drain(self) -> None:
        for member in self.fleet.members:
            member.send(signal.SIGTERM)
        for member in self.fleet.members:
            code = await member.left()
            if code != 0:
                self.problems.append(f"worker {member.pid} left with {code} at the end")
        # Whatever a worker printed is a crash of its own: warnings go to the ledger.
        self.problems += [line for line in self.fleet.log().splitlines() if "Error" in line][:5]

    def _check_takeovers(self) -> list[str]:
        limit, worst = self.options.takeover, self.takeovers.worst()
        if limit is None:
            limit = self.options.lease + 2.0 + self.takeovers.lag
        return self.takeovers.lost + ([f"p99 is {worst:.2f} s, above {limit:.2f} s"] if worst > limit else [])

    # --- small things ---

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until the store answers: it is we who keep killing it."""
        while True:
            try:
                return await ask()
            except StoreUnavailableError:
                await asyncio.sleep(PAUSE_SECONDS)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._aside.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._aside.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.problems.append(f"the storm itself failed: {type(error).__name__}: {error}")

    def _tell(self, phase: str, *, at_once: bool = False) -> None:
        self.progress.show(phase, self.done, at_once=at_once)


def recorded(detail: Detail) -> set[str]:
    """Paths with a result, and path@attempt with a recorded failure.

    A beginning that is recorded is not one of them: the body has no outcome yet, and runs again after a kill.
    """
    names, history = detail.history.names, detail.history
    return {format_path(entry.location, names) for entry in history.entries} | {
        f"{format_path(attempt.location, names)}@{attempt.number}"
        for attempt in history.attempts
        if not attempt.is_beginning
    }


def run_storm(options: argparse.Namespace, folder: Path) -> int:
    """One storm over one store, in that folder; the number of violations."""
    ground: Ground = SqliteGround(folder) if options.store == "sqlite" else PostgresGround(options.version)
    try:
        ground.open()
        return asyncio.run(Storm(options, folder, ground).run())
    except TimeoutError as error:
        print(f"\nVIOLATION: the storm is not over after {options.seconds_max:g} s (seed {options.seed}): {error}")
        return 1
    finally:
        ground.close()


def main(arguments: list[str] | None = None) -> int:
    """Read the command line, run a storm for each store, and say how it went."""
    failed = 0
    for options in read_options(__doc__, arguments):
        with tempfile.TemporaryDirectory(prefix="stepwell-storm-") as temporary:
            folder = Path(options.keep or temporary) / options.store
            folder.mkdir(parents=True, exist_ok=True)
            failed += bool(run_storm(options, folder))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
