"""Opening files: ours, foreign, broken and read-only ones."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import apsw
import pytest

from stepwell.environment import Environment
from stepwell.errors import ForeignFileError, SchemaMismatchError, StoreNotWritableError
from stepwell.stores.sqlite.connections import APPLICATION_ID
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.stores.sqlite.texts import MIGRATIONS
from tests.unit.stores.sqlite.conftest import OpenStore


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _folder(file: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in file.parent.iterdir()}


async def test_the_file_and_its_side_files_are_for_their_owner_only(open_store: OpenStore, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = await open_store(tmp_path / "new" / "deep" / "runs.db")
        await store.runs.rescue(stalls_max=1)
    finally:
        os.umask(before)

    folder = tmp_path / "new" / "deep"
    assert {path.name: oct(_mode(path)) for path in folder.iterdir()} == {
        "runs.db": "0o600",
        "runs.db-wal": "0o600",
        "runs.db-shm": "0o600",
    }
    assert oct(_mode(folder)) == "0o700"


async def test_a_new_file_is_marked_as_ours(open_store: OpenStore, file: Path) -> None:
    await open_store()

    connection = apsw.Connection(str(file))
    assert connection.pragma("application_id") == APPLICATION_ID
    assert connection.pragma("user_version") == MIGRATIONS[-1].number
    assert connection.pragma("journal_mode") == "wal"
    connection.close()


async def test_opening_again_finds_everything_there(environment: Environment, file: Path) -> None:
    for _ in range(3):
        store = SqliteStore(environment, file)
        await store.open()
        assert await store.views.orphans() == []
        await store.close()


def _make(file: Path, content: bytes, mode: int = 0o600) -> None:
    file.write_bytes(content)
    file.chmod(mode)


async def _refused(environment: Environment, file: Path) -> Exception:
    before = _folder(file)
    store = SqliteStore(environment, file)
    with pytest.raises((ForeignFileError, SchemaMismatchError)) as caught:
        await store.open()
    await store.close()
    assert _folder(file) == before
    return caught.value


@pytest.mark.parametrize("content", [b"hello, this is not a database" * 100, b"SQLite format 3\x00" + b"\x07" * 4080])
async def test_a_file_that_is_not_a_database_is_rejected_and_not_changed(
    environment: Environment, file: Path, content: bytes
) -> None:
    _make(file, content)

    error = await _refused(environment, file)

    assert isinstance(error, ForeignFileError)
    assert str(file) in str(error)


@pytest.mark.parametrize("mark", [0, 7])
async def test_a_database_of_another_program_is_rejected_and_not_changed(
    environment: Environment, file: Path, mark: int
) -> None:
    connection = apsw.Connection(str(file))
    connection.execute("create table theirs (a)")
    connection.pragma("application_id", mark)
    connection.close()

    assert isinstance(await _refused(environment, file), ForeignFileError)


async def test_a_database_of_a_newer_stepwell_is_rejected_with_both_versions(
    environment: Environment, file: Path
) -> None:
    connection = apsw.Connection(str(file))
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", 99)
    connection.close()

    error = await _refused(environment, file)

    assert isinstance(error, SchemaMismatchError)
    assert "99" in str(error)
    assert str(MIGRATIONS[-1].number) in error.title


async def test_an_empty_file_is_used(open_store: OpenStore, file: Path) -> None:
    _make(file, b"", 0o644)

    store = await open_store()

    assert await store.views.orphans() == []
    assert oct(_mode(file)) == "0o644"


async def test_a_folder_that_cannot_be_created_is_reported(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")

    with pytest.raises(StoreNotWritableError, match="taken"):
        await SqliteStore(environment, tmp_path / "taken" / "runs.db").open()


async def test_a_folder_instead_of_a_file_is_reported(environment: Environment, tmp_path: Path) -> None:
    with pytest.raises(StoreNotWritableError):
        await SqliteStore(environment, tmp_path).open()


async def test_using_a_closed_store_is_an_error(environment: Environment, file: Path) -> None:
    store = SqliteStore(environment, file)

    with pytest.raises(Exception, match="not open"):
        await store.runs.rescue(stalls_max=1)
    with pytest.raises(Exception, match="not open"):
        await store.views.orphans()
    await store.close()
