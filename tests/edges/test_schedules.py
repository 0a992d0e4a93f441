"""`stepwell schedule`, and what doctor says of schedules."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from stepwell import Engine
from stepwell.clock import SECOND, Instant
from stepwell.engine.records import Draft, NewLine, RecordKind, Records
from stepwell.engine.schedule_records import Problem, ScheduleBody
from stepwell.model.states import ScheduleState
from tests.edges.conftest import APP, Cli, Shop


def test_a_schedule_from_its_creation_to_its_end(cli: Cli, db: Shop) -> None:
    ask = ("--db", db.url, "--app", APP)
    made = cli(
        *("schedule", "new", "Nightly", "checkout", "customer={{fire_date}}", "amount:=2"),
        *("--cron", "0 6 * * 1-5", "--tz", "Europe/Berlin", "--by", "ann", *ask),
    )
    assert made.out.startswith("Schedule nightly: At 06:00 on Monday through Friday, Europe/Berlin; next "), made.err
    taken = cli("schedule", "new", "nightly", "checkout", "--every", "5m", "customer=a", "amount:=1", *ask)
    assert (taken.code, "there is a schedule 'nightly'" in taken.err) == (5, True)

    dry = cli("schedule", "backfill", "nightly", "--from", "2026-01-05", "--to", "2026-01-11", "--dry-run", *ask)
    assert dry.out.splitlines()[-1] == "nightly: would start 5 of 5 ticks"
    assert dry.out.splitlines()[0].startswith("  Mon 2026-01-05 06:00:00 +01:00  start  ")
    done = cli("schedule", "backfill", "nightly", "--from", "2026-01-05", "--to", "2026-01-05", "--by", "ann", *ask)
    assert done.out.splitlines()[-1] == "nightly: started 1 of 1 ticks"
    [run] = cli("ls", "-q", "attr.stepwell.schedule:nightly", "-o", "json", *ask).json["runs"]
    assert (run["key"], run["input"], run["started_by"]) == (
        "nightly_20260105t050000z",
        {"customer": "2026-01-05", "amount": 2},
        "ann",
    )
    assert "Schedule nightly started it for 2026-01-05 05:00:00 UTC." in cli("why", run["key"], *ask).out
    shown = cli("schedule", "preview", "nightly", "--from", "2026-01-05", "--to", "2026-01-06", *ask).out
    assert [line.split("\t")[1] for line in shown.splitlines()] == ["FATE", "started", "did not start"]

    assert cli("schedule", "trigger", "nightly", *ask).out.startswith("Started: nightly_20")
    refused = cli("schedule", "trigger", "nightly", *ask)
    assert refused.out.startswith("nothing was started: a run is active: ")
    assert cli("schedule", "update", "nightly", "--jitter", "30s", *ask).out == "Schedule nightly is changed\n"
    assert cli("schedule", "update", "nightly", *ask).code == 2
    assert cli("schedule", "pause", "nightly", "--reason", "a look", "--by", "ann", *ask).out == (
        "Schedule nightly is paused\n"
    )
    [line] = cli("schedule", "ls", "--state", "paused", *ask).out.splitlines()[1:]
    assert line.split("\t")[0:3] == ["nightly", "paused", "checkout"]
    assert line.endswith("by ann: a look")
    words = cli("schedule", "show", "nightly", *ask).out
    assert "rules     overlap skip, catch-up latest" in words
    assert "jitter    30.00 s" in words
    assert "paused by ann: a look" in words
    assert "triggered (pending)" in words
    following = cli("schedule", "next", "nightly", "-n", "3", *ask).out.splitlines()
    assert len(following) == 4
    assert "06:00:00 +0" in following[1]
    free = cli("schedule", "next", "--cron", "30 2 * * *", "--tz", "Europe/Berlin", "-n", "1", "-o", "json", *ask)
    assert len(free.json["ticks"]) == 1
    assert cli("schedule", "next", *ask).code == 2
    assert cli("schedule", "use-code", "nightly", *ask).code == 5
    assert cli("schedule", "resume", "nightly", *ask).out == "Schedule nightly is resumed\n"
    assert cli("schedule", "rm", "nightly", *ask).out == "Schedule nightly is deleted\n"
    gone = cli("schedule", "show", "nightly", *ask)
    assert gone.code == 4
    bad = cli("schedule", "new", "x", "checkout", "customer=a", "amount:=1", "--cron", "0 0 30 2 *", *ask)
    assert (bad.code, "is never due" in bad.err) == (2, True)


def test_doctor_names_schedules_that_cannot_fire_or_are_late(cli: Cli, db: Shop) -> None:
    ask = ("--db", db.url, "--app", APP)
    for name in ("stuck", "late"):
        cli("schedule", "new", name, "checkout", "customer=a", "amount:=1", "--every", "1h", *ask)

    async def break_things() -> None:
        async with Engine(db.url) as engine:
            records, now = Records(engine._backend, RecordKind.SCHEDULE, ScheduleBody), engine.now()

            def stuck(it: Any) -> Draft[ScheduleBody]:
                body = msgspec.structs.replace(it.body, problem=Problem(now, "SW402", "there is no workflow 'gone'."))
                line, labels = (NewLine("failed"),), ("cannot fire", "workflow gone")
                return Draft(
                    state=ScheduleState.ACTIVE, body=body, lines=line, labels=labels, due_at=Instant(now + 10**9)
                )

            await records.change("stuck", stuck)
            at = Instant(now - 120 * SECOND)
            await records.change(
                "late",
                lambda it: Draft(state=ScheduleState.ACTIVE, lines=(NewLine("x"),), due_at=at),
            )

    asyncio.run(break_things())
    found: dict[str, Any] = {one["check"]: one for one in cli("doctor", "-o", "json", *ask).json["findings"]}
    assert (found["schedules"]["found"], found["schedules"]["fix"]) == (
        "1 schedule cannot start runs, such as stuck: there is no workflow 'gone'.",
        "stepwell schedule show stuck",
    )
    assert found["late schedules"]["found"].startswith(
        "1 schedule is due and was not looked at, such as late: due since "
    )
    assert [line.split("\t")[0] for line in cli("schedule", "ls", "--cannot-fire", *ask).out.splitlines()[1:]] == [
        "stuck"
    ]
