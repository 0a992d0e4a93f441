"""Schedules: each due tick starts one run, whichever worker sees it first, and one broken schedule delays no other."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from stepwell import Context, SyncEngine, at, cron, every, workflow
from stepwell.clock import to_datetime
from stepwell.engine.records import RecordKind, Records
from stepwell.engine.schedule_records import ScheduleBody
from stepwell.engine.schedule_ticks import ACTIVE_MAX
from stepwell.errors import (
    AlreadyExistsError,
    DuplicateNameError,
    InvalidInputError,
    InvalidMoveError,
    InvalidOptionError,
    NotFoundError,
    UnknownWorkflowError,
)
from tests.cases.harness import Harness, Node


@dataclass(frozen=True)
class Report:
    day: date
    since: datetime


@workflow
async def report(ctx: Context, wanted: Report) -> str:
    assert ctx.schedule is not None
    assert ctx.schedule.previous_fire_time == wanted.since
    return f"{wanted.day} by {ctx.schedule.name} for {ctx.schedule.fire_time:%d %H:%M}"


@workflow
async def tidy(ctx: Context) -> str:
    return "tidy"


@workflow
async def slow(ctx: Context) -> str:
    await ctx.sleep("work", "12m")
    return "done"


@workflow(name="chain")
async def chain(ctx: Context, left: int = 2) -> str:
    await ctx.sleep("work", "3m")
    if left:
        await ctx.continue_as_new(left - 1)
    return "end"


INPUT = {"day": "{{fire_date}}", "since": "{{ previous_fire_time }}"}


@pytest_asyncio.fixture
async def harness(harness: Harness) -> Harness:
    """Every story begins with the first moment of 2026."""
    await harness.advance(at_(1) - to_datetime(harness.clock.now()))
    return harness


async def outcomes(node: Node, name: str) -> list[tuple[str, str]]:
    """The outcomes of a schedule, oldest first."""
    view = await node.do(node.engine.schedules.get(name))
    return [(f"{one.fire_time:%H:%M}", one.kind) for one in reversed(view.outcomes)]


async def keys(node: Node, where: str = "") -> list[str]:
    return sorted(str(run.key) for run in await node.do(node.engine.runs.list(where, limit=500)))


async def test_each_tick_starts_one_run_over_any_number_of_workers(harness: Harness):
    nodes = [await harness.worker(report, tidy) for _ in range(3)]
    client = await harness.client()
    schedules = client.engine.schedules
    await client.do(
        schedules.create("Nightly", workflow="report", cron="0 3 * * *", timezone="Asia/Tokyo", input=INPUT)
    )
    await nodes[0].do(nodes[0].engine.schedules.create("tidy up", workflow=tidy, every="6h"))

    await harness.advance("2d")

    assert await keys(client, "workflow:report") == ["nightly_20260101t180000z", "nightly_20260102t180000z"]
    assert len(await keys(client, "workflow:tidy")) == 8
    run = await client.do(client.engine.runs.get("nightly_20260102t180000z"))
    assert (run.output, run.started_by) == ("2026-01-03 by nightly for 02 18:00", "schedule nightly")
    assert run.input == {"day": "2026-01-03", "since": "2026-01-02T03:00:00+09:00"}
    assert await keys(client, "attr.stepwell.schedule:nightly") == await keys(client, "workflow:report")
    why = await client.do(client.engine.explain("nightly_20260102t180000z"))
    assert "Schedule nightly started it for 2026-01-02 18:00:00 UTC." in why.notes
    acts = await client.do(schedules.history("tidy up"))
    assert [act.verb for act in acts] == ["ticked", "created"]  # eight ticks are one line
    shown = await client.do(schedules.get("nightly"))
    assert [(one.kind, one.run_status) for one in shown.outcomes] == [("started", "completed")] * 2


async def test_nothing_is_asked_while_nothing_is_due(harness: Harness):
    worker = await harness.worker(tidy, sweep_every="1d")
    await worker.do(worker.engine.schedules.create("tidy", workflow=tidy, every="1h"))
    await harness.drain()
    asked = len(worker.wire.calls)
    await harness.advance("25m")
    since = worker.wire.calls[asked:]
    assert [call for call in since if call.startswith("records.")] == []


async def test_after_a_time_without_workers_the_catch_up_decides(harness: Harness):
    worker = await harness.worker(tidy)
    schedules = worker.engine.schedules
    rules: dict[str, Any] = {
        "latest": {},
        "all": {"catch_up": "all", "overlap": "allow"},
        "near": {"catch_up": "all", "overlap": "allow", "window": "2d"},
        "none": {"catch_up": "none"},
    }
    for name, options in rules.items():
        await worker.do(schedules.create(name, workflow=tidy, cron="0 6 * * *", **options))
    await worker.shutdown()
    harness.nodes.remove(worker)
    await harness.advance("7d")
    again = await harness.worker(tidy)
    await harness.drain()

    for name, expected in {"latest": 1, "all": 7, "near": 2, "none": 0}.items():
        assert len(await keys(again, f"attr.stepwell.schedule:{name}")) == expected, name
    [missed, started] = reversed((await again.do(again.engine.schedules.get("latest"))).outcomes)
    assert (missed.kind, f"{missed.fire_time:%d}", f"{missed.until:%d}", missed.note) == (
        "missed",
        "01",
        "06",
        "no worker started it in time",
    )
    assert (started.kind, f"{started.fire_time:%d}") == ("started", "07")


async def test_an_active_run_is_in_the_way_as_the_overlap_says(harness: Harness):
    worker = await harness.worker(slow)
    for overlap in ("skip", "allow", "cancel_running", "buffer_one"):
        await worker.do(worker.engine.schedules.create(overlap, workflow=slow, every="5m", overlap=overlap))
    await harness.advance("21m")

    assert await outcomes(worker, "skip") == [
        ("00:05", "started"),
        ("00:10", "skipped"),
        ("00:15", "skipped"),
        ("00:20", "started"),
    ]
    skipped = (await worker.do(worker.engine.schedules.get("skip"))).outcomes[1]
    assert skipped.run_id == (await worker.do(worker.engine.runs.get("skip_20260101t000500z"))).run_id
    assert [kind for _, kind in await outcomes(worker, "allow")] == ["started"] * 4
    cancelled = await worker.do(worker.engine.runs.get("cancel_running_20260101t001000z"))
    assert (cancelled.status, cancelled.reason) == ("cancelled", "replaced by the next run of schedule cancel_running")
    assert await keys(worker, "attr.stepwell.schedule:cancel_running status:waiting") == [
        "cancel_running_20260101t002000z"
    ]
    # The first run ends at 00:17; 00:15 is the latest tick that came meanwhile.
    assert await outcomes(worker, "buffer_one") == [("00:05", "started"), ("00:10", "skipped"), ("00:15", "started")]
    held = await worker.do(worker.engine.schedules.get("buffer_one"))
    assert f"{held.held:%H:%M}" == "00:20"
    begun = await worker.do(worker.engine.runs.get("buffer_one_20260101t001500z"))
    assert timedelta(0) <= begun.created_at - datetime(2026, 1, 1, 0, 17, tzinfo=UTC) <= timedelta(seconds=30)


async def test_a_run_that_continues_as_new_is_in_the_way_until_its_chain_ends(harness: Harness):
    worker = await harness.worker(chain)
    await worker.do(worker.engine.schedules.create("c", workflow=chain, every="5m"))
    await harness.advance("16m")
    assert [kind for _, kind in await outcomes(worker, "c")] == ["started", "skipped", "started"]
    last = (await worker.do(worker.engine.runs.find_many(["c_20260101t000500z"])))[0]
    assert (last.generation, last.attributes["stepwell.schedule"]) == (3, "c")


async def test_a_workflow_that_appears_again_gets_the_ticks_that_waited(harness: Harness):
    worker = await harness.worker(tidy)
    await worker.do(worker.engine.schedules.create("t", workflow=tidy, every="10m"))
    other = await harness.deploy(worker, slow)
    await harness.advance("25m")
    [stuck] = await other.do(other.engine.schedules.list(cannot_fire=True))
    assert (stuck.name, stuck.problem.code, await keys(other)) == ("t", "SW402", [])
    back = await harness.worker(tidy)
    await harness.advance("2m")
    assert await keys(back) == ["t_20260101t002000z"]
    assert (await back.do(back.engine.schedules.get("t"))).problem is None


async def test_code_declares_changes_and_pauses_schedules_and_people_win(harness: Harness):
    def of(*schedules: Any) -> Any:
        @workflow(name="nightly", schedule=list(schedules))
        async def nightly(ctx: Context) -> None:
            return None

        return nightly

    first = await harness.worker(of(cron("0 6 * * *", tz="Europe/Berlin"), every("1h", name="hourly")))
    schedules = first.engine.schedules
    assert {one.name: one.when for one in await first.do(schedules.list())} == {
        "nightly": "At 06:00 every day, Europe/Berlin",
        "hourly": "Every hour",
    }
    await first.do(schedules.update("hourly", jitter="30s", by="ann"))
    with pytest.raises(InvalidMoveError, match="in the code of workflow 'nightly'"):
        await first.do(schedules.delete("nightly"))

    second = await harness.deploy(first, of(every("2h", name="hourly")))
    schedules = second.engine.schedules
    hourly, nightly = [await second.do(schedules.get(name)) for name in ("hourly", "nightly")]
    assert (
        hourly.when,
        hourly.jitter_seconds,
        [(one.part, one.in_code, one.now, one.by) for one in hourly.differences],
    ) == (
        "Every 2 hours",
        30.0,
        [("jitter", 0.0, 30.0, "ann")],
    )
    assert (nightly.state, nightly.reason) == ("paused", "the code of nightly does not have it any more")
    assert await second.do(schedules.use_code("hourly"))
    assert not await second.do(schedules.use_code("hourly"))
    assert (await second.do(schedules.get("hourly"))).differences == ()
    await second.do(schedules.pause("hourly", by="ann", reason="a look"))

    third = await harness.deploy(second, of(every("3h", name="hourly"), cron("0 7 * * *")))
    schedules = third.engine.schedules
    hourly, nightly = [await third.do(schedules.get(name)) for name in ("hourly", "nightly")]
    assert (hourly.state, hourly.when, hourly.reason) == ("paused", "Every 3 hours", "a look")
    assert (nightly.state, nightly.when) == ("active", "At 07:00 every day, UTC")
    asked = len(third.wire.calls)
    again = await harness.deploy(third, of(every("3h", name="hourly"), cron("0 7 * * *")))
    assert asked
    assert again.wire.calls.count("records.change") == 0  # nothing has changed


async def test_verbs_of_people(harness: Harness):
    worker = await harness.worker(report, tidy, slow)
    schedules = worker.engine.schedules
    await worker.do(schedules.create("s", workflow=report, cron="0 6 * * *", input=INPUT, is_paused=True, by="ann"))
    assert await outcomes(worker, "S") == []
    await harness.advance("2d")
    assert await keys(worker) == []
    assert [one.fate for one in await worker.do(schedules.preview("s", at_(1), at_(5)))] == [
        "did not start",
        "did not start",
        "will not start",
        "will not start",
    ]
    assert await worker.do(schedules.resume("s"))
    assert not await worker.do(schedules.resume("s"))
    begun = await worker.do(schedules.trigger("s", by="bo"))
    assert begun.key == "s_20260103t000000.000001z"
    await harness.advance("1d")
    shown = await worker.do(schedules.get("s"))
    assert [(one.kind, one.run_status) for one in shown.outcomes] == [
        ("started", "completed"),
        ("triggered", "completed"),
    ]
    assert (await worker.do(worker.engine.runs.get(begun.key))).started_by == "bo"

    planned = await worker.do(schedules.backfill("s", at_(1), at_(9), dry_run=True))
    assert (planned.new, planned.existing, len(planned.ticks)) == (2, 1, 3)
    assert len(await keys(worker)) == 2
    done = await worker.do(schedules.backfill("s", at_(1), at_(9), by="bo"))
    again = await worker.do(schedules.backfill("s", at_(1), at_(9)))
    await harness.drain()
    assert ((done.new, done.existing), (again.new, again.existing)) == ((2, 1), (0, 3))
    assert await keys(worker, "status:completed") == [
        "s_20260101t060000z",
        "s_20260102t060000z",
        "s_20260103t000000.000001z",
        "s_20260103t060000z",
    ]
    [fate] = [one for one in await worker.do(schedules.preview("s", at_(3), at_(4)))]
    assert (fate.fate, fate.run_status) == ("started", "completed")
    [tick] = await worker.do(schedules.next("s", 1))
    assert tick.local_time == "2026-01-04T06:00:00+00:00"
    assert len(await worker.do(schedules.next_of(3, every="1m"))) == 3
    assert await worker.do(schedules.delete("s"))
    with pytest.raises(NotFoundError):
        await worker.do(schedules.get("s"))
    await worker.do(schedules.create("s", workflow=tidy, every="1d"))
    await harness.advance("1d")
    assert (await keys(worker, "workflow:tidy")) == ["s_20260105t000000z"]


def at_(day: int) -> datetime:
    return datetime(2026, 1, day, tzinfo=UTC)


async def test_a_trigger_meets_an_active_run_as_the_overlap_says(harness: Harness):
    worker = await harness.worker(slow)
    schedules = worker.engine.schedules
    await worker.do(schedules.create("s", workflow=slow, every="1d"))
    first = await worker.do(schedules.trigger("s"))
    await harness.advance("1m")
    refused = await worker.do(schedules.trigger("s"))
    assert (refused.run_id, refused.in_the_way) == (None, first.run_id)
    both = await worker.do(schedules.trigger("s", overlap="allow"))
    await harness.advance("1m")
    only = await worker.do(schedules.trigger("s", overlap="cancel_running"))
    await harness.advance("1m")
    runs = {run.run_id: run.status for run in await worker.do(worker.engine.runs.list())}
    assert runs == {first.run_id: "cancelled", both.run_id: "cancelled", only.run_id: "waiting"}


async def test_what_cannot_be_is_refused_before_anything_is_stored(harness: Harness):
    worker = await harness.worker(report, tidy)
    make = worker.engine.schedules.create
    bad: list[tuple[type[Exception], Any]] = [
        (InvalidOptionError, lambda: make("x", workflow=tidy)),
        (InvalidOptionError, lambda: make("x", workflow=tidy, cron="0 0 30 2 *")),
        (InvalidOptionError, lambda: make("x", workflow=tidy, cron="0 0 * * *", timezone="Nowhere/There")),
        (InvalidOptionError, lambda: make("x", workflow=tidy, cron="0 0 * * *", every="5m")),
        (InvalidOptionError, lambda: make("x", workflow=tidy, every="5m", timezone="Europe/Berlin")),
        (InvalidOptionError, lambda: make("x", workflow=tidy, at="2020-01-01T00:00:00Z")),
        (InvalidOptionError, lambda: make("x", workflow=tidy, at="2026-10-25T02:30", timezone="Europe/Berlin")),
        (InvalidOptionError, lambda: make("x", workflow=tidy, every="5m", overlap="skp")),
        (InvalidOptionError, lambda: make("x", workflow=tidy, every="5m", catch_up="last")),
        (InvalidOptionError, lambda: make("x" * 200, workflow=tidy, every="5m")),
        (InvalidOptionError, lambda: make("-x", workflow=tidy, every="5m")),
        (InvalidOptionError, lambda: make(" ", workflow=tidy, every="5m")),
        (InvalidOptionError, lambda: make("x", workflow=report, every="5m", input={"day": "{{fire_day}}"})),
        (InvalidInputError, lambda: make("x", workflow=report, every="5m", input={"day": "someday"})),
        (InvalidInputError, lambda: make("x", workflow=report, every="5m")),
        (InvalidInputError, lambda: make("x", workflow=tidy, every="5m", input=1)),
        (UnknownWorkflowError, lambda: make("x", workflow="tydi", every="5m")),
        (NotFoundError, lambda: worker.engine.schedules.pause("x")),
    ]
    for error, ask in bad:
        with pytest.raises(error):
            await worker.do(ask())
    assert await worker.do(worker.engine.schedules.list()) == []
    await worker.do(make("x", workflow=tidy, every="5m"))
    further: list[tuple[type[Exception], Any]] = [
        (AlreadyExistsError, lambda: make("X", workflow=tidy, every="5m")),
        (InvalidInputError, lambda: worker.engine.schedules.update("x", workflow=report)),
        (InvalidOptionError, lambda: worker.engine.schedules.update("x", timezone="Europe/Berlin")),
        (InvalidOptionError, lambda: worker.engine.schedules.backfill("x", at_(2), at_(1))),
        (InvalidOptionError, lambda: worker.engine.schedules.preview("x", at_(1), at_(9))),
    ]
    for error, ask in further:
        with pytest.raises(error):
            await worker.do(ask())
    assert not await worker.do(worker.engine.schedules.update("x", every="5m"))


async def test_two_schedules_of_the_code_need_two_names(harness: Harness):
    @workflow(name="other", schedule=every("5m", name="Tidy"))
    async def other(ctx: Context) -> None:
        return None

    @workflow(name="tidy", schedule=every("5m"))
    async def mine(ctx: Context) -> None:
        return None

    with pytest.raises(DuplicateNameError, match="tidy"):
        await harness.worker(other, mine)
    with pytest.raises(InvalidOptionError, match="two schedules called"):
        workflow(schedule=[every("5m"), cron("0 6 * * *")])(other.fn)
    with pytest.raises(InvalidOptionError, match="not a schedule"):
        workflow(schedule="0 6 * * *")(other.fn)  # type: ignore[arg-type]


async def test_a_worker_that_dies_between_two_acts_leaves_them_to_the_next(harness: Harness):
    first = await harness.worker(slow)
    await first.do(first.engine.schedules.create("s", workflow=slow, every="5m", overlap="cancel_running"))
    await harness.advance("6m")
    died: list[str] = []

    async def die(call: str) -> None:
        if call == "runs.cancel" and not died:
            died.append(call)
            first.crash()

    first.wire.before = die
    await harness.advance("5m")
    assert died
    second = await harness.worker(slow)
    await harness.advance("1m")
    assert (await second.do(second.engine.runs.get("s_20260101t000500z"))).status == "cancelled"


async def test_runs_of_one_schedule_are_remembered_in_a_bounded_number(harness: Harness):
    worker = await harness.worker(slow)
    await worker.do(worker.engine.schedules.create("s", workflow=slow, every="1s", overlap="allow"))
    await harness.advance("3m")
    [record] = await worker.do(Records(worker.engine._backend, RecordKind.SCHEDULE, ScheduleBody).list())
    assert len(record.body.active) == ACTIVE_MAX


def test_the_synchronous_engine_and_what_a_schedule_of_the_code_tells() -> None:
    daily = cron("0 6 * * *", tz="Europe/Berlin", jitter="5m")
    assert [f"{one:%d %H:%M %z}" for one in daily.next(2, after=at_(1))] == ["01 06:00 +0100", "02 06:00 +0100"]
    assert at("2026-12-31T08:00:00Z").next(5, after=at_(1)) == [datetime(2026, 12, 31, 8, tzinfo=UTC)]
    with SyncEngine("memory://", workflows=[tidy]) as engine:
        made = engine.schedules.create("t", workflow=tidy, every="1h", jitter="10s")
        assert (made.when, made.state, made.jitter_seconds) == ("Every hour", "active", 10.0)
        assert engine.start(tidy).result() == "tidy"
        assert engine.schedules.trigger("t").run_id is not None
        assert [one.name for one in engine.schedules.list(workflow="tidy")] == ["t"]
