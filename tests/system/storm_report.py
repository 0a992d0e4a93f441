"""The table at the end of a storm."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping

from tests.system.evidence import Evidence
from tests.system.repeats import Repeats, zombie_begins
from tests.system.takeovers import Takeovers, percentile

_SHOWN_MAX = 8


def print_report(
    options: argparse.Namespace,
    evidence: Evidence,
    takeovers: Takeovers,
    done: Mapping[str, int],
    found: Mapping[str, list[str]],
    seconds: float,
) -> int:
    """Print figures and violations; the number of violations."""
    repeats = Repeats(evidence)
    again = repeats.counts()
    statuses = Counter(run.status.value for run in evidence.runs.values())
    steps = sum(entry.kind in ("step", "undo") for run in evidence.runs.values() for entry in run.entries)
    acks = {kind: len(evidence.of(kind)) for kind in ("started", "signalled", "cancelled", "result", "ended")}
    lost_leases = sum("lease lost" in line.facts["text"] for line in evidence.of("warned"))
    undos = sum(entry.kind == "undo" for run in evidence.runs.values() for entry in run.entries)
    rows = [
        ("faults", ", ".join(f"{count} {act}s" for act, count in done.items())),
        ("runs", f"{len(evidence.runs)}: " + ", ".join(f"{n} {status}" for status, n in statuses.most_common())),
        ("steps", f"{steps} recorded (undos {undos}), {len(evidence.executions)} bodies begun"),
        (
            "events",
            f"{len({line.facts['id'] for line in evidence.of('event')})}, sent {len(evidence.of('event'))} times",
        ),
        ("acks", ", ".join(f"{count} {kind}" for kind, count in acks.items())),
        ("not acked", f"{len(evidence.of('unacknowledged'))} requests answered with an error"),
        ("bodies in flight", f"{repeats.in_flight} when their worker was killed"),
        ("bodies run again", ", ".join(f"{count} by {cause}" for cause, count in again.most_common()) or "none"),
        ("leases lost", f"{lost_leases}; {zombie_begins(evidence)} bodies begun by a zombie after its pause"),
        ("next claim", _times(takeovers.claims) + " after a kill, per run"),
        ("next commit", _times(takeovers.commits) + f" after a kill, any of its runs ({takeovers.apart} kills apart)"),
        ("this machine", f"kept the supervisor waiting for up to {takeovers.lag:.2f} s; {seconds:.0f} s in all"),
    ]
    print(f"\nstorm: {options.workers} workers, lease {options.lease:g} s, seed {options.seed}")
    for name, text in rows:
        print(f"  {name:<17} {text}")
    for name, problems in found.items():
        print(f"  {name:<20} {len(problems)}")
        for problem in problems[:_SHOWN_MAX]:
            print(f"    - {problem}")
    total = sum(len(problems) for problems in found.values())
    print("all promises held" if not total else f"{total} VIOLATIONS")
    return total


def _times(seconds: list[float]) -> str:
    return f"p50 {percentile(seconds, 0.5):.2f} s, p99 {percentile(seconds, 0.99):.2f} s ({len(seconds)})"
