"""What an examination of a store finds, and what of it is good or bad, the same for every store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from stepwell.clock import SECOND, Instant, Span, to_datetime
from stepwell.errors import StepwellError
from stepwell.model.ledger import Verified

_NAMED_MAX = 5
_MEBIBYTE = 1_048_576
_DAYS_MIN = 14
_BACKLOG_SECONDS = 60


class Verdict(StrEnum):
    """How bad it is; the last is the worst."""

    OK = "ok"
    WARN = "warn"  # it works, and somebody should know
    FAIL = "fail"  # it does not work, or loses what was promised


class Remedy(StrEnum):
    """What may be done about a finding without asking anybody: nothing is lost, and any worker would do it, too."""

    MIGRATE = "migrate"  # create or migrate the tables
    RECOVER = "recover"  # free the runs of workers that are gone
    REOPEN = "reopen"  # open it for work, which puts its journal mode back
    PROTECT = "protect"  # let nobody but the owner read the file


class Finding(NamedTuple):
    """What one check found. Whatever is not fine has a reason and a fix."""

    check: str
    verdict: Verdict
    found: str
    why: str = ""
    fix: str = ""
    remedy: Remedy | None = None


class Diagnosis(Protocol):
    """A store under examination."""

    def examine(self) -> Iterator[Finding]:
        """Look at everything, the way in first, as far as one can get. Changes nothing.

        Blocks. An error that is met is a finding, and is not raised.
        """
        ...


def fine(check: str, found: str) -> Finding:
    """Nothing to do."""
    return Finding(check, Verdict.OK, found)


def warning(check: str, found: str, *, why: str, fix: str, remedy: Remedy | None = None) -> Finding:
    """Somebody should know."""
    return Finding(check, Verdict.WARN, found, why, fix, remedy)


def failure(check: str, found: str, *, why: str, fix: str, remedy: Remedy | None = None) -> Finding:
    """Somebody has to act."""
    return Finding(check, Verdict.FAIL, found, why, fix, remedy)


def met(check: str, error: StepwellError) -> Finding:
    """An error that was met on the way."""
    return Finding(check, Verdict.FAIL, f"{error.code} {error.title}", error.why, error.fix)


def worst(findings: Iterable[Finding]) -> Verdict:
    """The worst verdict; that of nothing is fine."""
    return max((finding.verdict for finding in findings), key=list(Verdict).index, default=Verdict.OK)


# --- judgements on what every store has ----------------------------------------------------------------------


def judge_workers(alive: Sequence[str], dead: Sequence[tuple[str, Instant]], *, has_unfinished: bool) -> Finding:
    """By the names of the workers whose lease is live, and those whose lease ran out, with the time of that."""
    names = _some([f"{name} at {to_datetime(ended):%Y-%m-%d %H:%M:%S} UTC" if ended else name for name, ended in dead])
    lost = f", {len(dead)} with a lease that ran out ({names})" if dead else ""
    if alive:
        return fine("workers", f"{len(alive)} alive ({_some(alive)}){lost}")
    if not has_unfinished:
        return fine("workers", f"none alive, and no run waits for one{lost}")
    return warning(
        "workers",
        f"none alive{lost}, and there are runs that have not ended",
        why="runs are executed by workers; nothing moves until there is one",
        fix="stepwell worker MODULE; one that ended by itself has written why to its log (SW604)",
    )


def judge_stranded(runs: int) -> Finding:
    """By the number of runs whose owner has no live lease."""
    if not runs:
        return fine("stranded", "no run is owned by a worker that is gone")
    return warning(
        "stranded",
        f"{runs} run{'s are' if runs > 1 else ' is'} owned by workers that are gone",
        why="a live worker takes such runs over within seconds; there is none, or it has only just happened",
        fix="nothing if a worker is alive, else start one: stepwell worker MODULE; --fix frees them",
        remedy=Remedy.RECOVER,
    )


def judge_orphans(runs: Sequence[str]) -> Finding:
    """By the runs that nothing will ever move."""
    if not runs:
        return fine("orphans", "every run that has not ended has something that moves it on")
    return failure(
        "orphans",
        f"{len(runs)} run{'s have' if len(runs) > 1 else ' has'} nothing that moves them on: {_some(runs)}",
        why="this must not happen: a defect of stepwell, or somebody changed its tables by hand",
        fix="report it with the output of `stepwell show RUN -o json`; `stepwell cancel RUN` ends such a run",
    )


def judge_backlog(due: int, due_max: int, oldest: Span) -> Finding:
    """By how many runs are due, counted up to a limit, and for how long the first of them has been."""
    count = "1 run is" if due == 1 else f"more than {due_max} runs are" if due > due_max else f"{due or 'no'} runs are"
    if oldest <= _BACKLOG_SECONDS * SECOND:
        return fine("backlog", f"{count} due")
    return warning(
        "backlog",
        f"{count} due, the first of them since {oldest // SECOND} s",
        why="no worker serves their workflow and version, or the workers have more to do than they can",
        fix="look at the workers above; start more, or one that knows the workflow: stepwell worker MODULE",
    )


def judge_served(unserved: Sequence[str], *, has_workers: bool) -> Finding:
    """By the definitions that have runs which are due, and that no live worker knows."""
    if not has_workers:
        return fine("served", "no worker is alive to be asked what it knows")
    if not unserved:
        return fine("served", "live workers know the workflows of all runs that are due")
    return warning(
        "served",
        f"runs are due that no live worker knows: {_some(unserved)}",
        why="a worker claims only runs of the workflows and versions that it was given",
        fix="start a worker with that workflow and version: stepwell worker MODULE; stepwell versions shows them all",
    )


def judge_clock(ahead: Span, *, is_slowed: bool) -> Finding:
    """By how far the time in a file is ahead of this machine's, and whether it runs at half speed."""
    if ahead <= SECOND:
        return fine("clock", "this machine's clock is not behind the times in the file")
    speed = "half speed until the clock has caught up" if is_slowed else "full speed, as far ahead as it is"
    return warning(
        "clock",
        f"this machine's clock is {ahead / SECOND:,.0f} s behind the times in the file",
        why="it was set back, or the file was written on another machine; the store's time never goes back: it goes on "
        f"at {speed}",
        fix="let the machine ask a time server; nothing is lost",
    )


def judge_size(size: int, runs: int, recent: int, recent_max: int, free: int | None) -> Finding:
    """By bytes, by runs in all and of the last day, counted up to a limit, and by the room that is left, if known."""
    daily = size / max(runs, 1) * recent
    count = f"more than {recent_max:,}" if recent > recent_max else f"{recent:,}"
    found = f"{size / _MEBIBYTE:,.1f} MiB, about {runs:,} runs; {count} of them of the last day"
    found += f", about {daily / _MEBIBYTE:,.1f} MiB" if recent else ""
    if free is None or not recent or free >= daily * _DAYS_MIN:
        return fine("size", found)
    return warning(
        "size",
        f"{found}; the disk is full in about {free / daily:,.0f} days",
        why="without space nothing can be recorded, so nothing moves",
        fix="make space, or move to a larger disk: stepwell move",
    )


def judge_audit(found: Verified) -> Finding:
    """By what became of the lines of the audit."""
    if not found.breaks:
        return fine("audit", f"{found.lines:,} lines, each as it was written")
    places = "; ".join(f"line {one.number} {one.what}" for one in found.breaks[:_NAMED_MAX])
    more = len(found.breaks) - _NAMED_MAX
    return failure(
        "audit",
        f"{places}{f'; and {more} more places' if more > 0 else ''}",
        why="somebody changed the tables by hand, or the database was damaged: each has a hash over the one before",
        fix="compare these lines with a backup; find out who may write to the database",
    )


def ids_between(since: Instant, until: Instant) -> tuple[str, str]:
    """The beginnings of ids that were made from one moment to another: they begin with the time."""
    first, last = (f"{instant // 1_000:012x}" for instant in (since, until))
    return f"{first[:8]}-{first[8:]}", f"{last[:8]}-{last[8:]}"


def judge_errors(check: str, look: Callable[[], Finding]) -> Finding:
    """What a check finds, or the error of ours that it met."""
    try:
        return look()
    except StepwellError as error:
        return met(check, error)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED_MAX]) + (", …" if len(names) > _NAMED_MAX else "")
