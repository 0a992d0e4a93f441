"""`make bench`: prints the figures, what they must reach, and whether they do."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.measures import commits_shared, mapping, resume, w1, w2, w3, w8
from bench.waiting import signal_to_step, waiting_runs


class Report:
    """Lines of figures; remembers whether all held."""

    def __init__(self) -> None:
        self.is_good = True

    def line(self, name: str, figure: str, target: str = "", holds: bool | None = None) -> None:
        """Print one figure."""
        mark = "" if holds is None else ("  ok" if holds else "  MISSED")
        self.is_good = self.is_good and holds is not False
        print(f"  {name:<44} {figure:>16}   {target:<38}{mark}", flush=True)


def _say(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K… {what}", end="", file=sys.stderr, flush=True)


def _inside(folder: Path, name: str) -> Path:
    inside = folder / name
    inside.mkdir()
    return inside


async def _measure(folder: Path, report: Report) -> None:
    line: Callable[..., None] = report.line
    _say("W1 beside raw commits")
    one = await w1(folder)
    rate = one.rate
    line("raw durable single-row commits/s", f"{one.raw:,.0f}", "the limit: checkpoints as the store's")
    line("raw with SQLite's own checkpoints", f"{one.raw_default:,.0f}")
    line("W1  one run, 1,000 sequential steps, steps/s", f"{rate:,.0f}")
    line("W1  ratio to the limit", f"{one.ratio:.2f}", ">= 0.70", one.ratio >= 0.70)
    line("W1  ratio to raw with SQLite's checkpoints", f"{one.ratio_default:.2f}")
    _say("W2")
    many, commits, bytes_w2 = sorted([await w2(_inside(folder, f"w2-{n}")) for n in range(3)])[1]
    goal = min(10_000, 8 * rate)
    line("W2  1,000 runs x 10 steps, steps/s", f"{many:,.0f}", f">= {goal:,.0f}", many >= goal)
    line("W2  commits per step", f"{commits:.3f}")
    line("W2  bytes of database per step", f"{bytes_w2:.0f}", "<= 400", bytes_w2 <= 400)
    _say("map")
    rate_map = await mapping(folder)
    holds = rate_map >= 0.5 * many
    line("map of 10,000 one-step items, steps/s", f"{rate_map:,.0f}", f">= {0.5 * many:,.0f} (half of W2)", holds)
    _say("W3")
    p50, p99, per_run = await w3(folder)
    line("W3  start to result of a 1-step run, p50/p99 ms", f"{p50:.2f} / {p99:.2f}")
    line("W3  commits per 1-step run", f"{per_run:.2f}", "2", per_run <= 2.02)
    emitting, signalled, children = await commits_shared(folder)
    line("  of one that emits three events", f"{emitting:.2f}", "2: events share them", emitting <= 2.02)
    line("commits from a signal to the end of the run", f"{signalled:.2f}", "signal, receipt, step and end")
    line("commits of a parent with a 1-step child", f"{children:.2f}", "start, child, its end, claim, end")
    rates = {}
    for steps in (100, 1_000, 10_000):
        _say(f"W8 {steps}")
        rounds = 3 if steps < 10_000 else 1
        measured = [await w8(_inside(folder, f"w8-{steps}-{n}"), steps) for n in range(rounds)]
        rates[steps] = sorted(each[0] for each in measured)[len(measured) // 2]
        line(f"W8  one run of {steps:,} steps, steps/s", f"{rates[steps]:,.0f}")
        if steps == 10_000:
            line("W8  bytes of database per step", f"{measured[0][1]:.0f}", "<= 400", measured[0][1] <= 400)
    line(
        "W8  rate at 10k to rate at 100",
        f"{rates[10_000] / rates[100]:.2f}",
        ">= 0.80",
        rates[10_000] >= 0.8 * rates[100],
    )
    _say("10,000 waiting runs")
    idle = await asyncio.to_thread(waiting_runs, folder)
    line("10,000 runs waiting, bytes of memory each", f"{idle.bytes_each:,.0f}", "<= 1,000", idle.bytes_each <= 1_000)
    line(f"  statements in {idle.seconds_idle:.0f} s of idling", f"{idle.statements_idle}")
    line("  rows scanned by them", f"{idle.scanned_idle}", "0", idle.scanned_idle == 0)
    _say("signals")
    p50, p99 = await signal_to_step(folder)
    line("signal to resumed step, p50/p99 ms", f"{p50:.2f} / {p99:.2f}", "p50 <= 5", p50 <= 5)
    _say("resume")
    seconds = await resume(folder)
    line("W8  resume a run with 10k recorded steps, s", f"{seconds:.3f}", "<= 0.5", seconds <= 0.5)
    _say("")


def main() -> int:
    """Measure, print, and say whether every target was met."""
    report = Report()
    print("stepwell on SQLite, WAL, synchronous=FULL; one run on this machine, Python's default garbage collection")
    with tempfile.TemporaryDirectory(prefix="stepwell-bench-") as folder:
        asyncio.run(_measure(Path(folder), report))
    print("all targets met" if report.is_good else "some targets were missed")
    return 0 if report.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
