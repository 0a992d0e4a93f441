"""Every verb answers, on SQLite and on PostgreSQL; tree, watch, graph, explain, completion, and the names of old."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import tests
from stepwell import errors
from stepwell.cli.main import stepwell
from tests.edges.conftest import APP, Cli, Shop

LINES: dict[str, tuple[int, list[str]]] = {
    "start": (0, ["start", "checkout", "customer=bo", "amount:=1", "--app", APP]),
    "ls": (0, ["ls", "--where", "status:failed"]),
    "show": (0, ["show", "declined-1"]),
    "tree": (0, ["tree", "declined-1"]),
    "watch": (0, ["watch", "checkout-1"]),
    "why": (0, ["why", "@last-failed"]),
    "history": (0, ["history", "checkout-1"]),
    "graph": (0, ["graph", "undone-1"]),
    "result": (0, ["result", "checkout-1"]),
    "signal": (0, ["signal", "approval-1", "other"]),
    "publish": (0, ["publish", "Shipped", "order=a"]),
    "emit": (0, ["emit", "Shipped", "order=a"]),
    "cancel": (0, ["cancel", "approval-1"]),
    "wake": (0, ["wake", "approval-1"]),
    "reschedule": (0, ["reschedule", "approval-1", "--in", "9d"]),
    "state": (0, ["state", "checkout-1"]),
    "retry": (0, ["retry", "declined-1"]),
    "pause": (0, ["pause", "approval-1", "--reason", "a look"]),
    "redrive": (0, ["redrive", "declined-1", "--app", APP]),
    "rewind": (0, ["rewind", "declined-1", "/"]),
    "skip": (0, ["skip", "approval-1", "approve|reject", "--result", "1"]),
    "fork": (0, ["fork", "checkout-1", "--from", "/", "--key", "forked"]),
    "resume": (0, ["resume", "confused-1"]),
    "workflow": (0, ["workflow", "ls"]),
    "rollback": (0, ["rollback", "resume", "stuck-1"]),
    "bulk": (0, ["bulk", "ls"]),
    "trigger": (0, ["trigger", "ls"]),
    "view": (0, ["view", "save", "bad", "status:failed", "--columns", "key,took"]),
    "schedule": (0, ["schedule", "ls"]),
    "alert": (0, ["alert", "ls"]),
    "dlq": (0, ["dlq", "ls"]),
    "prune": (0, ["prune", "--older", "30d", "--dry-run"]),
    "footprint": (0, ["footprint"]),
    "vacuum": (0, ["vacuum"]),
    "erase": (0, ["erase", "--where", "key:nobody", "--dry-run"]),
    "outbox": (0, ["outbox", "ls"]),
    "signals": (0, ["signals", "ls"]),
    "failures": (0, ["failures"]),
    "waits": (0, ["waits"]),
    "topics": (0, ["topics"]),
    "doctor": (9, ["doctor"]),
    "migrate": (0, ["migrate", "--plan"]),
    "explain": (0, ["explain", "SW404"]),
    "config": (0, ["config"]),
    "completion": (0, ["completion", "bash"]),
}
# These have tests of their own: they take a process, or two databases.
ELSEWHERE = {"new", "dev", "demo", "worker", "move", "serve", "token", "check", "versions", "diff", "export", "import"}
ELSEWHERE |= {"backup", "restore", "debug", "compensate"}


def test_every_verb_is_tried() -> None:
    assert set(stepwell.list_commands(click.Context(stepwell))) - ELSEWHERE == set(LINES)


@pytest.mark.parametrize("verb", LINES)
def test_a_verb_works_on_both_databases(cli: Cli, shop_anywhere: Shop, verb: str) -> None:
    code, words = LINES[verb]

    said = cli(*words, "--db", shop_anywhere.url, "-o", "json")

    assert said.code in (0, code), said.err
    assert "Traceback" not in said.err
    if verb != "completion":
        assert json.loads(said.out.splitlines()[0] if verb == "watch" else said.out)["schema"].startswith("stepwell.")


def test_a_tree_has_what_the_run_did(cli: Cli, db: Shop) -> None:
    text = cli("tree", "undone-1", "--db", db.url).out

    assert "✓ reserve" in text
    assert cli("tree", "undone-1", "--db", db.url, "-o", "json").json["children_count"] == 0
    assert cli("tree", "undone-1", "--db", db.url, "-o", "ids").out.split() == [db.ids["undone"]]


def test_watching_tells_each_line_and_ends_with_the_run(cli: Cli, db: Shop) -> None:
    said = cli("watch", "declined-1", "--db", db.url)
    late = cli("watch", "approval-1", "--timeout", "0.3s", "--db", db.url)

    assert said.code == 0
    assert "✕ charge" in said.out
    assert "failed" in said.out.splitlines()[-1]
    assert late.code == 8
    assert "waiting  signal approve|reject at" in late.out


def test_a_graph_is_mermaid_or_dot(cli: Cli, db: Shop) -> None:
    mermaid = cli("graph", "declined-1", "--db", db.url).out
    dot = cli("graph", "approval-1", "--as", "dot", "--db", db.url).out

    assert mermaid.startswith("flowchart TD\n")
    assert 'n1["charge"]:::failed' in mermaid
    assert re.search(r'n\d+ \[shape=box, style=dashed, label="[^"]*signal approve\|reject"\];', dot)


def test_the_old_names_work(cli: Cli, db: Shop) -> None:
    assert cli("wf", "ls", "--db", db.url, "-o", "ids").out == cli("ls", "--db", db.url, "-o", "ids").out
    assert "Published on 'x'" in cli("emit", "x", "--db", db.url).out


KINDS = [getattr(errors, name) for name in errors.__all__]
CODES = {kind.code: kind.__name__ for kind in KINDS if issubclass(kind, errors.StepwellError)}


@pytest.fixture(scope="module")
def other_tests() -> str:
    files = [file for file in Path(tests.__file__).parent.rglob("*.py") if file != Path(__file__)]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


@pytest.mark.parametrize("code", sorted(CODES.keys() - {errors.StepwellError.code}))
def test_every_code_has_a_page_and_a_test_that_names_it(cli: Cli, other_tests: str, code: str) -> None:
    said = cli("explain", code.lower(), "-o", "json")

    assert (said.code, said.json["code"]) == (0, code)
    assert said.json["title"]
    assert re.search(rf"\b({CODES[code]}|{code})\b", other_tests), CODES[code]


def test_an_unknown_code_has_near_ones(cli: Cli) -> None:
    said = cli("explain", "SW4007")

    assert said.code == 4
    assert "Did you mean" in said.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_calls_stepwell(cli: Cli, shell: str) -> None:
    assert f"_STEPWELL_COMPLETE={shell}_complete" in cli("completion", shell).out


def test_powershell_asks_for_lines_that_stepwell_gives(cli: Cli, db: Shop) -> None:
    script = cli("completion", "powershell").out
    assert "Register-ArgumentCompleter -Native -CommandName stepwell" in script
    assert "$env:_STEPWELL_COMPLETE = 'zsh_complete'" in script
    asked = {**os.environ, "_STEPWELL_COMPLETE": "zsh_complete", "COMP_WORDS": "stepwell doct", "COMP_CWORD": "1"}
    said = subprocess.run(
        [sys.executable, "-c", "from stepwell.cli.main import stepwell; stepwell(prog_name='stepwell')"],
        env=asked,
        capture_output=True,
        text=True,
    )
    assert said.stdout.splitlines()[:2] == ["plain", "doctor"]


def test_a_shell_is_told_of_runs(db: Shop) -> None:
    asked = {
        **os.environ,
        "_STEPWELL_COMPLETE": "bash_complete",
        "STEPWELL_DB": db.url,
        "COMP_WORDS": "stepwell show dec",
        "COMP_CWORD": "2",
    }
    done = subprocess.run([sys.executable, "-m", "stepwell.cli.main"], env=asked, capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (0, "plain,declined-1\n")
