"""Kill real workers over one SQLite file, many times, and check every promise: `python -m tests.system.storm`."""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from stepwell import Engine
from stepwell.environment import system_environment
from stepwell.model.locations import format_path
from stepwell.model.runs import Run
from stepwell.model.states import ACTIVE, RunStatus
from stepwell.stores.base.views import Detail, RunFilter
from stepwell.wiring import open_store
from tests.system.evidence import Observed, check_file, collect
from tests.system.fleet import CALM, DATABASE, LEDGER, Fleet, Member
from tests.system.ledger import Ledger, read_ledger
from tests.system.storm_checks import violations
from tests.system.storm_client import Client
from tests.system.storm_report import print_report
from tests.system.storm_workflows import SINKS, WORKFLOWS, relay, talk
from tests.system.takeovers import Takeovers

OWNED = (RunStatus.RUNNING, RunStatus.CANCELLING, RunStatus.COMPENSATING)
LIMIT = 5_000


class Storm:
    """One storm: a fleet, a client, and whoever kills."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.folder = folder
        self.chance = random.Random(options.seed)
        self.fleet = Fleet(folder)
        self.ledger = Ledger(folder / LEDGER)
        self.takeovers = Takeovers()
        self.observed = Observed()
        self.done = {"kill": 0, "stop": 0, "term": 0}
        self.problems: list[str] = []
        self._store = open_store(self.fleet.url, system_environment())
        self._engine = Engine(self._store, workflows=WORKFLOWS, worker=False, sinks=SINKS, lifecycle=True)
        self._client = Client(self._engine, self.ledger, self.chance, active_max=options.active)
        self._aside: set[asyncio.Task[None]] = set()
        self._told_at = self._began_at = time.monotonic()

    async def run(self) -> int:
        """All of it; the number of violations."""
        with self.fleet:
            async with self._engine:
                for number in range(self.options.workers):
                    self.fleet.spawn(*self._arguments(number))
                for member in self.fleet.members:
                    await self.fleet.wait_up(member)
                lag = asyncio.ensure_future(self.takeovers.measure_lag())
                await self._rage()
                await self._settle()
                lag.cancel()
                await self._drain()
                self._progress("checking", at_once=True)
                lines = read_ledger(self.folder / LEDGER)
                evidence = await collect(self._engine, self._store, lines, self.observed)
        found = violations(evidence)
        found["file"] = check_file(self.folder / DATABASE)
        found["workers"] = self.problems
        found["takeover"] = self._check_takeovers()
        self._progress("done", at_once=True)
        return print_report(self.options, evidence, self.takeovers, self.done, found, self._seconds())

    def _arguments(self, number: int) -> tuple[str, ...]:
        mode = "yield" if number % 3 == 1 else "live"
        return ("--lease", str(self.options.lease), "--mode", mode, "--starts", str(4 + 4 * (number % 2)))

    # --- the storm ---

    async def _rage(self) -> None:
        options = self.options
        acts = ["kill"] * options.kills + ["stop"] * options.stop_cont + ["term"] * options.terms
        self.chance.shuffle(acts)
        stop = asyncio.Event()
        busy = asyncio.ensure_future(self._client.keep_busy(stop, 0.1))
        ends_at = time.monotonic() + options.seconds
        for number, act in enumerate(acts):
            pace = max(0.0, ends_at - time.monotonic()) / (len(acts) - number)
            await asyncio.sleep(pace * self.chance.uniform(0.4, 1.6))
            await self._act(act, await self._choose())
            self._progress("storm")
        stop.set()
        await busy
        (self.folder / CALM).touch()

    async def _choose(self) -> Member:
        """Somebody who serves, while somebody else does: workers that never live long enough to work prove nothing."""
        while True:
            free = [member for member in self.fleet.members if not member.is_reserved and member.is_up]
            if len(free) >= min(2, self.options.workers):
                return self.chance.choice(free)
            await asyncio.sleep(0.02)

    async def _act(self, act: str, member: Member) -> None:
        member.is_reserved = True
        self.done[act] += 1
        match act:
            case "kill":
                await self._kill(member)
            case "stop":
                self._spawn(self._pause(member))
            case _:
                self._spawn(self._terminate(member))

    async def _kill(self, member: Member) -> None:
        member.kill()
        killed_at = time.monotonic()
        self.fleet.replace(member)
        held = await self._held_by(member)
        details = [await self._engine.detail(run.run_id) for run in held]
        self.ledger.note(
            "killed", pid=member.pid, held={detail.run.run_id: sorted(_recorded(detail)) for detail in details}
        )
        for detail in details:
            self.observed.see(detail)
        if held:
            self._spawn(self.takeovers.watch(self._store, held, killed_at))

    async def _held_by(self, member: Member) -> list[Run]:
        """What a process holds, under any of its incarnations."""
        workers = await self._store.views.list_workers()
        own = {worker.incarnation for worker in workers if worker.name == f"storm-{member.pid}"}
        runs = await self._store.views.list_runs(RunFilter(statuses=OWNED), limit=LIMIT)
        return [run for run in runs if run.owner in own]

    async def _pause(self, member: Member) -> None:
        begun, lease = time.monotonic(), self.options.lease
        lasts = lease * self.chance.uniform(1.3, 2.2)
        self.takeovers.pauses.append((begun, begun + lasts + 0.5))
        self.ledger.note("stopped", pid=member.pid)
        member.send(signal.SIGSTOP)
        await asyncio.sleep(lasts)
        self.ledger.note("continued", pid=member.pid)
        member.send(signal.SIGCONT)
        member.is_reserved = False

    async def _terminate(self, member: Member) -> None:
        member.send(signal.SIGTERM)
        code = await member.left()
        if code != 0:
            self.problems.append(f"worker {member.pid} left with {code} after SIGTERM")
        self.ledger.note("terminated", pid=member.pid)
        self.fleet.replace(member)

    # --- afterwards ---

    async def _settle(self) -> None:
        """No more faults: everything must end."""
        deadline = time.monotonic() + self.options.settle
        if self._aside:
            await asyncio.wait(self._aside)
        for member in self.fleet.members:
            await self.fleet.wait_up(member)
        while time.monotonic() < deadline:
            active = await self._store.views.list_runs(RunFilter(statuses=tuple(ACTIVE)), limit=LIMIT)
            owed = await self._store.outbox.list_owed(is_dead=False, limit=LIMIT)
            if not active and not owed:
                await self._client.finish()
                return
            self._progress(f"settling, {len(active)} runs and {len(owed)} events left")
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
        problems = [f"{self.takeovers.lost} runs of killed workers were never claimed"] if self.takeovers.lost else []
        return problems + ([f"p99 is {worst:.2f} s, above {limit:.2f} s"] if worst > limit else [])

    # --- small things ---

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    def _seconds(self) -> float:
        return time.monotonic() - self._began_at

    def _progress(self, phase: str, *, at_once: bool = False) -> None:
        is_terminal = sys.stdout.isatty()
        if time.monotonic() - self._told_at < (0.2 if is_terminal else 10.0) and not at_once:
            return
        self._told_at = time.monotonic()
        acts = "  ".join(f"{act}s {count}" for act, count in self.done.items())
        line = f"{self._seconds():5.0f} s  {phase}: {acts}"
        print(f"\r{line:<78}" if is_terminal else line, end="" if is_terminal else "\n", flush=True)


def _recorded(detail: Detail) -> set[str]:
    """Paths with a result, and path@attempt with a recorded failure."""
    names, history = detail.history.names, detail.history
    return {format_path(entry.location, names) for entry in history.entries} | {
        f"{format_path(attempt.location, names)}@{attempt.number}" for attempt in history.attempts
    }


def main(arguments: list[str] | None = None) -> int:
    """Read the command line, run a storm, and say how it went."""
    parser = argparse.ArgumentParser(prog="storm", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seconds", type=float, help="how long the kills are spread over; 0.75 s each by default")
    parser.add_argument("--seed", type=int, help="of the faults and the load; the machine's own timing is not in it")
    parser.add_argument("--stop-cont", type=int, default=10, help="how many SIGSTOP, longer than the lease, + SIGCONT")
    parser.add_argument("--terms", type=int, default=10, help="how many SIGTERM")
    parser.add_argument("--lease", type=float, default=1.0)
    parser.add_argument("--active", type=int, default=40, help="runs that the client keeps under way")
    parser.add_argument("--settle", type=float, default=60.0, help="within how many seconds all must end afterwards")
    parser.add_argument("--takeover", type=float, help="p99 allowed, in seconds; lease + 2 s + this machine's own lag")
    parser.add_argument("--keep", help="a new folder to leave everything in")
    options = parser.parse_args(arguments)
    options.seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    options.seconds = options.kills * 0.75 if options.seconds is None else options.seconds
    with tempfile.TemporaryDirectory(prefix="stepwell-storm-") as temporary:
        folder = Path(options.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        return 1 if asyncio.run(Storm(options, folder).run()) else 0


if __name__ == "__main__":
    sys.exit(main())
