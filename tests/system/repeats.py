"""Bodies that ran more than once: each time must have its reason."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Literal

from tests.system.evidence import Evidence, Execution

NOT_OURS = "is no longer owned by this worker"  # logged by a worker whose commit came too late

_STORY_SECONDS = 4.0  # before and after
_FATES = frozenset(
    {"killed", "stopped", "continued", "terminated", "drained", "stalled", "warned", "server down", "server up"}
)

Cause = Literal["kill", "stop", "stall", "lock", "outage"]


class Repeats:
    """Why bodies ran again."""

    def __init__(self, evidence: Evidence) -> None:
        # What the database had of the runs that a killed process held: path, or path@attempt of a recorded failure.
        self.deaths: dict[int, dict[str, frozenset[str]]] = {
            line.facts["pid"]: {run: frozenset(done) for run, done in line.facts["held"].items()}
            for line in evidence.of("killed")
        }
        self._killed = {line.facts["pid"]: line.at for line in evidence.of("killed")}
        self._stops = _times((line.facts["pid"], line.at) for line in evidence.of("stopped"))
        self._stalls = _times((e.pid, e.at) for e in evidence.of("warned") if "the lease is lost" in e.facts["text"])
        drained = {line.pid for line in evidence.of("drained")}
        self._silent_stalls = [line for line in evidence.of("stalled") if line.pid in drained]
        # Who leaves hears of a lost lease only by its commits, run by run.
        self._losses = [e for e in evidence.of("warned") if e.pid in drained and NOT_OURS in e.facts["text"]]
        self._pauses = _pauses(evidence)
        ups = [line.at for line in evidence.of("server up")]
        downs = [line.at for line in evidence.of("server down")]
        self._outages = list(zip(downs, ups, strict=True))
        self._latest_tick: dict[tuple[str, int], Execution] = {}
        same: defaultdict[tuple[str, str, int], list[Execution]] = defaultdict(list)
        for execution in sorted(evidence.executions, key=lambda execution: execution.cleared):
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

    def cause(self, execution: Execution, again: Execution) -> Cause | None:
        """Why its result was not kept, and another came after it; None if there is no reason."""
        if self.was_in_flight(execution):
            return "kill"
        if any(at >= execution.cleared for at in self._stops.get(execution.pid, ())):
            return "stop"
        lost = next((at for at in self._stalls.get(execution.pid, ()) if at >= execution.cleared), None)
        if lost is None and execution.run not in self.deaths.get(execution.pid, {execution.run: ()}):
            # It had lost the run before it was killed, so it had stalled, and did not live to say so.
            lost = self._killed[execution.pid]
        if lost is None and self._has_stalled_between(execution, again):
            return "stall"
        if lost is None and self._was_held_up(execution, again):
            return "lock"
        if lost is None:
            return None
        is_cut_off = any(down <= lost and up >= execution.cleared for down, up in self._outages)
        return "outage" if is_cut_off else "stall"

    def _has_stalled_between(self, execution: Execution, again: Execution) -> bool:
        """Whether its process, which was drained and said nothing, was kept from running before the other began."""
        return any(
            line.pid == execution.pid
            and line.at >= execution.cleared
            and line.at - line.facts["seconds"] <= again.cleared
            for line in self._silent_stalls
        )

    def _was_held_up(self, execution: Execution, again: Execution) -> bool:
        """Whether its process found the run gone when it left, and another one was stopped before: one that is stopped
        with the lock of a file keeps everybody from renewing a lease.
        """
        has_lost = any(
            line.pid == execution.pid
            and line.at >= execution.cleared
            and f"run {execution.run} {NOT_OURS}" in line.facts["text"]
            for line in self._losses
        )
        return has_lost and any(
            pid != execution.pid and began <= again.cleared and ended >= execution.cleared
            for pid, began, ended in self._pauses
        )

    def counts(self) -> Counter[str]:
        """How many bodies ran again, by cause."""
        return Counter(self.cause(*pair) or "unexplained" for pair in self.superseded)


def check_repeats(evidence: Evidence) -> Iterator[str]:
    """A body ran again only if its process died or stalled in it and its result was not recorded, and never twice at
    once in one process.
    """
    repeats = Repeats(evidence)
    for first, second in repeats.superseded:
        where = f"run {first.run}: {first.path} attempt {first.attempt}"
        cause = repeats.cause(first, second)
        if cause is None:
            yield f"{where} of {first.pid} ran again in {second.pid} for no reason\n{_story(evidence, first, second)}"
        if first.value in evidence.recorded:
            yield f"{where} of {first.pid} was recorded, and ran again in {second.pid}"
        if first.pid == second.pid and cause is None and (first.ended is None or first.ended > second.began):
            yield f"{where} ran twice at once in {first.pid}"
    again = repeats.counts()["kill"]
    if again > repeats.in_flight:
        yield f"{again} bodies ran again after kills, only {repeats.in_flight} were in flight"


def check_zombies(evidence: Evidence) -> Iterator[str]:
    """A process that was stopped past its lease begins no body under it afterwards, and commits nothing of the runs
    that others had taken from it by then.
    """
    for line in evidence.of("continued"):
        pid, over = line.facts["pid"], set(line.facts.get("incarnations", ()))
        over |= {e.incarnation for e in evidence.executions if e.pid == pid and e.cleared <= line.at and e.incarnation}
        for execution in evidence.executions:
            if execution.pid != pid or execution.incarnation not in over:
                continue
            where = f"run {execution.run}: {execution.path} of {pid}"
            if execution.cleared > line.at:
                yield f"{where} began {execution.cleared - line.at:.3f} s after a stop that was longer than the lease"
            done = line.facts.get("taken", {}).get(execution.run)
            if done is not None and execution.path not in done and execution.value in evidence.recorded:
                yield f"{where} was recorded after a stop, and the run was another's by then"


def runs_taken(evidence: Evidence) -> int:
    """How many runs others had when their stopped process was continued."""
    return sum(len(line.facts.get("taken", ())) for line in evidence.of("continued"))


def _story(evidence: Evidence, first: Execution, second: Execution) -> str:
    """What is known of a body that ran twice, for whoever has to find out why."""
    begin, end = first.cleared - _STORY_SECONDS, second.cleared + _STORY_SECONDS
    told = [
        f"{line.at - first.cleared:+8.3f} s  {line.pid}  {line.kind}  {_short(line.facts)}"
        for line in evidence.lines
        if begin <= line.at <= end and (line.kind in _FATES or line.facts.get("run") == first.run)
    ]
    return "\n".join(f"        {line}" for line in told)


def _short(facts: dict[str, Any]) -> str:
    return ", ".join(f"{name}={str(value)[:80]}" for name, value in facts.items() if name not in ("key", "given"))


def _pauses(evidence: Evidence) -> list[tuple[int, float, float]]:
    """Which processes were stopped, from when to when."""
    ends = _times((line.facts["pid"], line.at) for line in evidence.of("continued"))
    return [
        (pid, line.at, next((end for end in ends.get(pid, ()) if end > line.at), float("inf")))
        for line in evidence.of("stopped")
        for pid in [line.facts["pid"]]
    ]


def _times(found: Iterable[tuple[int, float]]) -> dict[int, list[float]]:
    times: defaultdict[int, list[float]] = defaultdict(list)
    for pid, at in found:
        times[pid].append(at)
    return times
