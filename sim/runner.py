"""Many seeds, on several cores, and what they came to in all."""

from __future__ import annotations

import gc
import hashlib
import logging
import multiprocessing
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from sim import reach
from sim.reach import Cell
from sim.world import Report, place_of, simulate
from stepwell.virtual.lanes import LANE
from tools.progress import Bar
from tools.results import Result, Trial

Place = tuple[int, str, str]  # seed, store, mode

COUNTED = (
    ("runs", "runs"),
    ("steps executed", "bodies"),
    ("steps undone", "undone"),
    ("effects marked as undone", "marked as undone"),
    ("bodies repeated", "bodies repeated"),
    ("commits", "commits"),
    ("commits repeated", "commits repeated"),
    ("store calls", "store calls"),
    ("crashes injected", "crashes"),
    ("acks lost", "acks lost"),
    ("refused by the store", "not done"),
    ("disk full", "disk full"),
    ("calls performed twice", "duplicate"),
    ("pauses", "pauses"),
    ("zombie commits fenced", "fenced"),
    ("zombie bodies", "zombie bodies"),
    ("hints dropped", "hints dropped"),
    ("hints delayed", "hints delayed"),
    ("hints doubled", "hints doubled"),
    ("clock jumps", "clock jumps"),
    ("clocks set by hours", "clocks set"),
    ("calls rejected for a while", "rejected"),
    ("calls never answered", "unanswered"),
    ("loops of workers ended", "loops ended"),
    ("workers that gave up", "workers gave up"),
    ("client calls cancelled", "calls cancelled"),
    ("drains", "drains"),
    ("poisonous steps", "poisonings"),
    ("runs paused", "paused"),
    ("runs repaired", "repairs"),
    ("events owed", "events owed"),
    ("events received", "events received"),
    ("events repeated", "events repeated"),
    ("dead letters", "dead letters"),
    ("records changed", "changes"),
    ("record changes repeated", "changes repeated"),
    ("record changes too late", "changes stale"),
    ("records due", "records that were due"),
    ("records opened by runs", "forms opened"),
    ("records answered", "forms answered"),
    ("records ended by runs", "forms closed without an answer"),
)


@dataclass(slots=True)
class Totals:
    """What all seeds came to."""

    seeds: int = 0
    unfinished: int = 0
    seconds: float = 0.0
    stats: Counter[str] = field(default_factory=Counter)
    executed: Counter[str] = field(default_factory=Counter)
    faulted: Counter[str] = field(default_factory=Counter)
    reached: Counter[Cell] = field(default_factory=Counter)
    reached_by_faults: Counter[Cell] = field(default_factory=Counter)
    mixes: Counter[str] = field(default_factory=Counter)
    failed: list[Report] = field(default_factory=list)

    def add(self, report: Report) -> None:
        """Count one seed."""
        self.seeds += 1
        self.unfinished += report.unfinished
        self.stats.update(report.stats)
        self.executed.update(report.executed)
        self.faulted.update(report.faulted)
        self.reached.update(report.reached)
        self.reached_by_faults.update(report.reached_by_faults)
        self.mixes[report.mix] += 1
        if report.violations:
            self.failed.append(report)

    def lines(self) -> Iterator[str]:
        """The totals, for people."""
        yield f"{'seeds':<24}{self.seeds:>10,}"
        for words, name in COUNTED:
            yield f"{words:<24}{self.stats[name]:>10,}"
        yield from reach.lines(self.reached, self.reached_by_faults)
        yield f"{'entries and calls':<24}{'executed':>10}{'faulted':>10}"
        for kind in sorted({*self.executed, *self.faulted}):
            yield f"  {kind:<22}{self.executed[kind]:>10,}{self.faulted[kind]:>10,}"
        yield f"{'primitives × places':<24}{len(reach.cells()):>10,}"
        yield f"{'  of which unreached':<24}{len(reach.holes(self.reached, self.reached_by_faults)):>10,}"
        yield f"{'violations':<24}{sum(len(report.violations) for report in self.failed):>10,}"
        yield f"{'unfinished runs':<24}{self.unfinished:>10,}"
        yield f"{'seeds per second':<24}{self.seeds / max(self.seconds, 1e-9):>10.1f}"


_DOUBLED = ("I1", "I2", "I5")  # promises that nothing is done or committed twice


def result_of(totals: Totals, first_seed: int) -> Result:
    """The result of a campaign, for the scorecard. Campaigns that begin at different seeds are kept apart."""
    broken = Counter(violation.invariant for report in totals.failed for violation in report.violations)
    doubled = sum(broken[invariant] for invariant in _DOUBLED)
    stats, holes = totals.stats, reach.holes(totals.reached, totals.reached_by_faults)
    trial = Trial(
        "random programs under random faults, simulated",
        trials=totals.seeds,
        acknowledged=stats["commits"] + stats["runs"],
        lost=sum(broken.values()) - doubled,
        doubled=doubled,
        stuck=totals.unfinished,
    )
    figures = {words: f"{stats[name]:,}" for words, name in COUNTED if stats[name]}
    figures["primitives × places"] = f"{len(reach.cells()):,}, of which {len(holes)} were not reached or not faulted"
    command = f"make sim SEEDS={totals.seeds} FIRST_SEED={first_seed}"
    return Result(f"sim-{first_seed}", command, totals.seconds, (trial,), figures)


class Errors(logging.Handler):
    """An error that the engine only logs is a broken promise, too: it stopped something, and nobody was told."""

    def emit(self, record: logging.LogRecord) -> None:
        """Tell the world in which it happened."""
        lane = LANE.get()
        process = lane and lane.process
        if process is None or process.lane.is_dead:
            return
        if not process.world.outages.is_expected(process, record.getMessage()):
            process.world.violate(
                "I47", "", f"{process.name} logs: {record.getMessage()}: {record.exc_info and record.exc_info[1]!r}"
            )


def prepare() -> None:
    """Let a process of the simulation be quiet and even."""
    logger = logging.getLogger("stepwell")
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.handlers = [Errors()]
    # Killed processes leave coroutines behind that were never awaited; that is what killing means.
    warnings.filterwarnings("ignore", category=RuntimeWarning, message="coroutine .* was never awaited")
    sys.unraisablehook = lambda _: None
    gc.collect()
    gc.freeze()


def places(first: int, count: int, store: str = "sqlite", mode: str = "both") -> list[Place]:
    """The seeds of a range, each with its store and mode."""
    return [(seed, *place_of(seed, store, mode)) for seed in range(first, first + count)]


def run_all(todo: Iterable[Place], jobs: int, each: Callable[[Report], None], *, are_hashed: bool = False) -> None:
    """Simulate, and hand each report over in the order of the seeds. `are_hashed`: reports have digests."""
    one = partial(_simulate, is_hashed=are_hashed)
    if jobs <= 1:
        prepare()
        for place in todo:
            each(one(place))
        return
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=prepare) as pool:
        for report in pool.imap(one, todo, chunksize=4):
            each(report)


def _simulate(place: Place, *, is_hashed: bool) -> Report:
    if not is_hashed:
        return simulate(*place)
    events = hashlib.blake2b(digest_size=8)
    report = simulate(*place, log=lambda line: events.update(line.encode("utf-8", "backslashreplace")))
    report.digest = events.hexdigest()
    return report


def command(report: Report, sabotage: str = "") -> str:
    """The one command that shows it again."""
    args = f' ARGS="--sabotage {sabotage}"' if sabotage else ""
    return f"make sim SEEDS=1 FIRST_SEED={report.seed} STORE={report.store} MODE={report.mode}{args}"


def describe(report: Report, sabotage: str = "") -> Iterator[str]:
    """What a failed seed broke, and how to see it again."""
    for violation in report.violations[:5]:
        where = f" run {violation.run_id}" if violation.run_id else ""
        yield (
            f"{violation.invariant} violated by seed {report.seed} ({report.store}, {report.mode}, {report.mix}) "
            f"at {violation.at:.3f} s{where}: {violation.text}"
        )
    yield f"  {command(report, sabotage)}"


class Progress:
    """How many seeds are done."""

    def __init__(self, count: int) -> None:
        self._bar = Bar(count, "seeds")

    def show(self, totals: Totals) -> None:
        """Say how far it is."""
        totals.seconds = self._bar.seconds
        self._bar.show(totals.seeds, f"{totals.stats['crashes']} crashes", f"{len(totals.failed)} failed")
