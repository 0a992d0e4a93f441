"""Examinations of a file: a healthy file is fine, and each defect is found, with a fix."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from stepwell.clock import SECOND, Span
from stepwell.conformance.scene import new_run
from stepwell.environment import Environment
from stepwell.ids import Incarnation
from stepwell.model.workers import Claimant, NewWorker
from stepwell.stores.base.diagnosis import Finding, Verdict, worst
from stepwell.stores.sqlite import diagnosis
from stepwell.stores.sqlite.diagnosis import SqliteDiagnosis
from stepwell.stores.sqlite.migrator import migrate
from stepwell.stores.sqlite.store import SqliteStore

EVERYTHING = [
    "file",
    "mode",
    "disk",
    "schema",
    "durability",
    "library",
    "integrity",
    "seal",
    "audit",
    "workers",
    "stranded",
    "orphans",
    "backlog",
    "served",
    "clock",
    "size",
    "blobs",
]


class Disk(NamedTuple):
    free: int


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "shop.db"
    migrate(file, is_plan=False)
    return file


def examine(environment: Environment, file: Path) -> dict[str, Finding]:
    found = list(SqliteDiagnosis(environment, file).examine())
    for finding in found:
        assert finding.found
        assert (finding.verdict is Verdict.OK) == (not finding.why and not finding.fix)
    return {finding.check: finding for finding in found}


def execute(file: Path, statement: str) -> None:
    connection = apsw.Connection(str(file))
    connection.execute(statement)
    connection.close()


def test_a_healthy_file_is_fine_and_not_changed(environment: Environment, path: Path) -> None:
    before = path.read_bytes()
    found = examine(environment, path)

    assert list(found) == EVERYTHING
    assert worst(found.values()) is Verdict.OK
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["shop.db"]


def test_a_missing_file_is_one_finding_and_is_not_created(environment: Environment, tmp_path: Path) -> None:
    found = examine(environment, tmp_path / "typo.db")

    assert list(found) == ["file"]
    assert found["file"].verdict is Verdict.FAIL
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("mode", "word"), [(0o644, "read"), (0o666, "write"), (0o620, "write")])
def test_a_file_that_others_may_use_is_a_warning(environment: Environment, path: Path, mode: int, word: str) -> None:
    path.chmod(mode)
    found = examine(environment, path)["mode"]

    assert found.verdict is Verdict.WARN
    assert f"others may {word} it" in found.found
    assert found.fix == f"chmod 600 {path}"


@pytest.mark.parametrize(("free", "verdict"), [(10, Verdict.FAIL), (100, Verdict.WARN), (1_000, Verdict.OK)])
def test_little_space_is_reported(
    environment: Environment, path: Path, monkeypatch: pytest.MonkeyPatch, free: int, verdict: Verdict
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(free * 1_048_576))
    found = examine(environment, path)["disk"]

    assert (found.verdict, found.found) == (verdict, f"{free} MiB free")


def test_a_foreign_file_fails_and_is_not_changed(environment: Environment, tmp_path: Path) -> None:
    letter, cats = tmp_path / "letter.db", tmp_path / "cats.db"
    letter.write_text("this is a letter and no database" * 40)
    execute(cats, "create table cats (name)")
    before = letter.read_bytes(), cats.read_bytes()

    for file in (letter, cats):
        found = examine(environment, file)["schema"]
        assert found.verdict is Verdict.FAIL
        assert found.found.startswith("SW612 ")
    assert (letter.read_bytes(), cats.read_bytes()) == before


def test_a_newer_file_and_an_empty_one_fail(environment: Environment, path: Path, tmp_path: Path) -> None:
    execute(path, "pragma user_version = 999")
    (tmp_path / "empty.db").touch()

    assert examine(environment, path)["schema"].found.startswith("SW611 ")
    empty = examine(environment, tmp_path / "empty.db")["schema"]
    assert (empty.verdict, empty.fix) == (Verdict.FAIL, "stepwell migrate")


def test_another_journal_mode_is_a_warning(environment: Environment, path: Path) -> None:
    execute(path, "pragma journal_mode = delete")

    assert examine(environment, path)["durability"].verdict is Verdict.WARN


def test_a_library_that_loses_pages_fails(
    environment: Environment, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.40.1")

    assert examine(environment, path)["library"].verdict is Verdict.FAIL


def test_a_damaged_file_fails(environment: Environment, path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xff" * 4096)
    found = examine(environment, path)

    assert worst(found.values()) is Verdict.FAIL
    assert found["integrity"].verdict is Verdict.FAIL


async def test_a_file_that_was_moved_fails_with_where_it_is_now(environment: Environment, path: Path) -> None:
    execute(path, "insert into stepwell_seals values (1, 't1', 'left', 'postgresql://db/shop', 1)")
    found = examine(environment, path)["seal"]

    assert found.verdict is Verdict.FAIL
    assert found.found == "SW630 this database has been moved to postgresql://db/shop"
    assert "--db postgresql://db/shop" in found.fix


async def test_workers_stranded_runs_orphans_and_the_backlog_are_found(environment: Environment, path: Path) -> None:
    store = SqliteStore(environment, path)
    await store.open()
    await store.runs.create([new_run(f"r{n}") for n in range(4)])
    assert examine(environment, path)["workers"].verdict is Verdict.WARN
    worker = await store.workers.register(NewWorker(Incarnation("w1"), "ann", SECOND, ("flow@1",)))
    await store.runs.claim(Claimant(worker.incarnation, 2, ("flow@1",)))
    assert examine(environment, path)["workers"].found == "1 alive (ann)"
    await store.close()
    execute(path, "update stepwell_workers set lease_until = 1700000000000000")
    execute(path, "update stepwell_runs set wake_at = null where run_id = 'r2'")
    execute(path, "update stepwell_runs set wake_at = wake_at - 600000000 where run_id = 'r3'")

    found = examine(environment, path)

    assert found["workers"].found.startswith("none alive, 1 with an expired lease (ann at 2023-11-14 22:13:20 UTC)")
    assert "a worker that stopped by itself logged the reason (SW604)" in found["workers"].fix
    assert found["stranded"].found == "2 runs are owned by workers that are gone"
    assert found["orphans"].verdict is Verdict.FAIL
    assert found["orphans"].found.endswith(": r2")
    assert found["backlog"].found.startswith("1 run is due, the oldest for 600 s")


async def test_due_runs_that_no_live_worker_serves_are_found(environment: Environment, path: Path) -> None:
    store = SqliteStore(environment, path)
    await store.open()
    await store.runs.create(
        [new_run("r1"), new_run("r2", version=7), new_run("r3", version=8, delay=Span(SECOND * 60))]
    )
    assert examine(environment, path)["served"].found == "not checked: no worker is alive"
    await store.workers.register(NewWorker(Incarnation("w1"), "ann", Span(SECOND * 60), ("flow@1",)))
    found = examine(environment, path)["served"]
    await store.workers.register(NewWorker(Incarnation("w2"), "bob", Span(SECOND * 60), ("flow@7",)))
    both = examine(environment, path)["served"]
    await store.close()

    assert (found.verdict, found.found) == (
        Verdict.WARN,
        "no live worker serves these workflows, which have due runs: flow v7",
    )
    assert both.verdict is Verdict.OK


@pytest.mark.parametrize(("divisor", "speed"), [(1, "at full speed"), (2, "at half speed until")])
def test_a_clock_behind_the_file_is_a_warning(environment: Environment, path: Path, divisor: int, speed: str) -> None:
    ahead = environment.clock.now() + 90 * SECOND
    execute(path, f"update stepwell_clock set floor = {ahead}, divisor = {divisor}")
    found = examine(environment, path)["clock"]

    assert found.verdict is Verdict.WARN
    assert found.found.startswith("this machine's clock is 90 s behind")
    assert speed in found.why


async def test_growth_is_reported_and_a_disk_that_will_soon_be_full_is_a_warning(
    environment: Environment, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(environment, path)
    await store.open()
    await store.runs.create([new_run(environment.ids.uuid()) for _ in range(3)] + [new_run("0-of-old")])
    await store.close()
    found = examine(environment, path)["size"]
    assert found.verdict is Verdict.OK
    assert "about 4 runs; 3 of them in the last day" in found.found

    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(path.stat().st_size * 3))
    full = examine(environment, path)["size"]
    assert full.verdict is Verdict.WARN
    assert full.found.endswith("the disk will be full in about 4 days")


async def test_a_long_backlog_is_not_counted_to_its_end(
    environment: Environment, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "_DUE_MAX", 3)
    store = SqliteStore(environment, path)
    await store.open()
    await store.runs.create([new_run(f"r{n}") for n in range(9)])
    await store.close()

    assert examine(environment, path)["backlog"].found == "more than 3 runs are due"
