"""A file that is deleted, renamed or replaced under an open store: no later write is acknowledged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from stepwell.clock import Instant, SystemClock
from stepwell.conformance.scene import new_run
from stepwell.environment import system_environment
from stepwell.errors import StoreLostError
from stepwell.ids import RunId
from stepwell.stores.sqlite import identity
from stepwell.stores.sqlite.identity import LOOK_EVERY, OpenFiles
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.virtual.clock import ManualClock
from tests.unit.stores.sqlite.conftest import OpenStore


def delete(file: Path) -> None:
    file.unlink()


def rename(file: Path) -> None:
    file.rename(file.with_name("other.db"))


def replace(file: Path) -> None:
    """As an operator does who restores a backup by hand."""
    copy = file.with_name("copy.db")
    shutil.copyfile(file, copy)
    copy.replace(file)


def delete_all(file: Path, suffixes: tuple[str, ...] = ("", "-wal", "-shm")) -> None:
    for suffix in suffixes:
        Path(f"{file}{suffix}").unlink()


def rename_the_folder(file: Path) -> None:
    file.parent.rename(file.parent.with_name("elsewhere"))


ACTS = [delete, rename, replace, delete_all, rename_the_folder]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder" / "runs.db"


@pytest.mark.parametrize("act", ACTS)
async def test_no_start_is_acknowledged_once_the_file_is_gone(
    open_store: OpenStore, file: Path, act: Callable[[Path], None]
) -> None:
    store = await open_store()
    await store.runs.create([new_run("r1")])
    act(file)

    for run_id in ("r2", "r3"):
        with pytest.raises(StoreLostError) as caught:
            await store.runs.create([new_run(run_id)])
    with pytest.raises(StoreLostError):
        await store.views.find(RunId("r1"))

    assert caught.value.code == "SW616"
    assert str(file) in caught.value.title
    assert "stepwell restore" in caught.value.fix


async def test_a_store_that_only_reads_notices_too(open_store: OpenStore, file: Path) -> None:
    store = await open_store()
    delete(file)

    with pytest.raises(StoreLostError, match="was deleted or renamed"):
        await store.views.find(RunId("r1"))


async def test_a_link_that_points_to_another_file_is_noticed(open_store: OpenStore, file: Path) -> None:
    link, other = file.with_name("link.db"), file.with_name("other.db")
    await (await open_store()).runs.create([new_run("r1")])
    shutil.copyfile(file, other)
    link.symlink_to(file)
    store = await open_store(link)
    await store.runs.create([new_run("r2")])
    link.unlink()
    link.symlink_to(other)

    with pytest.raises(StoreLostError, match="was replaced by another file"):
        await store.runs.create([new_run("r3")])


@pytest.mark.parametrize("suffixes", [("-wal",), ("-wal", "-shm")])
async def test_acknowledged_commits_survive_a_deleted_log(file: Path, suffixes: tuple[str, ...]) -> None:
    store = SqliteStore(system_environment(), file)
    await store.open()
    await store.runs.create([new_run("r1")])
    delete_all(file, suffixes)
    with pytest.raises(StoreLostError, match="-wal was deleted or renamed"):
        await store.runs.create([new_run("r2")])
    await store.close()

    again = SqliteStore(system_environment(), file)
    await again.open()
    assert await again.views.find(RunId("r1")) is not None
    await again.runs.create([new_run("r3")])
    await again.close()


async def test_the_log_of_a_replacing_file_is_not_changed(file: Path) -> None:
    store = SqliteStore(system_environment(), file)
    await store.open()
    await store.runs.create([new_run("r1")])
    delete_all(file)
    newer = SqliteStore(system_environment(), file)
    await newer.open()
    await newer.runs.create([new_run("n1")])
    with pytest.raises(StoreLostError):
        await store.runs.create([new_run("r2")])
    await store.close()
    await newer.runs.create([new_run("n2")])
    await newer.close()

    connection = apsw.Connection(str(file))
    assert connection.execute("select run_id from stepwell_runs order by run_id").fetchall() == [("n1",), ("n2",)]
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


def test_unchanged_names_are_not_checked_one_by_one(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_bytes(b"")
    files, later = OpenFiles(str(file)), ManualClock(Instant(SystemClock().now() + 3_600_000_000))
    files.check(later)
    looked: list[str] = []

    with monkeypatch.context() as patch:
        patch.setattr(identity, "file_id", looked.append)
        for _ in range(10):
            files.check(later)
    assert looked == []

    file.unlink()
    with pytest.raises(StoreLostError):
        files.check(later)
    files.close()


def test_a_folder_that_moves_with_the_folder_around_it_is_noticed_after_some_commits(file: Path) -> None:
    file.write_bytes(b"")
    files, later = OpenFiles(str(file)), ManualClock(Instant(SystemClock().now() + 3_600_000_000))
    files.check(later)
    file.parent.parent.rename(file.parent.parent.with_name("elsewhere"))

    with pytest.raises(StoreLostError):
        for _ in range(LOOK_EVERY):
            files.check(later)
    files.close()


def test_a_closed_store_leaves_no_descriptor_behind(file: Path) -> None:
    file.write_bytes(b"")
    before = sorted(Path("/dev/fd").iterdir())

    files = OpenFiles(str(file))
    files.check(SystemClock())
    files.close()
    files.close()

    assert sorted(Path("/dev/fd").iterdir()) == before
