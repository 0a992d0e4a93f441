"""The table at the end of a storm."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping

from tests.system.evidence import Evidence
from tests.system.repeats import Repeats, runs_taken
from tests.system.takeovers import Takeovers, percentile
from tools.results import Result, Trial, keep

_SHOWN_MAX = 8
_ACKNOWLEDGED = ("started", "signalled", "cancelled", "result", "ended")
_FAULTS = {
    "kill": "SIGKILL of workers",
    "stop": "SIGSTOP of workers past their lease, and SIGCONT",
    "term": "SIGTERM of workers",
    "server kill": "SIGKILL of every process of the database server, started again on its data",
    "promotion": "SIGKILL of every process of the primary for good; its synchronous standby took over",
}


def print_report(
    options: argparse.Namespace,
    ground: str,
    evidence: Evidence,
    takeovers: Takeovers,
    done: Mapping[str, int],
    found: Mapping[str, list[str]],
    seconds: float,
) -> int:
    """Print figures and violations; the number of violations."""
    print(f"\nstorm over {ground}: {options.workers} workers, lease {options.lease:g} s, seed {options.seed}")
    for name, figure, text in (*_faults(done), *figures(evidence), *_times(takeovers, seconds)):
        print(f"  {name:<22} {figure:>9}  {text}".rstrip())
    return print_violations(found)


def print_violations(found: Mapping[str, list[str]]) -> int:
    """Print what was found, by promise; how much it is."""
    print("  violations")
    for name, problems in found.items():
        print(f"  {name:<22} {len(problems):>9}")
        for problem in problems[:_SHOWN_MAX]:
            print(f"    - {problem}")
    total = sum(len(problems) for problems in found.values())
    print("all promises held" if not total else f"{total} VIOLATIONS")
    return total


def record(
    options: argparse.Namespace,
    ground: str,
    evidence: Evidence,
    takeovers: Takeovers,
    done: Mapping[str, int],
    found: Mapping[str, list[str]],
    seconds: float,
) -> None:
    """Keep the result for the scorecard."""
    count = {name: len(problems) for name, problems in found.items()}
    trial = Trial(
        f"{', '.join(f'{number} {act}s' for act, number in done.items() if number)} under load, {ground}",
        sum(done.values()),
        sum(len(evidence.of(kind)) for kind in _ACKNOWLEDGED),
        lost=count["lost acks"] + count["bad effects"] + count["bad undos"] + count["bad events"] + count["database"],
        doubled=count["double commits"] + count["unexplained repeats"] + count["zombies"],
        stuck=count["unfinished"] + count["orphans"] + count["workers"],
        recovery=f"p50 {percentile(takeovers.claims, 0.5):.2f} s, p99 {percentile(takeovers.claims, 0.99):.2f} s "
        f"(lease {options.lease:g} s)",
    )
    keep(Result(f"storm-{options.store}", f"make storm ARGS='--store {options.store}'", seconds, (trial,)))


def _faults(done: Mapping[str, int]) -> Iterator[tuple[str, str, str]]:
    for act, count in done.items():
        if count:
            yield f"{act}s", str(count), _FAULTS[act]


def figures(evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    """What was done and acknowledged: name, figure, and what it means."""
    repeats = Repeats(evidence)
    again = repeats.counts()
    statuses = Counter(run.status.value for run in evidence.runs.values())
    entries = [entry for run in evidence.runs.values() for entry in run.entries]
    steps = [entry for entry in entries if entry.kind in ("step", "undo")]
    lost_leases = sum("the lease is lost" in line.facts["text"] for line in evidence.of("warned"))
    deliveries = evidence.of("event")

    def count(kind: str) -> str:
        return str(len(evidence.of(kind)))

    yield "runs", str(len(evidence.runs)), ", ".join(f"{n} {status}" for status, n in statuses.most_common())
    yield "runs started", count("started"), "starts acknowledged to a client"
    yield "results acknowledged", str(len(evidence.of("result")) + len(evidence.of("ended"))), "to a client"
    yield "signals acknowledged", count("signalled"), f"to a client; {count('cancelled')} cancels"
    yield "not acknowledged", count("unacknowledged"), "requests of clients that were answered with an error"
    yield "steps recorded", str(len(steps)), f"{sum(entry.kind == 'undo' for entry in steps)} of them undone steps"
    yield "steps executed", str(len(evidence.executions)), f"bodies, and {len(evidence.effects)} in transactions"
    causes = ", ".join(f"{number} by {cause}" for cause, number in again.most_common())
    yield "bodies run again", str(again.total()), f"{causes}; {repeats.in_flight} were running when killed".lstrip("; ")
    yield "leases lost", str(lost_leases), f"{runs_taken(evidence)} runs were taken from stopped workers"
    yield "events sent", str(len({line.facts["id"] for line in deliveries})), f"{len(deliveries)} times"


def _times(takeovers: Takeovers, seconds: float) -> Iterator[tuple[str, str, str]]:
    for name, times in (("claim", takeovers.claims), ("commit", takeovers.commits)):
        what = "to the next claim, per run" if name == "claim" else "to the next commit of any of its runs"
        worst = f"p99 {percentile(times, 0.99):.2f} s {what}, of {len(times)}"
        yield f"takeover p50, {name}", f"{percentile(times, 0.5):.2f} s", worst
    yield "kills apart", str(takeovers.apart), "whose takeover met another fault, and says nothing"
    yield "seconds", f"{seconds:.0f}", f"the machine kept the supervisor waiting for up to {takeovers.lag:.2f} s"
