"""Bodies that ran more than once: each time must have its reason."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Literal

from tests.system.evidence import Evidence, Execution

Cause = Literal["kill", "stop", "stall"]


class Repeats:
    """Why bodies ran again."""

    def __init__(self, evidence: Evidence) -> None:
        # What the database had of the runs that a killed process held: path, or path@attempt of a recorded failure.
        self.deaths: dict[int, dict[str, frozenset[str]]] = {
            line.facts["pid"]: {run: frozenset(done) for run, done in line.facts["held"].items()}
            for line in evidence.of("killed")
        }
        self.stops = _times((line.facts["pid"], line.at) for line in evidence.of("stopped"))
        self.stalls = _times((e.pid, e.at) for e in evidence.of("warned") if "lease lost" in e.facts["text"])
        self._latest_tick: dict[tuple[str, int], Execution] = {}
        same: defaultdict[tuple[str, str, int], list[Execution]] = defaultdict(list)
        for execution in evidence.executions:
            same[execution.run, execution.path, execution.attempt].append(execution)
            self._latest_tick[execution.run, execution.pid] = execution
        self.superseded = [pair for group in same.values() for pair in pairwise(group)]
        self.in_flight = sum(self.was_in_flight(execution) for execution in evidence.executions)

    def was_in_flight(self, execution: Execution) -> bool:
        """Whether the kill of its process came before its result was recorded."""
        done = self.deaths.get(execution.pid, {}).get(execution.run)
        if done is None:
            return False
        if "ticks/" in execution.path and self._latest_tick[execution.run, execution.pid] is not execution:
            return False  # trimmed or not, the next one of this loop began only after it was recorded
        return execution.path not in done and f"{execution.path}@{execution.attempt}" not in done

    def cause(self, execution: Execution) -> Cause | None:
        """Why its result was not kept; None if there is no reason."""
        if self.was_in_flight(execution):
            return "kill"
        if any(at >= execution.began for at in self.stops.get(execution.pid, ())):
            return "stop"
        if any(at >= execution.began for at in self.stalls.get(execution.pid, ())):
            return "stall"
        # It had lost the run before it was killed, so it had stalled, and did not live to say so.
        return "stall" if execution.run not in self.deaths.get(execution.pid, {execution.run: ()}) else None

    def counts(self) -> Counter[str]:
        """How many bodies ran again, by cause."""
        return Counter(self.cause(first) or "unexplained" for first, _ in self.superseded)


def check_repeats(evidence: Evidence) -> Iterator[str]:
    """A body ran again only if its process died or stalled in it, and never twice at once in one process."""
    repeats = Repeats(evidence)
    for first, second in repeats.superseded:
        where = f"run {first.run}: {first.path} attempt {first.attempt}"
        cause = repeats.cause(first)
        if cause is None:
            yield f"{where} of {first.pid} ran again in {second.pid} for no reason"
        if first.pid == second.pid and cause is None and (first.ended is None or first.ended > second.began):
            yield f"{where} ran twice at once in {first.pid}"
    again = repeats.counts()["kill"]
    if again > repeats.in_flight:
        yield f"{again} bodies ran again after kills, only {repeats.in_flight} were in flight"


def zombie_begins(evidence: Evidence) -> int:
    """Bodies that a process began after a pause longer than its lease, before it noticed."""
    stalls = _times((e.pid, e.at) for e in evidence.of("warned") if "lease lost" in e.facts["text"])
    count = 0
    for line in evidence.of("continued"):
        pid = line.facts["pid"]
        noticed = min((at for at in stalls.get(pid, ()) if at > line.at), default=line.at)
        count += sum(e.pid == pid and line.at < e.began < noticed for e in evidence.executions)
    return count


def _times(found: Iterable[tuple[int, float]]) -> dict[int, list[float]]:
    times: defaultdict[int, list[float]] = defaultdict(list)
    for pid, at in found:
        times[pid].append(at)
    return times
