"""Let faults happen to the network between workers and PostgreSQL, and check every promise:
`python -m tests.system.network --faults 250`.

It is a storm without kills: the same workflows, ledger and checks. Each worker has a link of its own, so that one is
cut off while others work, and at times all are. The client that looks on is never cut off.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import sys
import tempfile
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

from tests.servers.binaries import VERSIONS
from tests.system.evidence import Evidence
from tests.system.fleet import CALM, LEDGER, Member
from tests.system.ledger import Line
from tests.system.links import FAULTS, LinkedGround
from tests.system.storm import Storm
from tests.system.storm_options import ACTS
from tests.system.storm_progress import Progress
from tests.system.storm_report import figures, print_violations
from tests.system.takeovers import percentile
from tools.results import Result, Trial, keep

_SEED_MAX = 1_000_000
_LOOK_SECONDS = 0.05
_GONE_ON_SECONDS_MAX = 30.0


class Suffered(NamedTuple):
    """One fault."""

    fault: str
    pid: int
    ended: float  # by the clock of the ledger


class Beginnings:
    """When bodies began, by process: read from the ledger as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._times: defaultdict[int, list[float]] = defaultdict(list)

    def first_after(self, pid: int, moment: float) -> float | None:
        """When the first one began in a process after that moment; None if there was none yet."""
        with self._path.open("rb") as ledger:
            ledger.seek(self._read)
            news = ledger.read()
        whole = news[: news.rfind(b"\n") + 1]
        self._read += len(whole)
        for text in whole.splitlines():
            line = Line(*json.loads(text))
            if line.kind == "begin":
                self._times[line.pid].append(line.at)
        times = self._times[pid]
        place = bisect_left(times, moment)
        return times[place] if place < len(times) else None


class NetworkStorm(Storm):
    """Faults of links instead of kills."""

    ground: LinkedGround

    def __init__(self, options: argparse.Namespace, folder: Path, ground: LinkedGround) -> None:
        super().__init__(options, folder, ground)
        self.acts = [fault for _ in range(-(-options.faults // len(FAULTS))) for fault in FAULTS][: options.faults]
        self.done = dict.fromkeys(FAULTS, 0)
        self.progress = Progress(len(self.acts))
        self.suffered: list[Suffered] = []
        self._beginnings = Beginnings(folder / LEDGER)
        self.recoveries: defaultdict[str, list[float]] = defaultdict(list)

    def _hire(self, number: int) -> None:
        url = self.ground.links[number].proxy.url(self.ground.url)
        self.fleet.spawn(*self._arguments(number), url=url)

    async def _rage(self) -> None:
        self.chance.shuffle(self.acts)
        stop = asyncio.Event()
        busy = asyncio.ensure_future(self._client.keep_busy(stop, 0.1))
        await asyncio.gather(*(self._trouble(number, member) for number, member in enumerate(self.fleet.members)))
        stop.set()
        await busy
        (self.folder / CALM).touch()

    async def _trouble(self, number: int, member: Member) -> None:
        """One fault after the other for one worker, and between two of them it works again."""
        link = self.ground.links[number]
        while self.acts and member.is_alive:
            fault = self.acts.pop()
            await asyncio.sleep(self.chance.uniform(0.1, 1.0))
            self.ledger.note("server down")  # for this worker, at least
            await link.suffer(fault, self.chance, self.options.lease)
            self.ledger.note("server up")
            self.suffered.append(Suffered(fault, member.pid, time.monotonic()))
            self.done[fault] += 1
            self._tell("storm")
            await self._gone_on(member, self.suffered[-1])

    async def _gone_on(self, member: Member, suffered: Suffered) -> None:
        """Wait until a body has begun in this worker after the fault: then its link and its lease are in order."""
        deadline = suffered.ended + _GONE_ON_SECONDS_MAX
        while time.monotonic() < deadline:
            begun = self._beginnings.first_after(member.pid, suffered.ended)
            if begun is not None:
                self.recoveries[suffered.fault].append(begun - suffered.ended)
                return
            await asyncio.sleep(_LOOK_SECONDS)
        self.problems.append(f"worker {member.pid} does nothing {_GONE_ON_SECONDS_MAX:.0f} s after {suffered.fault}")

    def _report(self, ground: str, evidence: Evidence, found: dict[str, list[str]]) -> int:
        options = self.options
        print(f"\nnetwork faults, {ground}: {options.workers} workers, lease {options.lease:g} s, seed {options.seed}")
        for fault, text in FAULTS.items():
            print(f"  {fault + 's':<22} {self.done[fault]:>9}  {recovery(self.recoveries[fault]):<28} {text}")
        for name, figure, text in figures(evidence):
            print(f"  {name:<22} {figure:>9}  {text}".rstrip())
        every = [seconds for times in self.recoveries.values() for seconds in times]
        print(f"  {'work goes on':<22} {'':>9}  {recovery(every)} after the end of a fault")
        print(f"  {'seconds':<22} {self.progress.seconds:>9.0f}")
        total = print_violations(found)
        if options.record:
            keep(self._result(evidence, found))
        return total

    def _result(self, evidence: Evidence, found: dict[str, list[str]]) -> Result:
        """All faults share the workers, so what was acknowledged and found is of all of them together."""
        kinds = Counter(line.kind for line in evidence.lines)
        every = [seconds for times in self.recoveries.values() for seconds in times]
        trial = Trial(
            "network fault between workers and PostgreSQL",
            sum(self.done.values()),
            acknowledged=sum(kinds[kind] for kind in ("started", "signalled", "cancelled", "result", "ended")),
            lost=len(found["lost acks"]),
            doubled=len(found["double commits"]),
            stuck=len(found["unfinished"]) + len(found["orphans"]) + len(found["workers"]),
            recovery=recovery(every),
        )
        told = {f"{fault}s": f"{self.done[fault]}; {recovery(times)}" for fault, times in self.recoveries.items()}
        return Result("network", f"make network FAULTS={self.options.faults}", self.progress.seconds, (trial,), told)


def recovery(times: list[float]) -> str:
    """How long it took until work went on, for people."""
    return f"p50 {percentile(times, 0.5):.2f} s, p99 {percentile(times, 0.99):.2f} s"


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    """What it is told to do; of a storm's own acts there are none."""
    parser = argparse.ArgumentParser(prog="network", description=__doc__)
    parser.add_argument("--faults", type=int, default=250, help="in all; each kind as often as the others")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--version", type=int, choices=VERSIONS, default=VERSIONS[0], help="of PostgreSQL")
    parser.add_argument("--seed", type=int, help="of the faults and the load; the machine's own timing is not in it")
    parser.add_argument("--lease", type=float, default=2.0)
    parser.add_argument("--active", type=int, default=24, help="runs that the client keeps under way")
    parser.add_argument("--settle", type=float, default=60.0, help="within how many seconds all must end afterwards")
    parser.add_argument("--seconds-max", type=float, default=3_600.0, help="a storm that lasts longer has failed")
    parser.add_argument("--record", action="store_true", help="write the result to scorecard/")
    options = parser.parse_args(arguments)
    options.seed = secrets.randbelow(_SEED_MAX) if options.seed is None else options.seed
    vars(options).update({f"{act.replace(' ', '_')}s": 0 for act in ACTS}, takeover=None)
    return options


def main(arguments: list[str] | None = None) -> int:
    """Read the command line, let it happen, and say how it went."""
    options = read_options(arguments)
    with tempfile.TemporaryDirectory(prefix="stepwell-network-") as folder:
        ground = LinkedGround(options.version, options.workers)
        try:
            ground.open()
            return 1 if asyncio.run(NetworkStorm(options, Path(folder), ground).run()) else 0
        except TimeoutError as error:
            print(f"\nVIOLATION: not over after {options.seconds_max:g} s (seed {options.seed}): {error}")
            return 1
        finally:
            ground.close()


if __name__ == "__main__":
    sys.exit(main())
