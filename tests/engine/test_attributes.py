"""Attributes, titles and who started a run: through the engine, its filters, its metrics and its files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Engine, SyncEngine, step, workflow
from stepwell.check import histories
from stepwell.check.exports import export_run
from stepwell.check.histories import Recording
from stepwell.check.imports import import_run
from stepwell.check.redactions import redact_recording
from stepwell.engine.starts import Start
from stepwell.environment import system_environment
from stepwell.errors import FilterError, HistoryFileError, InvalidOptionError
from stepwell.hooks import Metrics
from stepwell.model.attributes import Attribute
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.stores.sqlite.writer import Writer
from stepwell.telemetry.metrics import render
from stepwell.testing import SyncKit

DUE = datetime(2026, 12, 1, tzinfo=UTC)


@step
async def work() -> None:
    return None


@workflow
async def order(ctx: Context) -> str:
    ctx.set_title("An order")
    ctx.set_attributes(step=1)
    await ctx.step(work)
    ctx.set_attributes(step=2, paid=True)
    ctx.add_tags("vip")
    await ctx.step("again", work)
    ctx.set_attributes(step=3)
    return "done"


@workflow
async def idle(ctx: Context) -> None:
    await ctx.receive("go")


@asynccontextmanager
async def filled() -> AsyncIterator[Engine]:
    async with Engine("memory://", workflows=[idle]) as engine:
        starts = [
            Start(key="a", attributes={"region": "eu", "amount": 42, "due": DUE}),
            Start(key="b", attributes={"region": "us", "amount": Decimal("100.5")}, title="Two words"),
            Start(key="c", attributes={"amount": 2**70, "vip": True, "mixed": 1}),
            Start(key="d", attributes={"mixed": "one"}),
        ]
        await engine.runs.start_many(idle, starts, by="ann")
        await engine.start(idle, key="e")
        yield engine


async def found(engine: Engine, where: str) -> str:
    return "".join(run.key or "?" for run in await engine.runs.list(where))


async def test_what_code_says_costs_no_commit_of_its_own(tmp_path: Path) -> None:
    environment, database = system_environment(), SqliteDatabase(str(tmp_path / "costs.db"))
    store = SqliteStore(environment, tmp_path / "costs.db", runner=Writer(database))
    async with Engine(store, workflows=[order], environment=environment) as engine:
        before = database.commits
        run = await engine.start(order, attributes={"region": "eu"}, title="New", by="ann")
        assert await run.result("60s") == "done"

        # As without them: the start, the first step before the second one, and the end.
        assert database.commits - before == 3
        view = await run.status()
    assert (view.title, view.started_by, view.tags) == ("An order", "ann", {"vip": ""})
    assert view.attributes == {"paid": True, "region": "eu", "step": 3}


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("attr.region:eu", "a"),
        ("attr.amount:>100", "cb"),
        ("attr.amount:100.50", "b"),
        (f"attr.amount:{2**70}", "c"),
        (f"attr.amount:>{2**70}", ""),
        ("attr.due:<2026-12-02", "a"),
        ("attr.due:<now-1h", ""),
        ("attr.vip:true", "c"),
        ("attr.mixed:1,one", "dc"),
        ("attr.mixed:>0", "c"),
        ("-attr.amount:* key:*", "ed"),
        ("sort:-attr.amount", "cba"),
        ("sort:attr.region attr.amount:>50", "b"),
        ('title:"two w"', "b"),
        ("started_by:ann -attr.region:*", "dc"),
        ("started_by:bo", ""),
        ("attr.never:>5", ""),
        ("words", "b"),
    ],
)
async def test_runs_are_found_and_sorted_by_what_was_said_of_them(where: str, keys: str) -> None:
    async with filled() as engine:
        assert await found(engine, where) == keys


@pytest.mark.parametrize(
    ("where", "title", "fix"),
    [
        ("attr.region:>100", "attribute 'region' is text, and 100 is a number", 'write attr.region:>"100"'),
        ('attr.amount:"100"', "attribute 'amount' is a number, and 100 is text", "write attr.amount:100"),
        ("attr.amount:<2026-12-01", "is a number, and 2026-12-01T00:00:00Z is a time", "write attr.amount:<100"),
        ("-attr.amount:4*", "attribute 'amount' is a number, and 4* is text", "write attr.amount:100"),
        ("attr.due:tomorrow", "attribute 'due' is a time, and tomorrow is text", "write attr.due:<2026-01-31"),
        ("attr.vip:1", "attribute 'vip' is a boolean, and 1 is a number", "write attr.vip:true"),
        ("attr.mixed:>2026-12-01", "attribute 'mixed' is a number or text, and", "write attr.mixed:>100"),
    ],
)
async def test_a_comparison_that_no_run_can_meet_says_which_type_the_attribute_has(
    where: str, title: str, fix: str
) -> None:
    async with filled() as engine:
        for ask in (engine.runs.list(where), engine.bulks.match(where), engine.bulks.start("cancel", where)):
            with pytest.raises(FilterError) as caught:
                await ask
            assert (caught.value.code, title in caught.value.title, caught.value.fix) == ("SW407", True, fix)


@pytest.mark.parametrize(
    "options",
    [
        {"attributes": {"a b": 1}},
        {"attributes": {"n": float("inf")}},
        {"attributes": {f"a{number}": number for number in range(33)}},
        {"title": "a\nb"},
        {"by": "a\nb"},
    ],
)
async def test_what_cannot_be_stored_starts_nothing(options: dict[str, object]) -> None:
    async with Engine("memory://", workflows=[idle]) as engine:
        with pytest.raises(InvalidOptionError):
            await engine.start(idle, **options)  # type: ignore[call-overload]
        assert await engine.runs.list() == []


async def test_attributes_and_tags_are_labels_of_metrics_on_request(tmp_path: Path) -> None:
    metrics = Metrics(labels=["attr.region", "tag.vip"])
    async with Engine(f"sqlite:///{tmp_path}/m.db", workflows=[order], hooks=[metrics]) as engine:
        for number in range(60):
            await (await engine.start(order, attributes={"region": f"r{number}"}, tags={"vip"})).result("60s")
        await (await engine.start(order)).result("60s")
        text = render(metrics.read())

    lines = [line for line in text.splitlines() if line.startswith("stepwell_runs_ended_total{")]
    assert 'stepwell_runs_ended_total{workflow="order",attr_region="r7",tag_vip="true",status="completed"} 1' in lines
    assert (
        'stepwell_runs_ended_total{workflow="order",attr_region="other",tag_vip="true",status="completed"} 10' in lines
    )
    assert 'stepwell_runs_ended_total{workflow="order",attr_region="",tag_vip="",status="completed"} 1' in lines
    assert len(lines) == 52
    for wrong in (["region"], ["attr.a b"], ["tag."], ["attr.a", "attr.a"], [f"attr.a{n}" for n in range(6)]):
        with pytest.raises(InvalidOptionError, match="label"):
            Metrics(labels=wrong)


async def test_a_file_of_a_run_has_what_was_said_of_it_and_a_redacted_one_no_texts(tmp_path: Path) -> None:
    async with Engine("memory://", workflows=[order], worker=False) as engine, Engine("memory://") as other:
        run = await engine.start(order, attributes={"customer": "Ann", "amount": 42}, title="For Ann", by="ann")
        recording = await export_run(engine._backend.store, run.run_id)
        histories.write(recording, tmp_path / "run.json")
        assert await import_run(other._backend.store, histories.read(tmp_path / "run.json"))
        copy = await other.runs.get(run.run_id)
        redacted = redact_recording(recording).run

    assert (copy.title, copy.started_by, copy.attributes) == ("For Ann", "ann", {"amount": 42, "customer": "Ann"})
    assert "nn" not in repr((redacted.title, redacted.started_by, redacted.attributes))
    assert [one.name for one in redacted.attributes] == ["amount", "customer"]
    assert redacted.attributes[0] == recording.run.attributes[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"attributes": (Attribute("a", "x7"),)},
        {"attributes": (Attribute("a b", "t"),)},
        {"attributes": (Attribute("a", "n9"),)},
        {"attributes": (Attribute("a", "w7"),)},
        {"attributes": (Attribute("a", "n210001", "abc"),)},
        {"attributes": (Attribute("b", "t"), Attribute("a", "t"))},
        {"attributes": tuple(Attribute(f"a{number:02}", "t") for number in range(33))},
        {"title": "two\nlines"},
        {"started_by": ""},
    ],
)
async def test_a_file_with_attributes_that_no_run_can_have_is_refused(changes: dict[str, Any]) -> None:
    async with Engine("memory://", workflows=[idle], worker=False) as engine, Engine("memory://") as other:
        run = await engine.start(idle)
        recording: Recording = await export_run(engine._backend.store, run.run_id)
        with pytest.raises(HistoryFileError):
            await import_run(other._backend.store, recording._replace(run=recording.run._replace(**changes)))
        assert await other.runs.list() == []


def test_code_without_async_and_the_test_kit_have_the_same_options(stepwell: SyncKit) -> None:
    with SyncEngine("memory://", workflows=[order]) as engine:
        run = engine.start(order, attributes={"region": "eu"}, title="New", by="ann")
        assert run.result("60s") == "done"
        assert [one.started_by for one in engine.runs.list("attr.region:eu title:order")] == ["ann"]

    driven = stepwell.run(order, attributes={"region": "eu"}, by="ann")
    driven.assert_attributes(region="eu", step=3, lost=None).assert_title("An order").assert_path("work", "again")
    with pytest.raises(AssertionError, match="region is 'eu', not 'us'"):
        driven.assert_attributes(region="us")
    with pytest.raises(AssertionError, match="the run has another title"):
        driven.assert_title(None)
