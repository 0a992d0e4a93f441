"""worker: a real process that executes, drains when asked, and says what is wrong with a module."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.edges.conftest import APP, Cli, Shop
from tests.newcomer.conftest import until

STEPWELL = [sys.executable, "-m", "stepwell.cli.main"]


def worker(url: str, *words: str) -> AbstractContextManager[tuple[subprocess.Popen[str], str]]:
    return running(url, "worker", *words)


@contextmanager
def running(url: str, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [*STEPWELL, "--db", url, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def test_a_worker_executes_what_is_started_elsewhere_and_drains_on_sigterm(cli: Cli, db: Shop) -> None:
    with worker(db.url, APP, "--name", "w-9", "--lease", "5s", "--concurrency", "3") as (process, banner):
        words = ["start", "checkout", "customer=eve", "amount:=9", "--wait", "--timeout", "30s"]
        by_name = cli(*words, "--db", db.url)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0

    assert banner.startswith(f"worker w-9 (pid {process.pid}) · {db.url} · ")
    assert "checkout v1" in banner
    assert (by_name.code, by_name.json) == (0, {"text": "reserved for eve", "amount": 9})
    assert "No worker" not in by_name.err


def test_a_worker_moves_on_what_waits_for_a_signal(cli: Cli, db: Shop) -> None:
    with worker(db.url, "tests.edges.shop", "-o", "json") as (process, banner):
        cli("signal", "approval-1", "reject", "--db", db.url)
        assert cli("result", "approval-1", "--timeout", "30s", "--db", db.url).json == "reject: None"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0

    assert json.loads(banner)["schema"] == "stepwell.worker/1"


BLOCKING = """
import pathlib, time
from stepwell import Context, workflow
async def block() -> None:
    pathlib.Path(__file__).with_name("marker").touch()
    time.sleep(60)
@workflow
async def blocked(ctx: Context) -> None:
    await ctx.step("block", block)
"""


@pytest.mark.parametrize("words", [["worker"], ["serve", "--embedded", "--port", "0"]], ids=" ".join)
def test_a_second_ctrl_c_ends_a_process_that_a_body_blocks(cli: Cli, tmp_path: Path, words: list[str]) -> None:
    url, app, marker = f"sqlite:///{tmp_path}/blocked.db", tmp_path / f"blocking_{words[0]}.py", tmp_path / "marker"
    app.write_text(BLOCKING)
    with running(url, *words, str(app)) as (process, _):
        assert cli("start", "blocked", "--db", url, "--app", str(app)).code == 0
        until(marker.exists)
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


@pytest.mark.parametrize("words", [["worker"], ["serve", "--port", "0"]], ids=" ".join)
def test_a_process_stops_while_its_database_does_not_answer(words: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        url = f"postgresql://127.0.0.1:{silent.getsockname()[1]}/shop"
        process = subprocess.Popen([*STEPWELL, "--db", url, *words, APP], stdout=subprocess.PIPE)
        with process, silent.accept()[0]:
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=20)
    assert (process.returncode, said) == (0, b"")


@pytest.mark.parametrize("act", ["delete", "replace"])
def test_a_worker_stops_with_an_error_when_its_file_is_gone(cli: Cli, db: Shop, act: str) -> None:
    file = Path(db.url.removeprefix("sqlite:///"))
    with worker(db.url, APP, "--lease", "60s") as (process, _):
        copy = file.with_name("copy.db")
        shutil.copyfile(file, copy)
        file.unlink() if act == "delete" else copy.replace(file)
        _, said = process.communicate(timeout=30)

    assert process.returncode == 6
    assert "SW616" in said
    assert f"{file} was" in said


def test_figures_are_read_at_a_port_of_loopback_under_its_own_name_alone(cli: Cli, db: Shop) -> None:
    with worker(db.url, APP, "-o", "json", "--metrics", "0") as (process, banner):
        url = json.loads(banner)["metrics"]
        cli("start", "checkout", "customer=eve", "amount:=9", "--wait", "--timeout", "30s", "--db", db.url)
        told = httpx.get(url)
        elsewhere = httpx.get(url.replace("/metrics", "/runs"))
        renamed = httpx.get(url, headers={"Host": "evil.example"})
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0

    assert url.startswith("http://127.0.0.1:")
    assert (told.status_code, elsewhere.status_code, renamed.status_code) == (200, 404, 421)
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'stepwell_runs_ended_total{workflow="checkout",status="completed"} 1' in told.text.splitlines()
    assert "stepwell_workers_alive 1" in told.text.splitlines()


def test_a_port_that_is_taken_is_said(cli: Cli, db: Shop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = cli("worker", APP, "--db", db.url, "--metrics", str(taken.getsockname()[1]), "-o", "json")
    assert (said.code, said.error["code"]) == (2, "SW103")
    assert "cannot listen" in said.error["message"]


def test_a_worker_logs_lines_of_json_that_say_where_they_come_from(cli: Cli, tmp_path: Path) -> None:
    url, app = f"sqlite:///{tmp_path}/logs.db", tmp_path / "talking.py"
    app.write_text(
        "import logging\nfrom stepwell import Context, step, workflow\n"
        "@step\nasync def speak(word: str) -> None:\n    logging.getLogger('talk').info('said %s', word)\n"
        "@workflow\nasync def talking(ctx: Context) -> None:\n    await ctx.step(speak, 'hello')\n"
    )
    with worker(url, str(app), "--log-format", "json", "--log-level", "info") as (process, _):
        run_id = cli("start", "talking", "--wait", "--timeout", "30s", "--db", url, "--app", str(app), "-o", "ids").out
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert process.stderr is not None
        lines = [json.loads(line) for line in process.stderr.read().splitlines() if line.startswith("{")]
    (line,) = [line for line in lines if line["logger"] == "talk"]
    del line["at"]
    assert line == {
        "level": "info",
        "logger": "talk",
        "message": "said hello",
        "run": run_id.strip(),
        "workflow": "talking",
        "path": "speak",
        "attempt": 1,
    }


def test_a_worker_logs_the_runs_that_it_starts_and_ends_unless_told_otherwise(cli: Cli, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/logs.db"
    with worker(url, APP) as (process, _):
        words = ["start", "checkout", "customer=eve", "amount:=9", "--key", "eve-1", "--wait", "--timeout", "30s"]
        cli(*words, "--db", url)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert process.stderr is not None
        lines = [line for line in process.stderr.read().splitlines() if "stepwell.worker: checkout" in line]

    run_id = cli("ls", "-o", "ids", "--db", url).out.strip()
    assert [line.partition("stepwell.worker: ")[2] for line in lines] == [
        f"checkout eve-1 started run={run_id} key=eve-1 workflow=checkout",
        f"checkout eve-1 completed run={run_id} key=eve-1 workflow=checkout",
    ]


def test_input_may_come_from_standard_input(db: Shop) -> None:
    said = subprocess.run(
        [*STEPWELL, "--db", db.url, "--app", APP, "start", "checkout", "-", "-o", "ids"],
        input=b'{"customer": "flo", "amount": 3}',
        capture_output=True,
        check=True,
    )

    assert db.status(said.stdout.decode().strip()).input == {"customer": "flo", "amount": 3}


@pytest.mark.parametrize(
    ("name", "text", "code", "words"),
    [
        ("empty.py", "", 2, "there is no workflow in"),
        ("broken.py", "import stepwell\nraise ValueError('no settings')\n", 2, "ValueError: no settings"),
        ("unfinished.py", "def f(:\n", 2, "SyntaxError"),
        ("leaves.py", "raise SystemExit(3)\n", 2, "SystemExit"),
        ("needs.py", "import no_such_thing\n", 2, "no_such_thing"),
        ("signal.py", "x = 1\n", 2, "has the name of another module"),
        ("missing.py", None, 4, "there is no file"),
        ("missing_module", None, 4, "there is no module 'missing_module'"),
    ],
)
def test_a_module_that_is_no_use_is_explained(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str | None, code: int, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    if text is not None:
        Path(name).write_text(text)
    said = cli("worker", name)

    assert (said.code, said.out) == (code, "")
    assert words in said.err
    assert "Traceback" not in said.err
    assert not Path("stepwell.db").exists()


def test_a_worker_needs_a_module(cli: Cli) -> None:
    assert cli("worker").code == 2


def test_a_worker_with_a_bad_option_does_not_start(cli: Cli, tmp_path: Path) -> None:
    said = cli("worker", APP, "--lease", "soon", "--db", f"sqlite:///{tmp_path}/x.db", "-o", "json")

    assert (said.code, said.error["code"]) == (2, "SW103")
    assert not (tmp_path / "x.db").exists()
