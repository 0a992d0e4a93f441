"""A sealed file: callers' connections and large payloads are rejected too, and checking the seal costs nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest
import pytest_asyncio

from stepwell.conformance.scene import Scene, new_run, place, step
from stepwell.environment import system_environment
from stepwell.errors import StoreSealedError
from stepwell.stores.sqlite.blobs import LARGE
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.writer import Writer
from stepwell.virtual.clock import ManualClock


class Opened:
    """One handle on a file, like that of a process."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock()
        self.database = SqliteDatabase(str(path))
        environment = replace(system_environment(), clock=self.clock)
        self.store = SqliteStore(environment, path, runner=Writer(self.database))
        self.scene = Scene(self.store, self.clock)


@pytest_asyncio.fixture
async def here(tmp_path: Path) -> AsyncIterator[Opened]:
    opened = Opened(tmp_path / "runs.db")
    await opened.store.open()
    yield opened
    await opened.store.close()


@pytest_asyncio.fixture
async def there(here: Opened, tmp_path: Path) -> AsyncIterator[Opened]:
    opened = Opened(tmp_path / "runs.db")
    await opened.store.open()
    yield opened
    await opened.store.close()


async def test_a_callers_transaction_starts_nothing_in_a_sealed_file(here: Opened, tmp_path: Path) -> None:
    await here.store.transfers.seal("t1", "there")
    connection = apsw.Connection(str(tmp_path / "runs.db"))
    connection.execute("begin immediate")

    with pytest.raises(StoreSealedError, match="being moved to there"):
        here.store.transactions.enqueue(connection, [new_run("r1")])

    connection.execute("rollback")
    connection.close()
    assert (await here.store.transfers.manifest()).runs == 0


@pytest.mark.parametrize("size", [10, LARGE * 2])
async def test_a_large_payload_waits_until_the_file_is_open_again(here: Opened, there: Opened, size: int) -> None:
    await there.store.transfers.seal("t1", "there")
    content = b"x" * size
    name = here.store.blobs.put(content)

    with pytest.raises(StoreSealedError):
        await here.scene.create("r1")
    assert (await there.store.transfers.manifest()).blobs == 0
    await there.store.transfers.unseal("t1")

    await here.scene.create("r1")
    assert (await there.store.transfers.manifest()).blobs == 1
    assert there.store.blobs.get(name) == content


async def test_consecutive_commits_of_one_process_do_not_read_the_seal(here: Opened, there: Opened) -> None:
    await here.scene.register()
    turn = await here.scene.begin("r1")
    await turn.commit(names=("a", "b", "c"))
    looks: list[str] = []

    def trace(_: Any, sql: str, __: Any) -> bool:
        looks.append(sql)
        return True

    here.database.connection.exec_trace = trace
    for n in range(3):
        await turn.commit(entries=(step(n + 1, place(n)),))

    assert SQL["entries.append"] in looks
    assert looks.count(SQL["meta.read_state"]) == 0
    await there.scene.create("r2")
    await turn.commit()
    assert looks.count(SQL["meta.read_state"]) == 1
    here.database.connection.exec_trace = None


async def test_a_file_that_is_opened_later_is_found_sealed(here: Opened, tmp_path: Path) -> None:
    await here.store.transfers.seal("t1", "there")
    late = Opened(tmp_path / "runs.db")
    await late.store.open()

    with pytest.raises(StoreSealedError):
        await late.scene.register()

    await late.store.close()
