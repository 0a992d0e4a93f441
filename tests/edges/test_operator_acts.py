"""Commands of operators: mark an effect as undone, print published state, debug a recorded run, fork to a version."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tests.edges.conftest import APP, Cli, Shop


def test_an_effect_is_marked_as_undone(cli: Cli, db: Shop) -> None:
    assert cli("rollback", "mark-undone", "stuck-1", "reserve", "--db", db.url).code == 2  # without a reason
    unknown = cli("rollback", "mark-undone", "stuck-1", "reserv", "--reason", "by hand", "--db", db.url)
    said = cli("rollback", "mark-undone", "stuck-1", "reserve", "--reason", "by hand", "--db", db.url)
    again = cli("rollback", "mark-undone", "stuck-1", "reserve", "--reason", "by hand", "--db", db.url)

    assert (unknown.code, "Did you mean 'reserve'" in unknown.err) == (4, True)
    assert said.code == 0, said.err
    assert said.out.startswith("Marked as undone, rollback resumed")
    assert again.code != 0
    assert "by hand" in cli("show", "stuck-1", "--db", db.url).out


def test_published_state_is_printed(cli: Cli, db: Shop) -> None:
    said = cli("state", "checkout-1", "--db", db.url)

    assert (said.code, said.out) == (0, "null\n")
    assert cli("state", "checkout-1", "x", "--db", db.url, "-o", "json").json["value"] is None
    waited = cli("state", "approval-1", "x", "--wait", "10ms", "--db", db.url)
    assert waited.code != 0
    assert "has published no state 'x' within" in waited.err


def test_a_recorded_run_is_debugged(cli: Cli, db: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("c\n"))
    said = cli("debug", "checkout-1", "reserve", "--db", db.url, "--app", APP)

    assert said.code == 0, said.err
    assert "(Pdb)" in said.out
    assert "The code has returned." in said.err
    file = tmp_path / "run.json"
    cli("export", "checkout-1", "--db", db.url, "-o", str(file))
    monkeypatch.setattr(sys, "stdin", io.StringIO("c\n"))
    assert cli("debug", str(file), "reserve", "--app", APP).code == 0
    assert cli("debug", "checkout-1", "reserv", "--db", db.url, "--app", APP).code == 4
    assert cli("debug", "checkout-1", "--db", db.url).code == 2


def test_a_fork_takes_a_version(cli: Cli, db: Shop) -> None:
    words = ["fork", "declined-1", "--from", "charge", "--dry-run", "--db", db.url]

    assert "version: 7 instead of 1" in cli(*words, "--version", "7").out
    assert cli(*words, "--version", "x").code == 2
