"""Large payloads in the database: durable before their references, and never blocking the event loop."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import apsw
import pytest

from stepwell import Context, Engine, ResultTimeout, workflow
from stepwell.codec.base import REFERENCE
from stepwell.codec.blobs import DamagedBlobError
from stepwell.codec.json_codec import JsonCodec
from stepwell.codec.offload import Offloaded, read_reference
from stepwell.conformance.scene import new_run
from stepwell.environment import system_environment
from stepwell.errors import InvalidOptionError, StoreFullError
from stepwell.stores.sqlite.blobs import NewBlobs
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.stores.sqlite.writer import Writer
from tests.unit.stores.sqlite.conftest import OpenStore

SMALL, LARGE = b"s" * 1_000, b"L" * 5_000_000


def stored(file: Path) -> list[bytes]:
    connection = apsw.Connection(str(file))
    try:
        return [content for (content,) in connection.execute("select content from stepwell_blobs order by id")]
    finally:
        connection.close()


async def test_the_same_content_is_stored_once(open_store: OpenStore, file: Path) -> None:
    store = await open_store(runner=Writer(SqliteDatabase(str(file))))
    for number in range(5):
        store.blobs.put(SMALL)
        await store.runs.create([new_run(f"r{number}")])

    other = await open_store(runner=Writer(SqliteDatabase(str(file))))
    other.blobs.put(SMALL)
    await other.runs.create([new_run("another process'")])

    assert stored(file) == [SMALL]


async def test_large_blobs_are_written_and_committed_in_the_thread(
    open_store: OpenStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[tuple[str, str]] = []

    def noting(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def call(*args: Any) -> Any:
            threads.append((name, threading.current_thread().name))
            return real(*args)

        monkeypatch.setattr(owner, name, call)

    noting(NewBlobs, "write")
    noting(SqliteDatabase, "commit")
    store = await open_store(runner=Writer(SqliteDatabase(str(file)), quick_seconds=1e9))
    threads.clear()
    name = store.blobs.put(LARGE)
    await store.runs.create([new_run("r1")])
    large = [one for one in threads if one[1] == "stepwell-writer"]

    assert [one for one, _ in large] == ["write", "commit"]
    assert store.blobs.get(name) == LARGE
    threads.clear()
    await store.runs.create([new_run("r2")])
    assert threads == [("commit", threading.current_thread().name)]


async def test_a_blob_that_could_not_be_written_is_written_by_the_next_transaction(
    open_store: OpenStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(SqliteDatabase(str(file)))
    store = await open_store(runner=writer)
    real = writer.database.commit

    def full() -> None:
        raise StoreFullError("no space")

    for content in (SMALL, LARGE):
        name = store.blobs.put(content)
        monkeypatch.setattr(writer.database, "commit", full)
        with pytest.raises(StoreFullError):
            await store.runs.create([new_run(f"{len(content)} once")])
        monkeypatch.setattr(writer.database, "commit", real)
        assert name not in {content.hex() for content in stored(file)}
        await store.runs.create([new_run(f"{len(content)} twice")])

    assert stored(file) == [SMALL, LARGE]


async def test_damaged_content_is_found(open_store: OpenStore, file: Path) -> None:
    store = await open_store(runner=Writer(SqliteDatabase(str(file))))
    name = store.blobs.put(SMALL)
    await store.runs.create([new_run("r1")])
    connection = apsw.Connection(str(file))
    connection.execute("update stepwell_blobs set content = x'00'")
    connection.close()

    with pytest.raises(DamagedBlobError, match=name):
        store.blobs.get(name)


# --- through the engine ---


async def make(size: int) -> str:
    return "x" * size


@workflow
async def many(ctx: Context, size: int) -> str:
    last = ""
    for _ in range(50):
        last = await ctx.step(make, size)
    return last


async def test_the_same_object_of_many_steps_is_stored_once(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    async with Engine(f"sqlite:///{file}", workflows=[many], offload="database") as engine:
        run = await engine.start(many, 300_000)
        assert await run.result() == "x" * 300_000
        entries = await engine.runs.history(run.run_id)

    assert {entry.value for entry in entries} == {"x" * 300_000}
    assert len(stored(file)) == 1
    assert file.stat().st_size < 2_000_000


async def test_what_a_run_needs_again_is_read_from_the_database(tmp_path: Path) -> None:
    @workflow
    async def flow(ctx: Context, text: str) -> int:
        made = await ctx.step("make", make, len(text))
        message = await ctx.receive("go")
        return len(text) + len(made) + len(message.payload)

    url = f"sqlite:///{tmp_path / 'shop.db'}"
    async with Engine(url, workflows=[flow], offload="database") as engine:
        run = await engine.start(flow, "x" * 200_000, key="k")
        with pytest.raises(ResultTimeout):
            await run.result(timeout="300ms")
        assert (await run.status()).status == "waiting"
    async with Engine(url, workflows=[flow], offload="database") as engine:
        await engine.signal("k", "go", "y" * 150_000)
        assert await engine.result("k", timeout="60s") == 550_000


def test_an_invalid_offload_is_rejected(tmp_path: Path) -> None:
    bad: Any
    for bad in ("folder", 7, ""):
        with pytest.raises(InvalidOptionError, match="offload"):
            Engine("memory:", offload=bad)
    twice = Offloaded(JsonCodec(), SqliteStore(system_environment(), ":memory:").blobs)
    with pytest.raises(InvalidOptionError, match="already"):
        Engine("memory:", codec=twice, offload="database")


# --- killed ---

WORKING = """
import asyncio, sys
from stepwell import Context, Engine, step, workflow

async def make(number: int) -> str:
    return f"{number}-" * 60_000

@workflow
async def flow(ctx: Context, text: str) -> str:
    for number in range(3):
        await ctx.step(step(make, name=f"make {number}"), int(text[:6]) + number)
    return text

async def main():
    async with Engine(f"sqlite:///{sys.argv[1]}", workflows=[flow], offload="database") as engine:
        number = int(sys.argv[2]) * 1000
        while True:
            number += 1
            await engine.start(flow, f"{number:06}" * 40_000)
            print(number, flush=True)

asyncio.run(main())
"""


def references(file: Path) -> set[str]:
    """Every reference in any row."""
    found: set[str] = set()
    connection = apsw.Connection(str(file))
    try:
        for table, column in (
            ("payloads", "input"),
            ("payloads", "output"),
            ("entries", "value"),
            ("signals", "payload"),
        ):
            for (value,) in connection.execute(f"select {column} from stepwell_{table} where {column} is not null"):
                if value[:1] == REFERENCE:
                    reference = read_reference(value)
                    assert reference is not None
                    found.add(reference.name)
    finally:
        connection.close()
    return found


async def read_all(file: Path) -> None:
    store = SqliteStore(system_environment(), file)
    await store.open()
    try:
        names = references(file)
        assert names
        for name in names:
            assert store.blobs.get(name)
    finally:
        await store.close()


def test_killed_at_any_point_no_row_refers_to_a_missing_blob(tmp_path: Path) -> None:
    file, rng = tmp_path / "shop.db", random.Random(7)
    for round in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", WORKING, str(file), str(round)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(rng.random() * 0.15)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        asyncio.run(read_all(file))
