"""`stepwell new`: three files, or a reason why not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell.cli.main import main


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_three_files_are_written_and_the_next_command_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "hello"]) == 0

    assert sorted(file.name for file in (tmp_path / "hello").iterdir()) == ["README.md", "app.py", "test_app.py"]
    assert (tmp_path / "hello" / "README.md").read_text().startswith("# hello\n")
    assert capsys.readouterr().out.splitlines()[-1] == "Next:  cd hello && stepwell dev"


def test_an_empty_folder_is_filled_and_programs_are_told_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop").mkdir()

    assert main(["new", "shop", "-o", "json"]) == 0

    assert json.loads(capsys.readouterr().out)["files"] == ["app.py", "test_app.py", "README.md"]


@pytest.mark.parametrize("name", ["", " ", "a b", "../up", "/tmp/x", "1st", ".", "..", "-", "é", "a" * 61, "a\n"])
def test_a_name_that_cannot_be_one_is_refused_with_a_code(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "--", name]) == 2

    assert re.match(r"SW103  .* is not a valid project name\n", capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["a file in it", "a file", "a link"])
def test_what_exists_is_never_written_over(tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    taken = tmp_path / "taken"
    if what == "a file in it":
        taken.mkdir()
        (taken / "mine.txt").write_text("mine")
    elif what == "a file":
        taken.write_text("mine")
    else:
        (tmp_path / "elsewhere").mkdir()
        taken.symlink_to(tmp_path / "elsewhere")
    before = sorted(tmp_path.rglob("*"))

    assert main(["new", "taken"]) == 2

    assert "SW103  taken already exists" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_the_project_is_as_clean_as_this_one(tmp_path: Path) -> None:
    main(["new", "hello"])
    folder = tmp_path / "hello"
    tools = [
        ["-m", "ruff", "check", "--isolated", "--line-length", "120", "."],
        ["-m", "ruff", "format", "--isolated", "--line-length", "120", "--check", "."],
        ["-m", "stepwell.cli.main", "check", "app.py", "--strict"],
    ]

    said = [subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True) for words in tools]

    assert [one.returncode for one in said] == [0, 0, 0], "".join(one.stdout + one.stderr for one in said)


def test_a_project_without_app_py_is_told_how_to_get_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dev"]) == 4

    said = capsys.readouterr().err
    assert said.startswith("SW401  there is no file 'app.py'")
    assert "stepwell new hello" in said


def test_only_its_own_database_is_ever_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["new", "hello"])
    (tmp_path / "shop.db").write_bytes(b"mine")

    assert main(["dev", "hello/app.py", "--fresh", "--db", "sqlite:///shop.db"]) == 2

    assert "--fresh deletes only the database of stepwell dev" in capsys.readouterr().err
    assert (tmp_path / "shop.db").read_bytes() == b"mine"
