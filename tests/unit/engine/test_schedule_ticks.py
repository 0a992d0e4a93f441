"""What becomes of due ticks: catch-up, windows, overlaps, jitter, held ticks and failures, as tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from stepwell.clock import SECOND, Instant, to_instant
from stepwell.engine.records import Document
from stepwell.engine.schedule_records import (
    Edit,
    Outcome,
    ScheduleBody,
    as_in_code,
    created,
    declared,
    delay_of,
    deleted,
    differing,
    paused,
    removed,
    resumed,
    updated,
)
from stepwell.engine.schedule_ticks import blocked, due_ticks, ticked, triggered
from stepwell.errors import AlreadyExistsError, InvalidInputError, InvalidMoveError, UnknownWorkflowError
from stepwell.ids import RunId
from stepwell.model.records import Record
from stepwell.model.runs import NewRun
from stepwell.model.schedules import CatchUp, Overlap, Spec
from stepwell.model.states import ScheduleState
from stepwell.model.ticks import at_rule, cron_rule, every_rule

MINUTE = 60 * SECOND
START = to_instant(datetime(2026, 11, 19, tzinfo=UTC))


def at(minutes: float) -> Instant:
    """So many minutes after the beginning."""
    return Instant(START + round(minutes * MINUTE))


def body(cursor: float = 0, next_at: float | None = 5, *, every: str = "5m", **parts: Any) -> ScheduleBody:
    """A schedule that was looked at last at this minute."""
    options = {name: parts.pop(name) for name in ("overlap", "catch_up", "window", "jitter") if name in parts}
    spec = Spec(every_rule(every), "report", **options)
    return ScheduleBody("nightly", spec, at(cursor), None if next_at is None else at(next_at), **parts)


def document(content: ScheduleBody, state: ScheduleState = ScheduleState.ACTIVE) -> Document[ScheduleBody]:
    record = Record(
        1,
        "schedule",
        "nightly",
        3,
        state,
        (),
        None,
        state is not ScheduleState.DELETED,
        None,
        None,
        None,
        b"",
        START,
        START,
    )
    return Document(record, content)


def make(tick: Instant, previous: Instant | None) -> NewRun:
    return NewRun(RunId(f"run {(tick - START) // MINUTE}"), "report", 1, b"")


def fits(tick: Instant, previous: Instant | None) -> NewRun:
    raise InvalidInputError("the input does not fit", ["`day`: expected a date"])


def minutes(ticks: Any) -> list[float]:
    return [(tick - START) / MINUTE for tick in ticks]


@pytest.mark.parametrize(
    ("parts", "now", "starts", "missed", "cursor"),
    [
        ({}, 4.9, [], None, None),
        ({}, 5, [5], None, 5),
        ({}, 9.9, [5], None, 5),
        ({}, 27, [25], (5, 20), 25),
        ({"catch_up": CatchUp.ALL}, 27, [5, 10, 15, 20, 25], None, 25),
        ({"catch_up": CatchUp.ALL, "window": 12 * MINUTE}, 27, [15, 20, 25], (5, 10), 25),
        ({"catch_up": CatchUp.ALL, "window": 1 * MINUTE}, 27, [], (5, 25), 25),
        ({"catch_up": CatchUp.NONE}, 5.5, [5], None, 5),
        ({"catch_up": CatchUp.NONE}, 27, [], (5, 25), 25),
        ({"catch_up": CatchUp.NONE}, 25.5, [25], (5, 20), 25),
        ({"catch_up": CatchUp.NONE, "window": 10 * MINUTE}, 27, [], (5, 25), 25),
        ({"window": 2 * MINUTE}, 27, [25], (5, 20), 25),
        ({"window": 1 * MINUTE}, 27, [], (5, 25), 25),
        ({}, 60 * 24 * 365, [60 * 24 * 365], (5, 60 * 24 * 365 - 5), 60 * 24 * 365),
    ],
)
def test_catch_up_says_which_due_ticks_start_runs(
    parts: Any, now: float, starts: list[float], missed: tuple[float, float] | None, cursor: float | None
) -> None:
    found = due_ticks(body(**parts), at(now))
    assert minutes(found.starts) == starts
    assert (None if found.missed is None else tuple(minutes(found.missed))) == missed
    assert found.cursor == (None if cursor is None else at(cursor))
    if cursor is not None:
        assert found.next_at == at(cursor + 5)


def test_many_missed_ticks_are_started_in_parts() -> None:
    content = body(catch_up=CatchUp.ALL, overlap=Overlap.ALLOW)
    first = ticked(document(content), at(5 * 250), (), make)
    assert first.body is not None
    assert (len(first.starts), minutes([first.body.next_at])) == (100, [505])
    assert first.due_at == at(505)  # at once
    second = ticked(document(first.body), at(5 * 250), (), make)
    assert second.body is not None
    third = ticked(document(second.body), at(5 * 250), (), make)
    assert [len(one.starts) for one in (second, third)] == [100, 50]


@pytest.mark.parametrize(
    ("overlap", "running", "kinds", "runs", "cancels", "held"),
    [
        (Overlap.SKIP, (), ["started"], ["run 5"], (), None),
        (Overlap.SKIP, ("old",), ["skipped"], [], (), None),
        (Overlap.ALLOW, ("old",), ["started"], ["run 5"], (), None),
        (Overlap.CANCEL_RUNNING, ("old",), ["started"], ["run 5"], ("old",), None),
        (Overlap.BUFFER_ONE, (), ["started"], ["run 5"], (), None),
        (Overlap.BUFFER_ONE, ("old",), [], [], (), 5),
    ],
)
def test_overlap_says_what_a_tick_does_while_a_run_is_active(
    overlap: Overlap, running: tuple[str, ...], kinds: Any, runs: Any, cancels: Any, held: float | None
) -> None:
    after = ticked(document(body(overlap=overlap)), at(6), running, make)
    assert after.body is not None
    assert [one.kind for one in after.body.outcomes] == kinds
    assert [one.run_id for one in after.starts] == runs
    assert after.body.cancels == cancels
    assert after.body.held == (None if held is None else at(held))
    if overlap is Overlap.SKIP and running:
        assert after.body.outcomes[0].run_id == "old"
    if cancels:
        assert after.due_at is not None
        assert after.due_at <= at(6)


def test_a_held_tick_gives_way_to_a_later_one_and_starts_when_the_run_has_ended() -> None:
    one = ticked(document(body(overlap=Overlap.BUFFER_ONE)), at(5), ("old",), make)
    assert one.body is not None
    assert one.due_at == Instant(at(5) + SECOND // 2)  # it is looked again soon
    two = ticked(document(one.body), at(10), ("old",), make)
    assert two.body is not None
    assert (minutes([two.body.held]), [(o.kind, o.note) for o in two.body.outcomes]) == (
        [10],
        [("skipped", "a later tick took its place")],
    )
    looks = two.body
    for _ in range(12):
        again = ticked(document(looks), at(11), ("old",), make)
        assert again.body is not None
        looks = again.body
    assert looks.look_at == at(11.5)  # not more often than every 30 seconds
    three = ticked(document(looks), at(12), (), make)
    assert three.body is not None
    assert ([run.run_id for run in three.starts], three.body.held, three.due_at) == (["run 10"], None, at(15))


def test_of_several_ticks_with_cancel_running_only_the_last_starts() -> None:
    content = body(overlap=Overlap.CANCEL_RUNNING, catch_up=CatchUp.ALL)
    after = ticked(document(content), at(16), ("old",), make)
    assert after.body is not None
    assert [(one.kind, (one.tick - START) / MINUTE) for one in after.body.outcomes] == [
        ("started", 15),
        ("skipped", 10),
        ("skipped", 5),
    ]
    assert after.body.cancels == ("old",)


def test_a_delay_is_the_same_everywhere_and_shorter_than_the_way_to_the_next_tick() -> None:
    content = body(jitter=3_600 * SECOND)
    delays = {delay_of(content, at(5 * n)) for n in range(1, 200)}
    assert len(delays) > 190
    assert max(delays) < 5 * MINUTE
    tick = Instant(at(5) + delay_of(content, at(5)))
    assert due_ticks(content, Instant(tick - 1)).cursor is None
    assert minutes(due_ticks(content, tick).starts) == [5]


def test_an_input_that_does_not_fit_is_the_schedules_own_error() -> None:
    after = ticked(document(body()), at(6), (), fits)
    assert after.body is not None
    assert after.body.problem is not None
    assert (after.body.problem.code, after.body.problem.message) == (
        "SW310",
        "the input does not fit: `day`: expected a date",
    )
    assert [(one.kind, one.note) for one in after.body.outcomes] == [
        ("failed", "the input does not fit: `day`: expected a date")
    ]
    assert (after.starts, after.due_at, after.labels) == ((), at(10), ("workflow report", "cannot fire"))
    mended = ticked(document(after.body), at(11), (), make)
    assert mended.body is not None
    assert mended.body.problem is None


def test_an_unknown_workflow_leaves_the_ticks_due_and_is_tried_again() -> None:
    error = UnknownWorkflowError("workflow", "report")
    after = blocked(document(body()), error, at(6), MINUTE)  # type: ignore[arg-type]
    assert after.body is not None
    assert (after.body.next_at, after.due_at) == (at(5), at(7))
    later = blocked(document(after.body), error, at(7), MINUTE)  # type: ignore[arg-type]
    assert later.body is not None
    assert later.body.problem is not None
    assert later.body.problem.since == at(6)
    known = ticked(document(later.body), at(8), (), make)
    assert known.body is not None
    assert ([run.run_id for run in known.starts], known.body.problem, known.body.is_blocked) == (["run 5"], None, False)


def test_an_edit_of_times_misses_what_was_due_and_another_edit_does_not() -> None:
    due = document(body())
    other = updated({"jitter": 0, "overlap": Overlap.ALLOW}, due, "ann", at(6))
    assert other is not None
    assert other.body is not None
    assert other.due_at == at(5)
    moved = updated({"when": cron_rule("0 * * * *")}, due, "ann", at(6))
    assert moved is not None
    assert moved.body is not None
    assert (moved.due_at, [(o.kind, o.note) for o in moved.body.outcomes]) == (
        at(60),
        [("missed", "its times were changed")],
    )
    assert updated({"overlap": Overlap.SKIP}, due, "ann", at(6)) is None


def test_pausing_drops_a_held_tick_and_resuming_begins_anew() -> None:
    held = body(overlap=Overlap.BUFFER_ONE, held=at(0), look_at=at(1))
    after = paused(document(held), "ann", "why", at(3))
    assert after is not None
    assert after.body is not None
    assert (after.state, after.due_at, after.body.held) == (ScheduleState.PAUSED, None, None)
    again = resumed(document(after.body, ScheduleState.PAUSED), "bo", at(23))
    assert again is not None
    assert again.due_at == at(25)


def test_a_schedule_that_is_due_once_ends() -> None:
    spec = Spec(at_rule("2026-11-19T00:05:00Z"), "report")
    made = created("once", spec, None, "ann", at(0), is_paused=False)
    assert made.body is not None
    after = ticked(document(made.body), at(6), (), make)
    assert (after.state, after.due_at, len(after.starts)) == (ScheduleState.ENDED, None, 1)
    assert after.body is not None
    moved = updated({"when": at_rule("2026-11-19T01:00:00Z")}, document(after.body, ScheduleState.ENDED), "", at(6))
    assert moved is not None
    assert (moved.state, moved.due_at) == (ScheduleState.ACTIVE, at(60))


def test_a_trigger_leaves_the_ticks_due() -> None:
    it = document(body(problem=None, last_fired=at(0)))
    after = triggered(it, Instant(at(5) + 1), (), make, Overlap.SKIP, "ann")
    assert after.body is not None
    assert (after.due_at, after.body.last_fired, after.body.outcomes[0].kind) == (at(5), at(0), "triggered")
    refused = triggered(it, Instant(at(5) + 1), ("old",), make, Overlap.BUFFER_ONE, "ann")
    assert refused.starts == ()
    assert refused.body is not None
    assert refused.body.held is None


def test_a_deploy_keeps_what_people_changed_and_pauses_what_is_gone() -> None:
    said = Spec(every_rule("5m"), "report")
    first = declared("nightly", said, 1, None, at(0))
    assert first is not None
    assert first.body is not None
    assert declared("nightly", said, 1, document(first.body), at(1)) is None
    changed = updated({"jitter": 30 * SECOND}, document(first.body), "ann", at(2))
    assert changed is not None
    assert changed.body is not None
    assert (differing(changed.body), changed.body.edits) == (["jitter"], {"jitter": Edit("ann", at(2))})
    deployed = declared(
        "nightly", msgspec.structs.replace(said, catch_up=CatchUp.ALL), 2, document(changed.body), at(3)
    )
    assert deployed is not None
    assert deployed.body is not None
    assert (deployed.body.spec.jitter, deployed.body.spec.catch_up) == (30 * SECOND, CatchUp.ALL)
    assert declared("nightly", said, 1, document(deployed.body), at(4)) is None  # an older worker
    as_said = as_in_code(document(deployed.body), "bo", at(4))
    assert as_said is not None
    assert as_said.body is not None
    assert differing(as_said.body) == []
    with pytest.raises(InvalidMoveError):
        deleted(document(deployed.body), "ann")
    gone = removed("report", document(deployed.body), at(5))
    assert gone is not None
    assert gone.body is not None
    assert (gone.state, gone.body.reason) == (ScheduleState.PAUSED, "the code of report does not have it any more")
    assert deleted(document(gone.body, ScheduleState.PAUSED), "ann") is not None
    back = declared("nightly", said, 3, document(gone.body, ScheduleState.PAUSED), at(23))
    assert back is not None
    assert back.body is not None
    assert (back.state, back.body.next_at) == (ScheduleState.ACTIVE, at(25))
    adopted = resumed(document(gone.body, ScheduleState.PAUSED), "ann", at(6))
    assert adopted is not None
    assert adopted.body is not None
    assert adopted.body.declared is None


def test_a_pause_by_a_person_stays_over_a_deploy() -> None:
    said = Spec(every_rule("5m"), "report")
    first = declared("nightly", said, 1, None, at(0))
    assert first is not None
    assert first.body is not None
    stopped = paused(document(first.body), "ann", "", at(1))
    assert stopped is not None
    assert stopped.body is not None
    it = document(stopped.body, ScheduleState.PAUSED)
    after = declared("nightly", msgspec.structs.replace(said, jitter=SECOND), 1, it, at(2))
    assert after is not None
    assert (after.state, after.due_at) == (ScheduleState.PAUSED, None)


def test_a_name_is_taken_while_it_is_open() -> None:
    spec = Spec(every_rule("5m"), "report")
    with pytest.raises(AlreadyExistsError):
        created("nightly", spec, document(body()), "ann", at(0), is_paused=False)
    again = created("nightly", spec, document(body(), ScheduleState.DELETED), "ann", at(12), is_paused=False)
    assert again.due_at == at(15)
    assert again.body is not None
    assert again.body.outcomes == ()


def test_only_the_last_twenty_outcomes_are_kept() -> None:
    content = body()
    for number in range(1, 31):
        after = ticked(document(content), at(5 * number), (), make)
        assert after.body is not None
        content = after.body
    assert len(content.outcomes) == 20
    assert content.outcomes[0] == Outcome(at(150), "started", at(150), "run 150")
