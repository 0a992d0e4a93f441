"""worker: a real process that executes, drains when asked, and says what is wrong with a module."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.edges.conftest import APP, Cli, Shop

STEPWELL = [sys.executable, "-m", "stepwell.cli.main"]


@contextmanager
def worker(url: str, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [*STEPWELL, "--db", url, "worker", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
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
