"""Alerts: a rule fires, everybody is told once, and once when it is over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepwell import App, Context, Engine, Retry, SyncEngine, step, workflow
from stepwell.care import Alert
from stepwell.errors import DuplicateNameError, Fatal, InvalidOptionError, NotFoundError
from stepwell.sinks import handler
from tests.cases.harness import Harness, Node

told: list[tuple[str, str]] = []
state = {"is_broken": True, "notifier": "up"}


def refuse() -> None:
    if state["is_broken"]:
        raise Fatal("card declined")


def undo_badly() -> None:
    raise Fatal("the stock API is down")


@workflow
async def order(ctx: Context, number: int) -> None:
    await ctx.step("charge", refuse)


@workflow
async def undone(ctx: Context) -> None:
    await ctx.step(step(dict, name="reserve", compensate=undo_badly))
    await ctx.step("charge", refuse)


@workflow
async def waits(ctx: Context) -> None:
    await ctx.receive("go")


@workflow
async def sleeps(ctx: Context) -> None:
    await ctx.sleep("long", "30d")


async def notify(event: Any) -> None:
    if state["notifier"] == "down":
        raise OSError("410 Gone")
    told.append((event.name.rpartition(".")[2], event.payload["alert"]))


async def everything(event: Any) -> None:
    told.append((event.name, "must not get alerts"))


@pytest.fixture(autouse=True)
def fresh() -> None:
    told.clear()
    state.update(is_broken=True, notifier="up")


SINKS = (
    handler(notify, "stepwell.alert.*", retry=Retry(max_attempts=3, initial="1s")),
    handler(everything, "*", name="all"),
)


async def watched(harness: Harness, *alerts: Alert, **options: Any) -> Node:
    return await harness.worker(order, undone, waits, sleeps, sinks=SINKS, alerts=alerts, **options)


async def states(node: Node) -> dict[str, str]:
    return {one.name: one.state for one in await node.do(node.engine.alerts.list())}


async def test_a_count_fires_once_and_is_over_once(harness: Harness):
    node = await watched(harness, Alert("orders fail", order, count=3, within="10m"))
    other = await watched(harness, Alert("orders fail", order, count=3, within="10m"))
    for number in range(2):
        await node.start(order, number)
    await harness.advance(120)
    assert (await states(node), told) == ({"orders fail": "ok", "rollback incomplete": "ok"}, [])

    for number in range(3):
        await other.start(order, number)
    await harness.advance(300)
    assert (await states(node))["orders fail"] == "firing"
    assert told == [("firing", "orders fail")]
    shown = await node.do(node.engine.alerts.get("orders fail"))
    assert (shown.value, len(shown.runs), shown.fired) == (5, 5, 1)
    [run] = await node.do(node.engine.runs.list("workflow:stepwell.alert"))
    assert run.status == "completed"

    await harness.advance(900)
    assert (await states(node))["orders fail"] == "ok"
    assert told == [("firing", "orders fail"), ("ok", "orders fail")]
    acts = [act.verb for act in await node.do(node.engine.alerts.history("orders fail"))]
    assert acts == ["ok", "firing", "created"]


async def test_failures_in_a_row_are_broken_by_a_completion(harness: Harness):
    node = await watched(harness, Alert("in a row", order, consecutive=2))
    for is_broken in (True, False, True):
        state["is_broken"] = is_broken
        await node.start(order, 1)
        await harness.advance(60)
    assert (await states(node))["in a row"] == "ok"

    await node.start(order, 1)
    await harness.advance(60)
    assert (await states(node))["in a row"] == "firing"
    state["is_broken"] = False
    await node.start(order, 1)
    await harness.advance(60)
    assert (await states(node))["in a row"] == "ok"
    assert told == [("firing", "in a row"), ("ok", "in a row")]


async def test_an_incomplete_rollback_is_watched_by_default(harness: Harness):
    node = await watched(harness)
    run = await node.start(undone)
    await harness.advance(60)

    shown = await node.do(node.engine.alerts.get("rollback incomplete"))
    assert (shown.state, shown.runs) == ("firing", (run.run_id,))
    assert told == [("firing", "rollback incomplete")]


async def test_a_run_that_nothing_will_wake_has_stalled_and_a_sleeper_has_not(harness: Harness):
    node = await watched(harness, Alert("still", stalled="1h"))
    run = await node.start(waits)
    await node.start(sleeps)
    paused = await node.start(waits)
    await node.do(node.engine.holds.pause(paused.run_id))
    await harness.advance(1_800)
    assert (await states(node))["still"] == "ok"
    await harness.advance(3_600)

    shown = await node.do(node.engine.alerts.get("still"))
    assert (shown.state, shown.runs) == ("firing", (run.run_id,))
    await node.signal(run.run_id, "go")
    await harness.advance(60)
    assert (await states(node))["still"] == "ok"


async def test_a_run_that_no_worker_claims_is_noticed(harness: Harness):
    node = await harness.worker(waits, sinks=SINKS, alerts=[Alert("late", oldest_ready="15m")])
    client = await harness.client()
    await client.start(order, 1)
    await harness.advance(600)
    assert (await states(node))["late"] == "ok"
    await harness.advance(600)
    assert (await states(node))["late"] == "firing"


async def test_people_acknowledge_and_mute(harness: Harness):
    node = await watched(harness, Alert("any", failed=True))
    alerts = node.engine.alerts
    assert not await node.do(alerts.acknowledge("any", by="ann"))
    await node.start(order, 1)
    await harness.advance(60)
    assert await node.do(alerts.acknowledge("any", by="ann", note="known"))
    assert not await node.do(alerts.acknowledge("any", by="bo"))
    shown = await node.do(alerts.get("any"))
    assert (shown.state, shown.seen_by, shown.note) == ("seen", "ann", "known")

    await node.do(alerts.mute("any", "1d", by="bo", note="a deploy"))
    await harness.advance(7_200)
    assert (await states(node))["any"] == "ok"
    assert told == [("firing", "any")]  # and not of the end, because it is muted

    await node.start(order, 2)
    await harness.advance(60)
    shown = await node.do(alerts.get("any"))
    assert (shown.state, shown.muted_by, shown.fired, shown.seen_by) == ("firing", "bo", 2, "")
    assert await node.do(alerts.mute("any", 0))
    assert not await node.do(alerts.mute("any", 0))
    await harness.advance(7_200)
    assert told == [("firing", "any")]  # nobody heard of the second firing, so nobody hears of its end


async def test_a_test_reaches_the_notifiers_and_one_that_is_down_becomes_a_letter(harness: Harness):
    node = await watched(harness, Alert("any", failed=True))
    run_id = await node.do(node.engine.alerts.test("any", by="ann"))
    await harness.advance(10)
    assert told == [("test", "any")]
    assert (await harness.status(run_id)).status == "completed"

    state["notifier"] = "down"
    ordered = await node.start(order, 1)
    await harness.advance(600)
    assert (await harness.status(ordered)).status == "failed"  # as it would have without any alert
    [letter] = await node.do(node.engine.dead_letters.list("event"))
    assert (letter.name, letter.target, letter.attempts) == ("stepwell.alert.firing", "notify", 3)
    state["notifier"] = "up"
    await node.do(node.engine.dead_letters.retry(letter.letter))
    await harness.advance(10)
    assert told[-1] == ("firing", "any")


async def test_rules_are_told_once_whatever_crashes(harness: Harness):
    rule = Alert("any", failed=True)
    node = await watched(harness, rule)
    await node.start(order, 1)
    await harness.advance(3)
    node.crash()
    nodes = [await watched(harness, rule) for _ in range(3)]
    await harness.advance(400)
    nodes[0].crash()
    await harness.advance(400)
    assert told == [("firing", "any")]


async def test_people_create_change_and_delete_rules(harness: Harness):
    node = await watched(harness)
    alerts = node.engine.alerts
    assert await node.do(alerts.create(Alert("mine", order, failed=True), by="ann"))
    assert not await node.do(alerts.create(Alert("mine", order, failed=True), by="ann"))
    assert await node.do(alerts.create(Alert("mine", order, count=9, within="1m"), by="bo"))
    shown = await node.do(alerts.get("mine"))
    assert (shown.rule, shown.by) == ("order: 9 failures within 1m", "bo")
    assert await node.do(alerts.delete("mine", by="ann"))
    with pytest.raises(NotFoundError):
        await node.do(alerts.get("mine"))
    assert await node.do(alerts.create(Alert("mine", order, failed=True)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Alert("a"),
        lambda: Alert("a", failed=True, consecutive=2),
        lambda: Alert("a", count=5),
        lambda: Alert("a", count=0, within="1m"),
        lambda: Alert("a", count=True, within="1m"),
        lambda: Alert("a", count=5, within="1s"),
        lambda: Alert("a", count=5, within="30d"),
        lambda: Alert("a", consecutive=5),
        lambda: Alert("a", "w", consecutive=5, within="1m"),
        lambda: Alert("a", stalled="1s"),
        lambda: App(alerts=["a"]),  # type: ignore[list-item]
    ],
)
def test_a_rule_that_makes_no_sense_is_rejected(make: Any) -> None:
    with pytest.raises(InvalidOptionError) as raised:
        make()
    assert raised.value.fix


def test_two_rules_of_an_app_have_two_names() -> None:
    with pytest.raises(DuplicateNameError):
        App(alerts=[Alert("a", failed=True), Alert("a", failed=True)])


async def test_without_alerts_nothing_is_watched_and_nothing_is_stored() -> None:
    async with Engine("memory://", workflows=[order]) as engine:
        assert await engine.alerts.list() == []


def test_the_synchronous_engine_has_alerts_too() -> None:
    with SyncEngine("memory://", workflows=[order], alerts=[]) as engine:
        assert [one.name for one in engine.alerts.list()] == ["rollback incomplete"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _rules(folder: Path, text: str) -> str:
    (folder / "stepwell.toml").write_text(text, encoding="utf-8")
    return f"sqlite:///{folder}/alerts.db"


async def test_rules_of_the_settings_file_are_declared_beside_those_of_the_code(folder: Path) -> None:
    url = _rules(folder, '[alerts."orders fail"]\nworkflow = "order"\ncount = 5\nwithin = "10m"\n')
    app = App(url, workflows=[order], alerts=[Alert("late", oldest_ready="15m")])
    async with Engine(app) as engine:
        found = {one.name: one.rule for one in await engine.alerts.list()}

    assert found == {
        "late": "any workflow: due for 15m without a worker",
        "orders fail": "order: 5 failures within 10m",
        "rollback incomplete": "any workflow: a rollback is incomplete",
    }


async def test_an_app_without_alerts_is_watched_by_the_rules_of_the_file(folder: Path) -> None:
    url = _rules(folder, "[alerts.idle]\nstalled = '1d'\n")
    async with Engine(App(url, workflows=[order])) as engine:
        assert {one.name for one in await engine.alerts.list()} == {"idle", "rollback incomplete"}
    async with Engine(App(url, workflows=[order]), worker=False) as client:
        assert client.alerts.declared is None


@pytest.mark.parametrize(
    ("rule", "title"),
    [
        ("count = 5", "count needs a time"),
        ("cuont = 5", "'cuont' is not a part of a rule"),
        ('count = "5"\nwithin = "10m"', "count is '5'"),
        ("failed = 1", "failed is 1"),
        ("workflow = 5\nfailed = true", "workflow is 5"),
        ('stalled = "soon"', "cannot read the duration 'soon'"),
        ("failed = true\nconsecutive = 3", "has 2 conditions"),
    ],
)
def test_a_wrong_rule_of_the_file_is_named_with_its_line(folder: Path, rule: str, title: str) -> None:
    url = _rules(folder, f"\n[alerts.wrong]\n{rule}\n")

    with pytest.raises(InvalidOptionError, match=title) as caught:
        Engine(App(url, workflows=[order]))
    assert caught.value.where == "stepwell.toml:2"
    assert caught.value.fix


def test_a_name_in_the_code_and_in_the_file_is_refused(folder: Path) -> None:
    url = _rules(folder, "[alerts.late]\nstalled = '1d'\n")

    with pytest.raises(DuplicateNameError, match="'late' is in the code and in the settings file"):
        Engine(App(url, workflows=[order], alerts=[Alert("late", oldest_ready="15m")]))
