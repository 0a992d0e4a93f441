"""An application on the command line: how it is named, and that every command reads and writes as its workers do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.edges.conftest import Cli

HEAD = """
from stepwell import App, Context, WorkerSettings, workflow
from stepwell.codec.encryption import Encrypted, Keys
from stepwell.codec.json_codec import JsonCodec

@workflow
async def secretive(ctx: Context, word: str) -> str:
    await ctx.step("whisper", lambda: f"{word} whispered")
    heard = await ctx.receive("more")
    return f"{word} and {heard.payload}"

@workflow
async def other(ctx: Context) -> None: ...
"""
ENCRYPTED = (
    'app = App("sqlite:///%s", workflows=[secretive, other], '
    'codec=Encrypted(JsonCodec(), keys=Keys("k1", {"k1": b"k" * 32})), offload="database", '
    'settings=WorkerSettings(name="from-app"))\n'
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(HEAD + text, encoding="utf-8")
    return name


def words(folder: Path) -> None:
    (folder / "word.json").write_text('"tomato"', encoding="utf-8")
    (folder / "more.json").write_text('"basil"', encoding="utf-8")


@contextmanager
def running(*words: str) -> Iterator[dict[str, object]]:
    """A command that serves until it is ended, and the line of JSON that it begins with."""
    process = subprocess.Popen(
        [sys.executable, "-m", "stepwell.cli.main", *words, "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("STEPWELL_")},
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()


def test_every_command_reads_and_writes_as_the_workers_of_an_encrypted_app_do(cli: Cli, folder: Path) -> None:
    name = write(folder, "safe.py", ENCRYPTED % f"{folder}/safe.db")
    with running("worker", f"{name}:app") as banner:
        assert (banner["name"], banner["db"]) == ("from-app", f"sqlite:///{folder}/safe.db")
        words(folder)
        assert cli("start", "secretive", "@word.json", "--key", "k", "--app", name).code == 0
        assert cli("signal", "k", "more", "@more.json", "--app", name).code == 0, "a signal is encrypted, too"
        assert cli("result", "k", "--timeout", "30s", "--app", name).json == "tomato and basil"

    stored = b"".join(file.read_bytes() for file in folder.glob("safe.db*"))
    assert b"tomato" not in stored
    shown = cli("show", "k", "--app", name, "-o", "json").json
    assert (shown["input"], shown["output"]) == ("tomato", "tomato and basil")
    history = cli("history", "k", "--app", name, "-o", "json")
    assert history.json["entries"][0]["value"] == "tomato whispered"
    assert '"basil"' in history.out
    assert "tomato" not in cli("show", "k", "--db", f"sqlite:///{folder}/safe.db", "-o", "json").out
    assert cli("check", name).code == 0


def test_a_plain_command_beside_an_encrypted_app_writes_nothing(cli: Cli, folder: Path) -> None:
    name, db = write(folder, "sealed.py", ENCRYPTED % f"{folder}/sealed.db"), f"sqlite:///{folder}/sealed.db"
    words(folder)
    assert cli("start", "secretive", "@word.json", "--key", "k", "--app", name).code == 0

    said = cli("signal", "k", "more", "@more.json", "--db", db, "-o", "json")

    assert "encrypted" in said.error["message"]


def test_a_server_encrypts_as_the_app_says(cli: Cli, folder: Path) -> None:
    name = write(folder, "served.py", ENCRYPTED % f"{folder}/served.db")
    with running("serve", name, "--port", "0", "--embedded") as banner:
        run = httpx.post(f"{banner['url']}/api/runs", json={"workflow": "secretive", "input": "tomato", "key": "k"})
        assert run.status_code in (200, 201), run.text

    assert b"tomato" not in b"".join(file.read_bytes() for file in folder.glob("served.db*"))
    assert cli("show", "k", "--app", name, "-o", "json").json["input"] == "tomato"


# --- which app ---


def test_the_only_app_of_a_module_is_taken(cli: Cli, folder: Path) -> None:
    name = write(folder, "single.py", 'shop = App("sqlite:///one.db", workflows=[secretive, other])\nsame = shop\n')

    assert cli("config", "db", "--app", name, "-o", "json").json == {
        "schema": "stepwell.setting/1",
        "key": "db",
        "value": "sqlite:///one.db",
        "origin": "constructor",
        "where": "single.py:shop",
    }


def test_several_apps_are_an_error_that_lists_them(cli: Cli, folder: Path) -> None:
    name = write(folder, "double.py", "a = App(workflows=[secretive, other])\nb = App(workflows=[secretive, other])\n")

    said = cli("check", name, "-o", "json")
    assert (said.code, "has several apps: a, b" in said.err) == (2, True)
    assert "double.py:a or double.py:b" in said.err
    assert cli("check", f"{name}:b").code == 0
    assert cli("check", "double:b").code == 0


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("shopp", "odd.py:shopp does not exist. Did you mean odd.py:shop?"),
        ("secretive", "odd.py:secretive is not an App"),
        ("1x", "odd.py:1x does not exist"),
    ],
)
def test_a_variable_that_is_not_an_app_is_an_error(cli: Cli, folder: Path, variable: str, message: str) -> None:
    name = write(folder, "odd.py", "shop = App(workflows=[secretive, other])\n")

    said = cli("worker", f"{name}:{variable}", "-o", "json")

    assert (said.code, said.error["message"]) == (2, message)


def test_workflows_that_the_app_does_not_list_are_named(cli: Cli, folder: Path) -> None:
    name = write(folder, "partial.py", "shop = App(workflows=[secretive])\n")

    said = cli("check", name)

    assert said.code == 0
    assert said.err == "Warning: partial.py:shop does not list these workflows of its module: other@1\n"


def test_an_app_without_workflows_has_nothing_for_a_worker(cli: Cli, folder: Path) -> None:
    (folder / "client.py").write_text('from stepwell import App\napp = App("memory:")\n', encoding="utf-8")

    assert "there is no workflow in client.py:app" in cli("worker", "client.py", "-o", "json").error["message"]


def test_the_option_db_wins_over_the_url_of_the_app_and_that_over_the_environment(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = write(folder, "chosen.py", 'app = App("sqlite:///code.db", workflows=[secretive, other])\n')
    plain = write(folder, "open_.py", "app = App(workflows=[secretive, other])\n")
    monkeypatch.setenv("STEPWELL_DB", "sqlite:///variable.db")

    def database(*words: str) -> tuple[str, str]:
        said = cli("config", "db", "-o", "json", *words).json
        return said["value"], said["where"]

    assert database("--app", name, "--db", "sqlite:///option.db") == ("sqlite:///option.db", "--db")
    assert database("--app", name) == ("sqlite:///code.db", "chosen.py:app")
    assert database("--app", plain) == ("sqlite:///variable.db", "STEPWELL_DB")


def test_a_worker_takes_options_then_the_app_then_the_environment_then_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, "layered.py", 'app = App("sqlite:///l.db", workflows=[secretive, other])\n')
    (folder / "stepwell.toml").write_text('app = "layered.py"\nlease = "7s"\nname = "from-file"\n', encoding="utf-8")

    with running("worker") as banner:
        assert (banner["name"], banner["lease"]) == ("from-file", "7s")
    with running("worker", "--lease", "3s") as banner:
        assert (banner["name"], banner["lease"]) == ("from-file", "3s")


def test_a_shell_that_completes_a_word_does_not_run_the_code_of_an_app(folder: Path) -> None:
    (folder / "loud.py").write_text("print('loaded')\n" + HEAD + "app = App(workflows=[secretive])\n", encoding="utf-8")
    asked = {"_STEPWELL_COMPLETE": "bash_complete", "COMP_WORDS": "stepwell show ", "COMP_CWORD": "2"}

    said = subprocess.run(
        [sys.executable, "-c", "from stepwell.cli.main import stepwell; stepwell(prog_name='stepwell')"],
        env={**os.environ, **asked, "STEPWELL_APP": "loud.py"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (said.stdout.splitlines(), said.stderr) == (["plain,@last", "plain,@last-failed"], "")


def test_an_app_without_workflows_starts_runs_by_name(cli: Cli, folder: Path) -> None:
    name = write(folder, "whole.py", 'app = App("sqlite:///whole.db", workflows=[secretive, other])\n')
    (folder / "viewer.py").write_text('from stepwell import App\napp = App("sqlite:///whole.db")\n', encoding="utf-8")
    assert cli("start", "other", "--app", name).code == 0

    assert cli("start", "other", "--key", "again", "--app", "viewer.py").code == 0
