"""The kit runs a test as an application describes itself: with its workflows, codec, sinks and settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepwell import App, Context, WorkerSettings, workflow
from stepwell.codec.encryption import Encrypted, Keys
from stepwell.codec.json_codec import JsonCodec
from stepwell.sinks.base import EmittedEvent
from stepwell.sinks.handlers import handler
from stepwell.testing import kit
from stepwell.testing.kits import Kit

sent: list[EmittedEvent] = []


async def keep(event: EmittedEvent) -> None:
    sent.append(event)


@workflow
async def secretive(ctx: Context, word: str) -> str:
    await ctx.emit("told", {"word": word})
    await ctx.sleep("nap", "30d")
    return await ctx.step("again", lambda: word * 2)


APP = App(
    "postgresql://nowhere.example/shop",
    workflows=[secretive],
    codec=Encrypted(JsonCodec(), keys=Keys("k1", {"k1": b"k" * 32})),
    offload=Path("/nowhere/blobs"),
    sinks=[handler(keep, name="keep")],
    lifecycle=True,
    settings=WorkerSettings(lease="1s", runs_max=7, name="from-app"),
)


@pytest.fixture(autouse=True)
def _nothing_sent() -> None:
    sent.clear()


@pytest.mark.stepwell(app=APP, stores=["memory", "sqlite"])
async def test_a_test_has_the_workflows_codec_and_sinks_of_the_app(stepwell: Kit):
    run = await stepwell.start("secretive", "tomato" * 30_000)
    assert await run.result() == "tomato" * 60_000
    await stepwell.settle()

    run.assert_emitted("told", {"word": "tomato" * 30_000})
    assert [event.name for event in sent] == ["told", "stepwell.run.completed"]
    stored = (await stepwell.wait(stepwell.engine.runs.detail(run.run_id))).run.input
    assert stored[:1] == b"r", "it is offloaded"
    assert stepwell.engine.runs.fetch(stored)[:1] == b"e", "and encrypted"


@pytest.mark.stepwell(app=APP)
async def test_settings_of_the_app_count_unless_they_belong_to_a_machine(stepwell: Kit):
    await stepwell.run(secretive, "a")
    settings = stepwell.world.nodes[0].engine._settings

    assert (settings.runs_max, settings.name, settings.lease) == (7, "worker-1", "36500d")


@pytest.mark.stepwell(app=APP, settings={"runs_max": 3}, sinks=[handler(keep, name="other", events="told")])
async def test_options_of_the_marker_win_over_those_of_the_app(stepwell: Kit):
    await stepwell.run(secretive, "a")
    await stepwell.settle()

    assert stepwell.world.nodes[0].engine._settings.runs_max == 3
    assert [event.name for event in sent] == ["told"]


async def test_a_kit_does_not_read_the_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STEPWELL_RUNS_MAX", "1")
    async with kit() as made:
        await made.run(secretive, "a")
        assert made.world.nodes[0].engine._settings.runs_max == 1_000


async def test_an_encrypted_workflow_survives_crashes_everywhere(stepwell_app: App | None):
    assert stepwell_app is None
    async with kit(app=APP) as made:
        report = await made.crash_everywhere(secretive, "tomato")
        assert report.ok == report.points


class TestOverridden:
    @pytest.fixture
    def stepwell_app(self) -> App:
        return APP

    def test_a_fixture_names_the_app_of_many_tests(self, stepwell: Any):
        assert stepwell.run("secretive", "b").result() == "bb"
