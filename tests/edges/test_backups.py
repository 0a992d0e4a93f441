"""backup and restore: a copy while workers run, and a way back that reuses nothing."""

from __future__ import annotations

import asyncio
import shutil
import stat
from pathlib import Path
from typing import Any

import apsw
import pytest

from stepwell import Engine
from stepwell.cli.main import main
from stepwell.sinks import EmittedEvent, handler
from stepwell.stores.base.backups import EPOCHS_SKIPPED
from tests.edges import shop
from tests.edges.conftest import APP, Cli, Shop
from tests.edges.test_workers import worker

PAGE = Path(__file__).parents[2] / "docs" / "backup.md"


def _file(db: Shop) -> Path:
    return Path(db.url.removeprefix("sqlite:///"))


def _rows(file: Path, sql: str) -> list[Any]:
    connection = apsw.Connection(str(file))
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def test_a_backup_is_one_examined_file_that_only_its_owner_may_read(cli: Cli, db: Shop, tmp_path: Path) -> None:
    copy = tmp_path / "copies" / "shop.db"
    copy.parent.mkdir()
    said = cli("backup", db.url, str(copy), "-o", "json")

    assert (said.code, said.json["runs"]) == (0, len(db.ids))
    assert [file.name for file in copy.parent.iterdir()] == ["shop.db"]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert _rows(copy, "select run_id, status, epoch from stepwell_runs order by 1") == _rows(
        _file(db), "select run_id, status, epoch from stepwell_runs order by 1"
    )


def test_a_backup_overwrites_nothing(cli: Cli, db: Shop, tmp_path: Path) -> None:
    taken = tmp_path / "taken.db"
    taken.write_text("mine")
    said = cli("backup", str(_file(db)), str(taken), "-o", "json")

    assert (said.code, said.error["code"]) == (5, "SW405")
    assert taken.read_text() == "mine"


def test_a_backup_is_taken_while_a_worker_writes_and_holds_what_was_acknowledged(
    cli: Cli, db: Shop, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    with worker(db.url, APP):
        words = ["start", "checkout", "customer=eve", "amount:=9", "--key", "eve-1", "--wait", "--timeout", "30s"]
        assert cli(*words, "--db", db.url).code == 0
        assert cli("backup", db.url, str(copy)).code == 0
        refused = cli("restore", str(copy), str(_file(db)), "--force", "-o", "json")

    assert _rows(copy, "select status from stepwell_runs where key = 'eve-1'") == [("completed",)]
    assert _rows(copy, "pragma integrity_check") == [("ok",)]
    assert (refused.code, refused.error["code"]) == (6, "SW631")


def test_a_restored_database_uses_no_epoch_and_no_number_again(cli: Cli, db: Shop, tmp_path: Path) -> None:
    file, copy = _file(db), tmp_path / "copy.db"
    assert cli("backup", str(file), str(copy)).code == 0
    epochs = dict(_rows(file, "select run_id, epoch from stepwell_runs"))
    for part in tmp_path.glob("shop.db*"):
        part.unlink()

    said = cli("restore", str(copy), str(file))
    assert (said.code, said.err) == (0, "")
    after = dict(_rows(file, "select run_id, epoch from stepwell_runs"))
    assert after == {run_id: epoch + EPOCHS_SKIPPED for run_id, epoch in epochs.items()}
    assert _rows(file, "select seq > 1000000 from sqlite_sequence where name = 'stepwell_outbox'") == [(1,)]
    assert _rows(file, "select count(*) from stepwell_workers") == [(0,)]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    async def go_on() -> str:
        async with Engine(db.url, workflows=[shop.approval]) as engine:
            await engine.signal("approval-1", "reject")
            return str(await engine.result("approval-1", timeout="60s"))

    assert asyncio.run(go_on()) == "reject: None"


def test_a_worker_of_the_lost_database_can_write_nothing_to_the_restored_one(shop_anywhere: Shop, cli: Cli) -> None:
    async def held() -> tuple[str, int]:
        async with Engine(shop_anywhere.url) as engine:
            run = (await engine.runs.detail("approval-1")).run
            return str(run.run_id), run.epoch

    run_id, epoch = asyncio.run(held())
    said = cli("restore", "--fence", shop_anywhere.url, "-o", "json")

    assert (said.code, said.json["runs"]) == (0, len(shop_anywhere.ids))
    assert asyncio.run(held()) == (run_id, epoch + EPOCHS_SKIPPED)

    async def go_on() -> str:
        async with Engine(shop_anywhere.url, workflows=[shop.approval]) as engine:
            await engine.signal("approval-1", "reject")
            return str(await engine.result("approval-1", timeout="60s"))

    assert asyncio.run(go_on()) == "reject: None"


def test_a_lost_run_that_is_started_again_under_its_id_ends_with_another_event(
    cli: Cli, db: Shop, tmp_path: Path
) -> None:
    told: list[str] = []

    async def hear(event: EmittedEvent) -> None:
        told.append(event.id)

    async def run_once() -> None:
        async with Engine(db.url, workflows=[shop.checkout], sinks=[handler(hear)], lifecycle=True) as engine:
            run = await engine.start(shop.checkout, shop.Order("eve", 9), run_id="order-9")
            await run.result(timeout="60s")
            while await engine.outbox.list_pending():  # noqa: ASYNC110  another task sends
                await asyncio.sleep(0.01)

    file, copy = _file(db), tmp_path / "copy.db"
    assert cli("backup", str(file), str(copy)).code == 0
    asyncio.run(run_once())
    assert cli("restore", str(copy), str(file), "--force").code == 0
    asyncio.run(run_once())

    assert len(told) == len(set(told)) == 2


def test_a_restore_keeps_what_is_there_and_only_when_it_is_forced(cli: Cli, db: Shop, tmp_path: Path) -> None:
    file, copy = _file(db), tmp_path / "copy.db"
    cli("backup", str(file), str(copy))
    refused = cli("restore", str(copy), str(file), "-o", "json")
    forced = cli("restore", str(copy), str(file), "--force", "-o", "json")

    assert (refused.code, refused.error["code"]) == (5, "SW405")
    assert forced.code == 0
    kept = Path(forced.json["kept"])
    assert _rows(kept, "select count(*) from stepwell_runs") == [(len(db.ids),)]


def test_a_restore_refuses_a_log_that_was_left_beside_the_lost_file(cli: Cli, db: Shop, tmp_path: Path) -> None:
    file, copy = _file(db), tmp_path / "copy.db"
    cli("backup", str(file), str(copy))
    file.unlink()
    left = Path(f"{file}-wal")
    left.write_bytes(b"pages of the lost file")
    refused = cli("restore", str(copy), str(file), "-o", "json")

    assert (refused.code, refused.error["code"]) == (5, "SW405")
    assert cli("restore", str(copy), str(file), "--force").code == 0
    assert not left.exists()


def test_a_restore_is_refused_while_any_process_has_the_file_open(cli: Cli, db: Shop, tmp_path: Path) -> None:
    file, copy = _file(db), tmp_path / "copy.db"
    cli("backup", str(file), str(copy))
    reader = apsw.Connection(str(file))
    reader.execute("select count(*) from stepwell_runs").fetchall()
    refused = cli("restore", str(copy), str(file), "--force", "-o", "json")
    reader.close()

    assert (refused.code, refused.error["code"]) == (6, "SW631")
    assert cli("restore", str(copy), str(file), "--force").code == 0


@pytest.mark.parametrize("content", ["", "text", "theirs"])
def test_only_a_copy_of_a_stepwell_database_is_restored(cli: Cli, tmp_path: Path, content: str) -> None:
    copy, file = tmp_path / "copy.db", tmp_path / "new.db"
    copy.write_text("" if content == "theirs" else content * 1_000)
    if content == "theirs":
        _rows(copy, "create table theirs (a)")
    refused = cli("restore", str(copy), str(file), "-o", "json")

    assert (refused.code, refused.error["code"]) == (6, "SW610" if not content else "SW612")
    assert [each.name for each in tmp_path.iterdir()] == ["copy.db"]


def test_a_damaged_copy_is_not_restored(cli: Cli, db: Shop, tmp_path: Path) -> None:
    copy, file = tmp_path / "copy.db", tmp_path / "new.db"
    cli("backup", db.url, str(copy))
    content = bytearray(copy.read_bytes())
    for page in range(3, len(content) // 4096):
        content[page * 4096 + 8 : page * 4096 + 64] = b"\xff" * 56
    copy.write_bytes(content)
    refused = cli("restore", str(copy), str(file), "-o", "json")

    assert (refused.code, refused.error["code"]) == (6, "SW612")
    assert not file.exists()


def test_for_a_server_the_commands_of_the_server_are_named(cli: Cli, postgres_url: str, tmp_path: Path) -> None:
    saved = cli("backup", postgres_url, str(tmp_path / "copy"), "-o", "json")
    restored = cli("restore", str(tmp_path / "copy"), postgres_url, "-o", "json")

    assert "pg_dump" in saved.error["fix"]
    assert "stepwell restore --fence" in saved.error["fix"]
    assert "pg_restore" in restored.error["fix"]


def test_the_page_shows_commands_that_work(
    db: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    block = PAGE.read_text(encoding="utf-8").split("```sh\n")[1].split("```")[0]
    (tmp_path / "backups").mkdir()
    for line in block.splitlines():
        words = line.split()
        if words[0] == "rm":
            for name in words[1:]:
                Path(name).unlink(missing_ok=True)
        else:
            assert main(words[1:]) == 0, capsys.readouterr().err
    assert db.status("approval-1").status == "waiting"
    shutil.rmtree(tmp_path / "backups")
