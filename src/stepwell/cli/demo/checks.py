"""The claims of the demonstration, checked against the database and the ledger. Pure, so that it can be tested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stepwell.cli.demo.ledger import BEGAN, Effect
from stepwell.engine.views import EntryView, RunView

UNDO = "~undo"


class Check(NamedTuple):
    """One claim, and whether it was true."""

    claim: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """What was observed around the kill."""

    in_flight: str  # the path that was being executed
    recorded: frozenset[str]  # paths that were recorded when the first worker was dead
    died_by_kill: bool
    first_pid: int
    second_pid: int
    first_incarnation: str
    second_incarnation: str


class Repeats(NamedTuple):
    """How often bodies ran more than once."""

    recorded: tuple[str, ...]  # recorded before the repeat: must be empty
    in_flight: tuple[str, ...]  # still running when their worker died: allowed, and reported
    share_keys: bool = True  # every repeated body got the same idempotency key


def count_repeats(effects: Sequence[Effect], entries: Sequence[EntryView], recorded: Collection[str]) -> Repeats:
    """A body that began again after its result was recorded is wrong; a body whose worker died had to run again."""
    began = [effect for effect in effects if effect.what == BEGAN]
    times = Counter(effect.path for effect in began)
    ended_at = {entry.path: entry.at.timestamp() for entry in entries}
    late = {effect.path for effect in began if effect.at > ended_at.get(effect.path, float("inf"))}
    wrong = {path for path in recorded if times[path] > 1} | late
    again = {path for path, number in times.items() if number > 1} - wrong
    share_keys = len({(effect.path, effect.key) for effect in began}) == len(times)
    return Repeats(tuple(sorted(wrong)), tuple(sorted(again)), share_keys)


def check_takeover(
    run: RunView, entries: Sequence[EntryView], effects: Sequence[Effect], seen: Takeover, timer_seconds: float
) -> list[Check]:
    """The first order: killed, taken over, waited for a timer and a signal, completed, nothing repeated."""
    killed = [effect for effect in effects if effect.path == seen.in_flight]
    after = {effect.pid for effect in killed} - {seen.first_pid}
    in_the_middle = seen.in_flight not in seen.recorded and {
        effect.what for effect in killed if effect.pid == seen.first_pid
    } == {BEGAN}
    repeats = count_repeats(effects, entries, seen.recorded)
    other = seen.second_incarnation not in ("", seen.first_incarnation) and after == {seen.second_pid}
    return [
        Check(
            "worker-1 was killed with SIGKILL in the middle of a step",
            seen.died_by_kill and in_the_middle,
            seen.in_flight,
        ),
        Check("another worker took the run over", other, f"pid {seen.first_pid} → {seen.second_pid}"),
        Check("its order completed", run.status == "completed", _unless(run.status, "completed")),
        Check(
            f"{len(repeats.recorded)} steps repeated",
            not repeats.recorded and bool(seen.recorded),
            ", ".join(repeats.recorded) or f"recorded before the kill: {', '.join(sorted(seen.recorded))}",
        ),
        Check("a step that runs again has the same idempotency key", repeats.share_keys, ", ".join(repeats.in_flight)),
        _check_timer(entries, timer_seconds),
        Check("a signal was waited for", any(_is_done(entry, "receive") for entry in entries)),
    ]


def _check_timer(entries: Sequence[EntryView], seconds: float) -> Check:
    for entry in entries:
        if _is_done(entry, "sleep"):
            return Check("a timer was waited for", entry.took >= seconds, f"{entry.took:.2f} s of {seconds:g} s")
    return Check("a timer was waited for", False, "the history has none")


def _unless(status: str, expected: str) -> str:
    return "" if status == expected else f"it is {status}"


def _is_done(entry: EntryView, kind: str) -> bool:
    return entry.kind == kind and entry.status == "done"


def check_rollback(run: RunView, entries: Sequence[EntryView], effects: Sequence[Effect]) -> list[Check]:
    """The second order: failed, and undone in reverse order, each step once."""
    done = [entry.path for entry in entries if entry.can_undo]
    undone = [entry.path.removesuffix(UNDO) for entry in entries if entry.kind == "undo" and entry.status == "done"]
    ran = [effect.path.removesuffix(UNDO) for effect in effects if effect.what == BEGAN and UNDO in effect.path]
    return [
        Check(
            "the second order failed and was fully undone",
            run.status == "compensated",
            _unless(run.status, "compensated"),
        ),
        Check("last in, first out", bool(done) and undone == done[::-1], " → ".join(undone)),
        Check("each undo ran once", ran == undone, " → ".join(ran)),
    ]
