"""move: live runs go to another database, whatever happens on the way, and go on there."""

from __future__ import annotations

import asyncio
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepwell import Engine
from stepwell.cli.commands.transfers import address
from stepwell.cli.modules import load_workflows
from stepwell.views import SignalView
from tests.edges.conftest import APP, Cli, Said, Shop
from tests.edges.errands import ERRANDS, STEPS_BEFORE, Errands, check_it_goes_on, die, make_errands

STEPWELL = [sys.executable, "-m", "stepwell.cli.main"]


@pytest.fixture
def errands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Errands:
    return make_errands(tmp_path, monkeypatch, f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/new/b.db")


# --- the whole way ---


def test_runs_go_on_in_the_destination_without_repeating_a_step(cli: Cli, errands: Errands) -> None:
    said = cli("move", errands.src, errands.dst, "--app", errands.app)

    assert said.code == 0, said.err
    assert "Moved 7 runs, 6 of them active" in said.out
    assert "Replayed: 6 active runs" in said.out
    assert said.err.splitlines()[0].startswith("copying: ")
    assert errands.lines() == STEPS_BEFORE
    check_it_goes_on(errands)


def test_what_is_known_and_held_goes_with_the_runs(cli: Cli, errands: Errands) -> None:
    cli("move", errands.src, errands.dst)

    [errand] = [each for each in load_workflows(errands.app) if each.name == "errand"]

    async def look() -> tuple[str, list[SignalView], Any]:
        async with Engine(errands.dst, workflows=[errand], worker=False) as engine:
            started = await engine.start(errand, "e0", key="e0", dedup="1h")
            return str(started.run_id), await engine.signals.list_held(), await engine.runs.state("e1", "where")

    async def first() -> str:
        async with Engine(errands.src) as engine:
            run = await engine.status("e0")
            assert run is not None
            return run.run_id

    run_id, held, where = asyncio.run(look())
    assert run_id == asyncio.run(first())
    assert [one.payload for one in held] == ["held"]
    assert where == "on its way"


def test_the_answer_for_programs(cli: Cli, db: Shop, tmp_path: Path) -> None:
    said = cli("move", db.url, f"sqlite:///{tmp_path}/new.db", "--app", APP, "-o", "json")

    body = said.json
    assert (said.code, said.err) == (0, "")
    assert body["schema"] == "stepwell.move/1"
    assert (body["runs"], body["active"], body["replayed"]) == (6, 3, 2)
    assert [(one["run_id"], one["code"]) for one in body["stopped"]] == [(db.ids["confused"], "SW104")]
    assert body["open"] == body["to"] == f"sqlite:///{tmp_path}/new.db"


def test_a_terminal_sees_how_far_it_is(db: Shop, tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    words = [*STEPWELL, "move", db.url, f"sqlite:///{tmp_path}/new.db", "--app", APP]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=follower, env=env, check=True, timeout=60)
    os.close(follower)
    seen = os.read(leader, 100_000).decode()
    os.close(leader)

    assert done.stdout.decode().startswith("Moved 6 runs")
    assert [stage for stage in ("copying", "comparing", "replaying") if stage in seen] == [
        "copying",
        "comparing",
        "replaying",
    ]
    assert "6/6" in seen


# --- the source afterwards ---


def test_the_source_says_where_its_runs_are(cli: Cli, db: Shop, tmp_path: Path) -> None:
    new = f"sqlite:///{tmp_path}/new.db"
    cli("move", db.url, new)

    for words in (["cancel", "approval-1"], ["signal", "approval-1", "approve"], ["start", "approval", "--app", APP]):
        said = cli(*words, "--db", db.url, "-o", "json")
        assert (said.code, said.error["code"]) == (6, "SW630"), words
        assert said.error["message"] == f"this database has been moved to {new}"
    refused = subprocess.run([*STEPWELL, "--db", db.url, "worker", APP], capture_output=True, text=True, timeout=60)
    assert (refused.returncode, refused.stdout) == (6, "")
    assert f"this database has been moved to {new}" in refused.stderr
    assert cli("ls", "--db", db.url, "-o", "ids").out == cli("ls", "--db", new, "-o", "ids").out


def test_what_has_moved_cannot_be_moved_again_or_taken_back(cli: Cli, db: Shop, tmp_path: Path) -> None:
    new = f"sqlite:///{tmp_path}/new.db"
    cli("move", db.url, new)

    for words in ([new], [f"sqlite:///{tmp_path}/x.db"], [new, "--undo"]):
        said = cli("move", db.url, *words, "-o", "json")
        assert (said.code, said.error["message"]) == (6, f"this database has been moved to {new}")
    assert cli("cancel", "approval-1", "--db", new).code == 0


# --- what is refused ---


def _is_open(cli: Cli, url: str) -> bool:
    return cli("signal", "approval-1", "unasked", "--db", url).code == 0


def test_workers_must_be_stopped_first(cli: Cli, db: Shop, tmp_path: Path) -> None:
    words = [*STEPWELL, "--db", db.url, "worker", APP, "--name", "w-7"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        said = cli("move", db.url, f"sqlite:///{tmp_path}/new.db", "-o", "json")
        process.send_signal(signal.SIGTERM)

    assert (said.code, said.error["code"]) == (6, "SW631")
    assert "w-7" in said.error["message"]
    assert "stop the workers" in said.error["fix"]
    assert _is_open(cli, db.url)
    assert cli("move", db.url, f"sqlite:///{tmp_path}/new.db").code == 0


def test_a_database_is_not_moved_into_itself(
    cli: Cli, db: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "shop.db")
    (tmp_path / "hard.db").hardlink_to(tmp_path / "shop.db")
    monkeypatch.chdir(tmp_path)

    for same in (db.url, "sqlite:///shop.db", "sqlite:///link.db", "sqlite:///hard.db", "sqlite:///./shop.db"):
        said = cli("move", db.url, same, "-o", "json")
        assert (said.code, said.error["message"]) == (6, "the source and the destination are the same database")
    assert _is_open(cli, db.url)


def test_the_destination_must_be_empty(cli: Cli, db: Shop, tmp_path: Path) -> None:
    shutil.copy(tmp_path / "shop.db", tmp_path / "other.db")
    other = f"sqlite:///{tmp_path}/other.db"

    said = cli("move", db.url, other, "-o", "json")

    assert (said.code, said.error["code"], said.error["message"]) == (6, "SW632", "the destination is not empty")
    assert "6 runs" in said.error["why"]
    assert _is_open(cli, db.url)
    assert _is_open(cli, other)


@pytest.mark.parametrize(
    ("src", "dst", "code"),
    [
        ("sqlite:///nowhere.db", "sqlite:///b.db", 6),
        ("sqlite:///shop.db", "memory:", 2),
        ("nonsense", "sqlite:///b.db", 2),
    ],
)
def test_there_must_be_two_databases(
    cli: Cli, db: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, src: str, dst: str, code: int
) -> None:
    monkeypatch.chdir(tmp_path)

    assert cli("move", src, dst).code == code
    assert not (tmp_path / "b.db").exists()
    assert _is_open(cli, db.url)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            'ctx.step("fetch", note, f"{name} fetch")',
            'ctx.once("fetch", str)',
            "took another path than the run recorded",
        ),
        ("    done =", "    raise KeyError(name)\n    done =", "stops before 1 recorded operation"),
        ("done = [await", 'await ctx.step("wash", note, "wash")\n    done = [await', "stops before"),
        ('ctx.receive("order")', 'ctx.receive("order", name="the order")', "the code does not reach it"),
        ("async def errand", "async def chore", "there is no workflow 'errand@1'"),
    ],
)
def test_code_that_runs_could_not_go_on_with_stops_the_move(
    cli: Cli, errands: Errands, monkeypatch: pytest.MonkeyPatch, old: str, new: str, words: str
) -> None:
    changed = Path(errands.app).with_name("changed_errands.py")
    changed.write_text(
        ERRANDS.replace(old, new).replace("child(errand", "child(chore" if "chore" in new else "child(errand")
    )
    monkeypatch.delitem(sys.modules, changed.stem, raising=False)

    said = cli("move", errands.src, errands.dst, "--app", str(changed), "-o", "json")

    assert (said.code, said.error["code"]) == (6, "SW632")
    assert words in said.error["why"]
    assert cli("ls", "--db", errands.dst, "-o", "ids").out == ""
    assert cli("signal", "e1", "unasked", "--db", errands.src).code == 0
    assert cli("move", errands.src, errands.dst, "--app", errands.app).code == 0
    check_it_goes_on(errands)


# --- on the way ---


PLACES = [("expect", 1), ("unpack", 1), ("unpack", 3), ("unpack", 5), ("release", 1), ("accept", 1)]


@pytest.mark.parametrize(("method", "call"), PLACES)
def test_a_move_that_was_killed_goes_on(cli: Cli, errands: Errands, method: str, call: int) -> None:
    die(errands, method, call)
    for url in (errands.src, errands.dst) if method != "expect" else (errands.src,):
        said = cli("publish", "news", "--db", url, "-o", "json")
        assert (said.code, said.error["code"]) == (6, "SW630")

    said = cli("move", errands.src, errands.dst, "--app", errands.app)

    assert said.code == 0, said.err
    assert "Moved 7 runs" in said.out
    assert cli("cancel", "e1", "--db", errands.src, "-o", "json").error["code"] == "SW630"
    check_it_goes_on(errands)


@pytest.mark.parametrize(("method", "call"), PLACES[:-1])
def test_a_move_that_was_killed_can_be_taken_back(cli: Cli, errands: Errands, method: str, call: int) -> None:
    die(errands, method, call)

    said = cli("move", errands.src, errands.dst, "--undo")

    assert (said.code, said.out.partition(":")[0]) == (0, "Move undone")
    assert cli("signal", "e1", "unasked", "--db", errands.src).code == 0
    if method != "expect":
        assert cli("ls", "--db", errands.dst, "-o", "ids").out == ""
    assert cli("move", errands.src, errands.dst, "--undo").out.startswith("No move to undo")
    assert cli("move", errands.src, errands.dst).code == 0
    check_it_goes_on(errands)


def test_a_move_is_taken_back_without_its_destination(cli: Cli, errands: Errands) -> None:
    die(errands, "unpack", 3)
    destination = Path(errands.dst.removeprefix("sqlite:///"))
    for file in destination.parent.iterdir():
        file.unlink()

    assert cli("move", errands.src, errands.dst, "--undo").code == 0

    assert not destination.exists()
    assert cli("signal", "e1", "unasked", "--db", errands.src).code == 0


def test_a_move_that_was_begun_is_ended_where_it_was_going(cli: Cli, errands: Errands, tmp_path: Path) -> None:
    die(errands, "unpack", 3)

    said: Said = cli("move", errands.src, f"sqlite:///{tmp_path}/elsewhere.db", "-o", "json")
    into = cli("move", f"sqlite:///{tmp_path}/third.db", errands.dst)
    out_of = cli("move", errands.dst, f"sqlite:///{tmp_path}/elsewhere.db", "-o", "json")

    assert (said.code, said.error["code"]) == (6, "SW632")
    assert f"being moved to {errands.dst}" in said.error["message"]
    assert into.code == 6
    assert out_of.error["message"] == f"this database is being filled from {errands.src}"
    assert cli("move", errands.src, errands.dst).code == 0
    check_it_goes_on(errands)


def test_a_rehearsal_leaves_the_source_open_and_the_copy_closed(cli: Cli, errands: Errands) -> None:
    said = cli("move", errands.src, errands.dst, "--app", errands.app, "--keep-source-open")

    assert said.code == 0
    assert said.out.startswith("Copied 7 runs")
    assert cli("signal", "e1", "unasked", "--db", errands.src).code == 0
    assert cli("signal", "e1", "unasked", "--db", errands.dst, "-o", "json").error["code"] == "SW630"
    assert cli("ls", "--db", errands.dst, "-o", "ids").out == cli("ls", "--db", errands.src, "-o", "ids").out
    assert cli("move", errands.src, errands.dst).code == 0
    assert "unasked" in cli("show", "e1", "--db", errands.dst, "-o", "json").out
    check_it_goes_on(errands)


# --- names ---


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:s3cret@db.example:5432/shop", "postgresql://ann@db.example:5432/shop"),
        ("postgresql://ann:p%40ss@[::1]/shop?sslmode=require", "postgresql://ann@[::1]/shop?sslmode=require"),
        ("postgresql://db/shop?password=s3cret&sslPassword=x&schema=a", "postgresql://db/shop?schema=a"),
        ("postgresql://:s3cret@db/shop", "postgresql://db/shop"),
        ("postgresql://ann:s3cret@a:1,[::1]:2/shop", "postgresql://ann@a:1,[::1]:2/shop"),
        (
            "postgresql://db/shop?listen=postgresql%3A%2F%2Fann%3As3cret%40direct%2Fshop",
            "postgresql://db/shop?listen=postgresql%3A%2F%2Fann%40direct%2Fshop",
        ),
        ("sqlite:////tmp/a%20b.db", "sqlite:////tmp/a%20b.db"),
    ],
)
def test_no_password_is_shown_or_stored(url: str, shown: str) -> None:
    assert address(url) == shown
