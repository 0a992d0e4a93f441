"""A database with encrypted values takes no value in the clear, from no process."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from stepwell import Break, Context, Continue, Engine, Retry, StepContext, errors, step, workflow
from stepwell.codec import Encrypted, JsonCodec, Keys
from stepwell.sinks import EmittedEvent
from tests.http.desk import open_desk

CODEC = Encrypted(JsonCodec(), keys=Keys("k1", {"k1": b"k" * 32}))


@workflow
async def approval(ctx: Context) -> str:
    message = await ctx.receive("approve")
    return f"approved {message.payload}"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'shop.db'}"
    return str(request.getfixturevalue("postgres_url"))


async def test_a_plain_engine_beside_an_encrypted_one_is_refused_at_its_next_write(url: str) -> None:
    async with (
        Engine(url, workflows=[approval], worker=False) as plain,
        Engine(url, workflows=[approval], codec=CODEC) as encrypted,
    ):
        run = await encrypted.start(approval, key="one")

        for write in (
            lambda: plain.start(approval),
            lambda: plain.signal("one", "approve", 5),
            lambda: plain.publish("news", 5),
        ):
            with pytest.raises(errors.EncryptedStoreError, match="in the clear") as caught:
                await write()
            assert caught.value.code == "SW633"
            assert "codec=Encrypted" in caught.value.fix
        with pytest.raises(errors.EncryptedStoreError):
            async with Engine(url, workflows=[approval]):
                pass

        found = await plain.status("one")
        assert found is not None
        assert found.run_id == run.run_id
        await encrypted.signal("one", "approve", 5)
        assert await run.result(timeout="60s") == "approved 5"


async def test_an_operator_without_a_key_can_still_stop_a_run(url: str) -> None:
    async with Engine(url, workflows=[approval], codec=CODEC) as encrypted:
        await encrypted.start(approval, key="one")
        async with Engine(url, worker=False) as plain:
            assert await plain.holds.pause("one", by="ann")
            assert await plain.cancel("one")


async def test_a_server_without_a_key_says_what_is_missing(url: str) -> None:
    async with Engine(url, workflows=[approval], codec=CODEC) as encrypted:
        await encrypted.start(approval, key="one")
        async with open_desk(url, worker=False) as desk:
            refused = await desk.post("/api/runs", {"workflow": "approval"})
            shown = await desk.get("/api/runs/one")
            acts = (await desk.get("/api/audit")).json()["acts"]

    assert refused.json()["code"] == "SW633"
    assert shown.status_code == 200
    assert [act["outcome"] for act in acts] == [str(refused.status_code), "asked"]


def canary(name: str) -> str:
    return f"kanarienvogel-{name}-"


def canaries(folder: Path) -> set[str]:
    """The names of all that are in the files of a folder."""
    content = b"".join(each.read_bytes() for each in folder.iterdir())
    return {name.decode() for name in re.findall(rb"kanarienvogel-([a-z ]+)-", content)}


@step(compensate=lambda: None)
async def report(info: StepContext, given: str) -> str:
    info.progress(1, 2, unit=canary("unit"), note=canary("note"))
    await info.checkpoint({"state": canary("checkpoint")})
    info.emit("reported", canary("step event"))
    await info.stream("lines").append(canary("stream"))
    return canary("result")


@workflow
async def echo(ctx: Context, text: str) -> str:
    return text + canary("child output")


@workflow
async def talkative(ctx: Context, text: str) -> str:
    async def turn(ctx: Context, state: str) -> Continue[str] | Break[str]:
        await ctx.receive("go")
        return Continue(canary("loop state")) if state == text else Break(canary("loop value"))

    await ctx.step(report, canary("argument"))
    ctx.publish_state(canary("published"))
    await ctx.emit("said", canary("event"))
    await ctx.child(echo, canary("child input"))
    await ctx.loop("turns", turn, text)
    await ctx.topic("news", where={"field": canary("where")}, since="all")
    return canary("output")


async def test_a_reader_of_an_encrypted_database_finds_no_value(tmp_path: Path) -> None:
    file, sink = tmp_path / "shop.db", Mailbox()
    async with Engine(f"sqlite:///{file}", workflows=[talkative, echo], codec=CODEC, sinks=[sink]) as engine:
        news = {"field": canary("where"), "more": canary("topic event")}
        await engine.publish("news", news, retain="1h")
        described: dict[str, Any] = {"tags": {"tag": canary("tag")}, "title": canary("title"), "by": canary("starter")}
        described |= {"attributes": {"a": canary("attribute")}}
        run = await engine.start(talkative, canary("input"), key=canary("key"), **described)
        for _ in range(3):
            await engine.signal(run.run_id, "go", canary("signal"))
        await engine.signal("nobody", "go", canary("held"), if_missing="hold")
        await engine.holds.pause_workflow("echo", by=canary("by"), reason=canary("reason"))
        await engine.holds.resume_workflow("echo", by=canary("by"))
        assert await run.result(timeout="60s") == canary("output")

    found = canaries(tmp_path)
    # Progress is in the database only while its step runs; its page may or may not have been written over.
    plain = {"key", "tag", "by", "reason", "title", "starter", "attribute"}
    assert found - {"unit", "note"} == plain


class Mailbox:
    """A sink that is not there: what is owed to it stays in the database."""

    name, events, retry, timeout = "mailbox", ("*",), Retry(max_attempts=99), "10s"

    async def send(self, event: EmittedEvent, /) -> None:
        raise OSError("not now")
