"""The findings of an examination of a store, and the rules that judge them, the same for every store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol

from stepwell.advice import Advice, Fix, advice_of, in_commands
from stepwell.clock import SECOND, Instant, Span, to_datetime
from stepwell.errors import StepwellError
from stepwell.model.ledger import Verified

_NAMED_MAX = 5
_MEBIBYTE = 1_048_576
_DAYS_MIN = 14
_BACKLOG_SECONDS = 60


class Verdict(StrEnum):
    """How bad a finding is; the last is the worst."""

    OK = "ok"
    WARN = "warn"  # it works, but an operator should know
    FAIL = "fail"  # it does not work, or breaks a promise


class Remedy(StrEnum):
    """What may be done about a finding without asking: it loses nothing, and any worker would do it too."""

    MIGRATE = "migrate"  # create or migrate the tables
    RECOVER = "recover"  # free the runs of workers that are gone
    REOPEN = "reopen"  # open it for work, which restores its journal mode
    PROTECT = "protect"  # let only the owner read the file


class Example(NamedTuple):
    """One of the runs that a finding is about: where it is and why, since when, and what to do about it."""

    run_id: str
    key: str | None
    workflow: str
    version: int
    status: str
    where: str
    why: str
    since: datetime
    advice: Advice


class Finding(NamedTuple):
    """What one check found. A finding that is not OK has a reason and a fix.

    `filter` lists the runs that it is about, `runs` is how many they are, as far as they were counted, and `examples`
    are some of them.
    """

    check: str
    verdict: Verdict
    found: str
    why: str = ""
    fix: str = ""  # in words for the command line
    remedy: Remedy | None = None
    advice: tuple[Advice, ...] = ()  # the fix as data, if it is something that stepwell can do
    filter: str = ""
    runs: int | None = None
    examples: tuple[Example, ...] = ()


class Diagnosis(Protocol):
    """Examines a store."""

    def examine(self, *, is_quick: bool = False) -> Iterator[Finding]:
        """Examine everything, access first, as far as possible. Changes nothing.

        A quick examination leaves out the checks that read everything: of the whole file, and of the whole audit.

        Blocks. An error on the way becomes a finding and is not raised.
        """
        ...


def fine(check: str, found: str) -> Finding:
    """A finding that needs no action."""
    return Finding(check, Verdict.OK, found)


def warning(
    check: str,
    found: str,
    *,
    why: str,
    fix: Fix,
    remedy: Remedy | None = None,
    filter: str = "",
    runs: int | None = None,
    examples: tuple[Example, ...] = (),
) -> Finding:
    """A finding that an operator should know."""
    advice = advice_of(fix)
    words = fix if isinstance(fix, str) else in_commands(advice)
    return Finding(check, Verdict.WARN, found, why, words, remedy, advice, filter, runs, examples)


def failure(check: str, found: str, *, why: str, fix: str, remedy: Remedy | None = None) -> Finding:
    """A finding on which an operator must act."""
    return Finding(check, Verdict.FAIL, found, why, fix, remedy)


def from_error(check: str, error: StepwellError) -> Finding:
    """The finding for an error that a check met."""
    return Finding(check, Verdict.FAIL, f"{error.code} {error.title}", error.why, error.fix)


def worst(findings: Iterable[Finding]) -> Verdict:
    """The worst verdict; OK if there are no findings."""
    return max((finding.verdict for finding in findings), key=list(Verdict).index, default=Verdict.OK)


# --- judgements on what every store has ----------------------------------------------------------------------


def judge_workers(alive: Sequence[str], dead: Sequence[tuple[str, Instant]], *, has_unfinished: bool) -> Finding:
    """Judge the names of the workers whose lease is live, and of those whose lease expired, with the time."""
    names = _some([f"{name} at {to_datetime(ended):%Y-%m-%d %H:%M:%S} UTC" if ended else name for name, ended in dead])
    lost = f", {len(dead)} with an expired lease ({names})" if dead else ""
    if alive:
        return fine("workers", f"{len(alive)} alive ({_some(alive)}){lost}")
    if not has_unfinished:
        return fine("workers", f"none alive, and no run needs one{lost}")
    return warning(
        "workers",
        f"none alive{lost}, and some runs have not ended",
        why="runs are executed by workers; without one, no run continues",
        fix="stepwell worker MODULE; a worker that stopped by itself logged the reason (SW604)",
    )


def judge_stranded(runs: int) -> Finding:
    """Judge the number of runs whose owner has no live lease."""
    if not runs:
        return fine("stranded", "no run is owned by a worker that is gone")
    return warning(
        "stranded",
        f"{runs} run{'s are' if runs > 1 else ' is'} owned by workers that are gone",
        why="a live worker takes over such runs within seconds; no worker is alive, or the owner died just now",
        fix="nothing if a worker is alive; otherwise start one: stepwell worker MODULE; --fix frees the runs",
        remedy=Remedy.RECOVER,
    )


def judge_orphans(runs: Sequence[str]) -> Finding:
    """Judge the runs that nothing will ever move."""
    if not runs:
        return fine("orphans", "every run that has not ended has a cause of progress")
    return failure(
        "orphans",
        f"{len(runs)} run{'s have' if len(runs) > 1 else ' has'} no cause of progress: {_some(runs)}",
        why="this must not happen: it is a bug in stepwell, or the tables were changed by hand",
        fix="report it with the output of `stepwell show RUN -o json`; `stepwell cancel RUN` ends such a run",
    )


def judge_backlog(due: int, due_max: int, oldest: Span) -> Finding:
    """Judge how many runs are due, counted up to a limit, and for how long the first of them has been due."""
    count = "1 run is" if due == 1 else f"more than {due_max} runs are" if due > due_max else f"{due or 'no'} runs are"
    if oldest <= _BACKLOG_SECONDS * SECOND:
        return fine("backlog", f"{count} due")
    return warning(
        "backlog",
        f"{count} due, the oldest for {oldest // SECOND} s",
        why="no worker serves their workflow and version, or the workers are overloaded",
        fix="see the workers above; start more, or start a worker for the workflow: stepwell worker MODULE",
    )


def judge_served(unserved: Sequence[str], *, has_workers: bool) -> Finding:
    """Judge the definitions that have due runs and that no live worker serves."""
    if not has_workers:
        return fine("served", "not checked: no worker is alive")
    if not unserved:
        return fine("served", "live workers serve the workflows of all due runs")
    named = [one.replace("@", " v") for one in unserved]
    return warning(
        "served",
        f"no live worker serves these workflows, which have due runs: {_some(named)}",
        why="a worker claims only runs of the workflows and versions that it was started with",
        fix="start a worker with that workflow and version: stepwell worker MODULE; stepwell versions shows them all",
    )


def judge_clock(ahead: Span, *, is_slowed: bool) -> Finding:
    """Judge how far the time in a file is ahead of this machine's, and whether it runs at half speed."""
    if ahead <= SECOND:
        return fine("clock", "this machine's clock is not behind the times in the file")
    speed = "half speed until the clock catches up" if is_slowed else "full speed, ahead of the clock"
    return warning(
        "clock",
        f"this machine's clock is {ahead / SECOND:,.0f} s behind the times in the file",
        why="it was set back, or the file was written on another machine; the store's time never goes back: it "
        f"continues at {speed}",
        fix="synchronise the machine's clock with a time server; nothing is lost",
    )


def judge_size(size: int, runs: int, recent: int, recent_max: int, free: int | None) -> Finding:
    """Judge the size in bytes, the runs in all and of the last day, counted up to a limit, and the free space, if
    known.
    """
    daily = size / max(runs, 1) * recent
    count = f"more than {recent_max:,}" if recent > recent_max else f"{recent:,}"
    found = f"{size / _MEBIBYTE:,.1f} MiB, about {runs:,} runs; {count} of them in the last day"
    found += f", about {daily / _MEBIBYTE:,.1f} MiB" if recent else ""
    if free is None or not recent or free >= daily * _DAYS_MIN:
        return fine("size", found)
    return warning(
        "size",
        f"{found}; the disk will be full in about {free / daily:,.0f} days",
        why="without space nothing can be recorded, so no run continues",
        fix="free some space, or move to a larger disk: stepwell move",
    )


def judge_blobs(leaked: int) -> Finding:
    """Judge how many large payloads nothing refers to, although they were last used two days ago or earlier."""
    if not leaked:
        return fine("blobs", "something refers to every large payload, or it is new")
    return warning(
        "blobs",
        f"nothing refers to {leaked:,} large payload{'s' if leaked > 1 else ''} any more",
        why="their runs were erased or pruned, and no worker has cleaned up since",
        fix="start a worker of an App with a retention, or: stepwell prune --older 30d",
    )


def judge_audit(found: Verified) -> Finding:
    """Judge the lines of the audit."""
    if not found.breaks:
        return fine("audit", f"{found.lines:,} lines, all unchanged")
    places = "; ".join(f"line {one.number} {one.what}" for one in found.breaks[:_NAMED_MAX])
    more = len(found.breaks) - _NAMED_MAX
    return failure(
        "audit",
        f"{places}{f'; and {more} more places' if more > 0 else ''}",
        why="each line has a hash over the one before; the tables were changed by hand, or the database is damaged",
        fix="compare these lines with a backup; find out who may write to the database",
    )


def ids_between(since: Instant, until: Instant) -> tuple[str, str]:
    """The prefixes of the ids that were made between two instants: an id begins with its time."""
    first, last = (f"{instant // 1_000:012x}" for instant in (since, until))
    return f"{first[:8]}-{first[8:]}", f"{last[:8]}-{last[8:]}"


def judge_errors(check: str, look: Callable[[], Finding]) -> Finding:
    """The finding of a check, or the `StepwellError` that it met."""
    try:
        return look()
    except StepwellError as error:
        return from_error(check, error)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED_MAX]) + (", …" if len(names) > _NAMED_MAX else "")
