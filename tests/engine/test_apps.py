"""An `App` describes an application; engines take it, open, and close as often as they are asked to."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest

from stepwell import App, Context, Engine, SyncEngine, WorkerSettings, workflow
from stepwell.codec.encryption import Encrypted, Keys
from stepwell.codec.json_codec import JsonCodec
from stepwell.errors import EncryptedStoreError, InvalidOptionError, WrongLoopError
from stepwell.sinks.base import EmittedEvent
from stepwell.sinks.handlers import handler
from stepwell.worker.metrics import Metrics

KEYS = Keys("k1", {"k1": b"k" * 32})


@workflow
async def greet(ctx: Context, name: str) -> str:
    await ctx.emit("greeted", {"name": name})
    return await ctx.step("greeting", lambda: f"hello {name}")


@workflow
async def count(ctx: Context, number: int) -> int:
    return number + 1


def app_on(folder: Path, **more: Any) -> App:
    return App(f"sqlite:///{folder}/app.db", workflows=[greet, count], **more)


async def test_an_engine_takes_workflows_codec_sinks_hooks_and_settings_from_its_app(tmp_path: Path):
    sent: list[EmittedEvent] = []
    both = asyncio.Event()

    async def keep(event: EmittedEvent) -> None:
        sent.append(event)
        if len(sent) == 2:
            both.set()

    metrics = Metrics()
    app = app_on(
        tmp_path,
        codec=Encrypted(JsonCodec(), keys=KEYS),
        offload="database",
        sinks=[handler(keep, name="keep")],
        lifecycle=True,
        hooks=[metrics],
        settings=WorkerSettings(name="w-app"),
    )
    async with Engine(app) as engine:
        assert await (await engine.start(greet, "ann" * 50_000)).result() == "hello " + "ann" * 50_000
        assert [worker.name for worker in await engine.workers.list()] == ["w-app"]
        async with asyncio.timeout(30):
            await both.wait()

    assert [event.name for event in sent] == ["greeted", "stepwell.run.completed"]
    assert metrics.read() != []
    assert b"annann" not in (tmp_path / "app.db").read_bytes()


async def test_an_engine_without_the_codec_of_the_app_cannot_write_in_the_clear(tmp_path: Path):
    app = app_on(tmp_path, codec=Encrypted(JsonCodec(), keys=KEYS))
    async with Engine(app) as engine:
        await (await engine.start(greet, "ann")).result()

    async with Engine(replace(app, codec=None), worker=False) as engine:
        with pytest.raises(EncryptedStoreError):
            await engine.start(greet, "eve")


@pytest.mark.parametrize("option", [{"workflows": [greet]}, {"codec": JsonCodec()}, {"lifecycle": True}])
def test_options_beside_an_app_are_an_error(tmp_path: Path, option: dict[str, Any]):
    with pytest.raises(InvalidOptionError, match="takes only `worker` and `environment`"):
        Engine(app_on(tmp_path), **option)


def test_an_app_is_frozen_and_shows_no_password():
    app = App("postgresql://ann:hunter2@db/shop", workflows=[greet])

    with pytest.raises(FrozenInstanceError):
        app.url = "memory:"  # type: ignore[misc]
    assert repr(app) == "<App of greet@1>"


def test_a_function_that_is_not_a_workflow_is_named():
    def plain() -> None: ...

    with pytest.raises(InvalidOptionError, match="plain is not a workflow"):
        App("memory:", workflows=[plain])  # type: ignore[list-item]


async def test_an_app_without_a_url_uses_the_database_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("STEPWELL_DB", f"sqlite:///{tmp_path}/there.db")
    async with Engine(App(workflows=[count])) as engine:
        assert await (await engine.start(count, 1)).result() == 2

    assert (tmp_path / "there.db").is_file()


async def test_settings_that_an_engine_is_not_given_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("STEPWELL_NAME", "w-variable")
    async with Engine(f"sqlite:///{tmp_path}/app.db", workflows=[count]) as engine:
        assert [worker.name for worker in await engine.workers.list()] == ["w-variable"]


# --- open and close ---


async def test_an_engine_opens_and_closes_without_a_block(tmp_path: Path):
    engine = await Engine(app_on(tmp_path)).open()
    assert await engine.open() is engine
    assert await (await engine.start(count, 1)).result() == 2
    await engine.close()
    await engine.close()

    async with engine:
        assert await (await engine.start(count, 2)).result() == 3
        assert len(await engine.workers.list()) == 1
        await engine.close()
    async with Engine(replace(app_on(tmp_path), workflows=())) as client:
        assert await client.workers.list() == []


async def test_many_tasks_open_and_close_an_engine_once(tmp_path: Path):
    engine = Engine(app_on(tmp_path))
    await asyncio.gather(*(engine.open() for _ in range(5)))
    assert len(await engine.workers.list()) == 1
    await asyncio.gather(*(engine.close() for _ in range(5)))
    await engine.open()
    assert len(await engine.workers.list()) == 1
    await engine.close()


def test_an_engine_of_another_loop_cannot_be_opened_again(tmp_path: Path):
    engine = Engine(app_on(tmp_path), worker=False)
    asyncio.run(_open(engine))

    with pytest.raises(WrongLoopError):
        asyncio.run(_open(engine))


async def _open(engine: Engine) -> None:
    await engine.open()


def test_a_synchronous_engine_opens_and_closes_without_a_block(tmp_path: Path):
    engine = SyncEngine(app_on(tmp_path)).open()
    assert engine.open() is engine
    assert engine.start(count, 1).result() == 2
    engine.close()
    engine.close()
    with pytest.raises(RuntimeError, match="call open"):
        engine.start(count, 1)

    with engine:
        assert engine.start(count, 2).result() == 3


def test_threads_open_use_and_close_one_synchronous_engine(tmp_path: Path):
    engine, results, failures = SyncEngine(app_on(tmp_path)), set[int](), list[BaseException]()

    def use(number: int) -> None:
        try:
            engine.open()
            results.add(engine.start(count, number).result("60s"))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    workers = len(engine.workers.list())
    closers = [threading.Thread(target=engine.close) for _ in range(4)]
    for thread in closers:
        thread.start()
    for thread in closers:
        thread.join()

    assert (failures, results, workers) == ([], set(range(1, 9)), 1)
