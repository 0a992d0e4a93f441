"""Schedules as they are stored, and what becomes of one when people or code change it: pure functions of what it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from stepwell.clock import Instant, Span
from stepwell.engine.records import Document, Draft, NewLine
from stepwell.errors import AlreadyExistsError, InvalidMoveError, InvalidOptionError
from stepwell.model.records import LABEL_MAX
from stepwell.model.runs import NewRun
from stepwell.model.schedules import Overlap, Spec, jitter_of
from stepwell.model.states import ScheduleState
from stepwell.model.ticks import after

OUTCOMES_MAX: Final = 20
CODE_LABEL: Final = "declared in code"
PROBLEM_LABEL: Final = "cannot fire"
TICKED: Final = "ticked"

LOOK_FIRST, LOOK_MAX = Span(500_000), Span(30_000_000)
"""How soon it is looked again whether the run before a held tick has ended; the pause is doubled each time."""


class Problem(msgspec.Struct, frozen=True):
    """Why a schedule cannot start runs. Its texts do not quote the input."""

    since: int
    code: str
    message: str


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """What became of a tick: `kind` is started, skipped, missed, failed or triggered."""

    tick: int
    kind: str
    at: int
    run_id: str = ""  # that was started, or was in the way
    note: str = ""
    until: int | None = None  # of missed ticks: the last of them


class Edit(msgspec.Struct, frozen=True):
    """Who changed a part of a schedule that its code declares, and when."""

    by: str
    at: int


class ScheduleBody(msgspec.Struct, frozen=True):
    """What is stored of a schedule. Every tick up to `cursor` is dealt with, and `next_at` is the first after it."""

    name: str
    spec: Spec
    cursor: int
    next_at: int | None
    declared: Spec | None = None  # what the code says
    declared_version: int = 0  # of the workflow
    edits: dict[str, Edit] = {}
    is_removed: bool = False  # paused, because the code does not have it any more
    by: str = ""  # who paused it
    reason: str = ""
    last_fired: int | None = None
    active: tuple[str, ...] = ()  # runs that had not ended when it was last looked
    held: int | None = None  # a tick that waits for the end of a run
    looks: int = 0  # how often it was looked since then
    look_at: int | None = None  # when it is looked again, for a held tick or because it is blocked
    is_blocked: bool = False  # its ticks cannot be dealt with now, and wait
    cancels: tuple[str, ...] = ()  # runs to cancel
    log: str = ""  # its outcomes as one text, the newest first: so a tick costs the codec little
    problem: Problem | None = None

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The last outcomes, the newest first."""
        return _read_log(self.log) if self.log else ()


_read_log: Final = msgspec.json.Decoder(tuple[Outcome, ...]).decode
_write_log: Final = msgspec.json.Encoder().encode


FIELDS: Final = ("when", "workflow", "input", "overlap", "catch_up", "window", "jitter")
"""The parts of a schedule that people change. "when" is its rule."""


def part_of(spec: Spec, field: str) -> Any:
    """One part of a schedule."""
    return getattr(spec, "rule" if field == "when" else field)


def with_parts(spec: Spec, parts: Mapping[str, Any]) -> Spec:
    """A schedule with other parts."""
    named = {("rule" if field == "when" else field): value for field, value in parts.items()}
    return msgspec.structs.replace(spec, **named)


def differing(body: ScheduleBody) -> list[str]:
    """The parts that differ from the code, because a person changed them."""
    if body.declared is None:
        return []
    return [field for field in FIELDS if part_of(body.spec, field) != part_of(body.declared, field)]


# --- from nothing, and from code ---


def created(
    name: str, spec: Spec, it: Document[ScheduleBody] | None, by: str, now: Instant, *, is_paused: bool
) -> Draft[ScheduleBody]:
    """A schedule by hand. Raises `AlreadyExistsError`."""
    if it is not None and it.record.is_open:
        raise AlreadyExistsError(
            f"there is a schedule {name!r}", fix=f"stepwell schedule update {name}, or another name"
        )
    # A deleted schedule of that name may have started runs: their ids are not used again.
    body = _begun(ScheduleBody(name, spec, now, None, by=by if is_paused else ""), now)
    state = ScheduleState.PAUSED if is_paused else ScheduleState.ACTIVE
    return draft(body, state, NewLine("created", by))


def declared(
    name: str, spec: Spec, version: int, it: Document[ScheduleBody] | None, now: Instant
) -> Draft[ScheduleBody] | None:
    """What the code of a worker says. What a person changed is kept, and so is the pause of a person."""
    line = NewLine("declared")
    if it is None or not it.record.is_open or it.content is None:
        body = _begun(ScheduleBody(name, spec, now, None, spec, version), now)
        is_paused = it is not None and it.record.state == ScheduleState.PAUSED
        return draft(body, ScheduleState.PAUSED if is_paused else ScheduleState.ACTIVE, line)
    before = it.content
    if before.declared_version > version:
        return None  # older code: the deploy of the newer one is in force
    if before.declared == spec and before.declared_version == version and not before.is_removed:
        return None
    edits = {field: edit for field, edit in before.edits.items() if part_of(before.spec, field) != part_of(spec, field)}
    kept = {field: part_of(before.spec, field) for field in edits}
    if before.declared is None:  # it was made by hand: then everything in it was a person's decision
        kept = {field: part_of(before.spec, field) for field in FIELDS}
        edits = {field: Edit("", now) for field in FIELDS if part_of(before.spec, field) != part_of(spec, field)}
    body = msgspec.structs.replace(before, declared=spec, declared_version=version, edits=edits, is_removed=False)
    body = _respecified(_unblocked(body), with_parts(spec, kept), now)
    state = ScheduleState(it.record.state)
    if before.is_removed and state is ScheduleState.PAUSED:
        return _resumed(it, body, now, line)
    return draft(body, _state_of(body, state), line)


def removed(workflow: str, it: Document[ScheduleBody] | None, now: Instant) -> Draft[ScheduleBody] | None:
    """The code of its workflow does not have it any more."""
    if it is None or not it.record.is_open or it.content is None or it.content.declared is None:
        return None
    if it.content.is_removed:
        return None
    reason = f"the code of {workflow} does not have it any more"
    if it.record.state != ScheduleState.ACTIVE:
        body = msgspec.structs.replace(it.content, is_removed=True)
        return draft(body, ScheduleState(it.record.state), NewLine("removed from code"))
    body = msgspec.structs.replace(it.content, is_removed=True, reason=reason)
    return draft(_unheld(body, now, "it was paused"), ScheduleState.PAUSED, NewLine("removed from code"))


# --- by people ---


def updated(
    parts: Mapping[str, Any], it: Document[ScheduleBody] | None, by: str, now: Instant
) -> Draft[ScheduleBody] | None:
    """A person changes parts of it."""
    if it is None or not it.record.is_open:
        return None
    before = it.body
    spec = with_parts(before.spec, parts)
    changed = [field for field in parts if part_of(before.spec, field) != part_of(spec, field)]
    if not changed:
        return None
    edits = dict(before.edits)
    if before.declared is not None:
        for field in changed:
            edits[field] = Edit(by, now)
            if part_of(spec, field) == part_of(before.declared, field):
                del edits[field]
    body = _respecified(_unblocked(msgspec.structs.replace(before, edits=edits)), spec, now)
    line = NewLine("updated", by, {"parts": changed})
    return draft(body, _state_of(body, ScheduleState(it.record.state)), line)


def as_in_code(it: Document[ScheduleBody] | None, by: str, now: Instant) -> Draft[ScheduleBody] | None:
    """A person gives up what people changed. Raises `InvalidMoveError` for a schedule that no code declares."""
    if it is None or not it.record.is_open:
        return None
    before = it.body
    if before.declared is None:
        raise InvalidMoveError(f"no code declares schedule {it.record.record_id!r}")
    if not before.edits and before.spec == before.declared:
        return None
    body = _respecified(_unblocked(msgspec.structs.replace(before, edits={})), before.declared, now)
    return draft(body, _state_of(body, ScheduleState(it.record.state)), NewLine("as in code", by))


def paused(it: Document[ScheduleBody] | None, by: str, reason: str, now: Instant) -> Draft[ScheduleBody] | None:
    """A person pauses it."""
    if it is None or not it.record.is_open or it.record.state == ScheduleState.PAUSED:
        return None
    line = NewLine("paused", by, {"reason": reason} if reason else None)
    body = msgspec.structs.replace(it.body, by=by, reason=reason)
    return draft(_unheld(body, now, "it was paused"), ScheduleState.PAUSED, line)


def resumed(it: Document[ScheduleBody] | None, by: str, now: Instant) -> Draft[ScheduleBody] | None:
    """A person resumes it: nothing is due for the time before."""
    if it is None or not it.record.is_open or it.record.state != ScheduleState.PAUSED:
        return None
    before = it.body
    if before.is_removed:  # from now on it is a schedule by hand
        before = msgspec.structs.replace(before, declared=None, declared_version=0, edits={}, is_removed=False)
    return _resumed(it, before, now, NewLine("resumed", by))


def deleted(it: Document[ScheduleBody] | None, by: str) -> Draft[ScheduleBody] | None:
    """A person deletes it. Raises `InvalidMoveError` for a schedule that the code of a workflow has."""
    if it is None or not it.record.is_open:
        return None
    if it.content is not None and it.content.declared is not None and not it.content.is_removed:
        raise InvalidMoveError(
            f"schedule {it.record.record_id!r} is in the code of workflow {it.content.declared.workflow!r}",
            why="the next worker that starts would declare it again",
            fix=f"stepwell schedule pause {it.record.record_id}, or remove it from the code",
        )
    return Draft(state=ScheduleState.DELETED, lines=(NewLine("deleted", by),))


def _resumed(it: Document[ScheduleBody], body: ScheduleBody, now: Instant, line: NewLine) -> Draft[ScheduleBody]:
    fresh = _begun(msgspec.structs.replace(body, by="", reason="", problem=None), now)
    return draft(fresh, ScheduleState.ACTIVE, line)


# --- parts of a draft ---


def draft(
    body: ScheduleBody, state: ScheduleState, *lines: NewLine, starts: tuple[NewRun, ...] = ()
) -> Draft[ScheduleBody]:
    """A schedule as it is to be."""
    if state is ScheduleState.ACTIVE and _is_over(body):
        state = ScheduleState.ENDED
    return Draft(
        state=state,
        body=body,
        lines=lines,
        labels=_labels(body),
        due_at=_due_of(body, state),
        starts=starts,
    )


def _due_of(body: ScheduleBody, state: ScheduleState) -> Instant | None:
    """When a service looks at it next."""
    times: list[int] = []
    if body.cancels:
        times.append(body.cursor)
    if state is ScheduleState.ACTIVE:
        if body.look_at is not None:
            times.append(body.look_at)
        if body.next_at is not None and not body.is_blocked:
            times.append(body.next_at + delay_of(body, Instant(body.next_at)))
    return Instant(max(0, min(times))) if times else None


def delay_of(body: ScheduleBody, tick: Instant) -> Span:
    """By how much the start of a tick is delayed: less than up to the next tick, so that ticks stay in their order."""
    jitter = body.spec.jitter
    if jitter <= 0:
        return Span(0)
    following = after(body.spec.rule, tick)
    return jitter_of(body.name, tick, jitter if following is None else min(jitter, following - tick))


def _is_over(body: ScheduleBody) -> bool:
    return body.next_at is None and body.held is None and not body.cancels and body.problem is None


def _state_of(body: ScheduleBody, state: ScheduleState) -> ScheduleState:
    return ScheduleState.ACTIVE if state is ScheduleState.ENDED and body.next_at is not None else state


def _begun(body: ScheduleBody, now: Instant) -> ScheduleBody:
    """From now on: no tick before it is due."""
    return msgspec.structs.replace(
        body, cursor=now, next_at=after(body.spec.rule, now), is_blocked=False, look_at=None, looks=0, held=None
    )


def _respecified(body: ScheduleBody, spec: Spec, now: Instant) -> ScheduleBody:
    """With another specification. Another rule begins now; anything else leaves the due ticks as they are."""
    if spec.rule == body.spec.rule:
        body = msgspec.structs.replace(body, spec=spec)
        return body if spec.overlap is Overlap.BUFFER_ONE else _unheld(body, now, "its overlap was changed")
    body = msgspec.structs.replace(body, spec=spec)
    if body.next_at is not None and body.next_at <= now:
        body = with_outcomes(body, [Outcome(body.next_at, "missed", now, note="its times were changed")])
    return _begun(_unheld(body, now, "its times were changed"), now)


def _unblocked(body: ScheduleBody) -> ScheduleBody:
    """Whatever was wrong with it, a person or a deploy has changed it: it is tried again."""
    look_at = body.look_at if body.held is not None else None
    return msgspec.structs.replace(body, problem=None, is_blocked=False, look_at=look_at)


def _unheld(body: ScheduleBody, now: Instant, why: str) -> ScheduleBody:
    if body.held is None:
        return body
    body = with_outcomes(body, [Outcome(body.held, "skipped", now, note=why)])
    return msgspec.structs.replace(body, held=None, looks=0, look_at=None)


def with_outcomes(body: ScheduleBody, outcomes: Iterable[Outcome]) -> ScheduleBody:
    """With further outcomes, in the order in which they came."""
    new = tuple(outcomes)
    if not new:
        return body
    found = (*reversed(new), *body.outcomes)
    return msgspec.structs.replace(body, log=_write_log(found[:OUTCOMES_MAX]).decode())


def workflow_label(workflow: str) -> str:
    """The label of the schedules of a workflow."""
    return f"workflow {workflow}"[:LABEL_MAX]


def _labels(body: ScheduleBody) -> tuple[str, ...]:
    found = [workflow_label(body.spec.workflow)]
    if body.declared is not None:
        found.append(CODE_LABEL)
    if body.problem is not None:
        found.append(PROBLEM_LABEL)
    return tuple(found)


def check_rule_ahead(spec: Spec, now: Instant) -> None:
    """Raise `InvalidOptionError` for a schedule that would never be due."""
    if after(spec.rule, now) is None:
        raise InvalidOptionError("this schedule is never due", why="its time has passed", fix="give a later time")
