"""Errors: words on stderr, codes that scripts can rely on, never a raw traceback."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import click
import pytest

from stepwell import errors
from stepwell.cli import main as entry
from stepwell.cli.errors import describe
from stepwell.errors import RollbackIncomplete
from tests.edges.conftest import APP, Cli, Shop


def _leaves(kind: type[errors.StepwellError]) -> list[type[errors.StepwellError]]:
    """It and all below it that we have; what stores, authors and other tests make of them is theirs."""
    below = [sub for sub in kind.__subclasses__() if getattr(errors, sub.__name__, None) is sub]
    return [kind, *(leaf for sub in below for leaf in _leaves(sub))]


def test_every_error_has_an_exit_code_by_its_group() -> None:
    groups = {
        errors.StoreError: 6,
        errors.DefinitionError: 2,
        errors.RunError: 7,
        errors.ReplayError: 7,
        errors.RequestError: 2,
    }
    special = {
        errors.NotFoundError: 4,
        errors.UnknownWorkflowError: 4,
        errors.RunEndedError: 4,
        errors.InvalidMoveError: 5,
        errors.RepairConflictError: 5,
        errors.RunHeldError: 5,
        errors.AlreadyExistsError: 5,
        errors.ResultTimeout: 8,
    }
    for group, code in groups.items():
        for leaf in _leaves(group):
            error = leaf.__new__(leaf)
            errors.StepwellError.__init__(error, "title")
            if isinstance(error, errors.InvalidInputError):
                error.violations = ()
            assert describe(error)[1] == special.get(leaf, code), leaf


def test_looking_at_a_database_that_is_not_there_does_not_make_one(cli: Cli, tmp_path: Path) -> None:
    said = cli("ls", "--db", f"sqlite:///{tmp_path}/typo.db", "-o", "json")

    assert (said.code, said.error["code"]) == (6, "SW600")
    assert list(tmp_path.iterdir()) == []


def test_a_database_of_a_newer_stepwell_is_refused_with_both_versions(cli: Cli, db: Shop) -> None:
    file = db.url.removeprefix("sqlite:///")
    connection = apsw.Connection(file)
    ours = connection.pragma("user_version")
    connection.pragma("user_version", 999)
    connection.close()
    said = cli("ls", "--db", db.url, "-o", "json")

    assert (said.code, said.error["code"]) == (6, "SW611")
    text = " ".join(said.error.values())
    assert re.search(r"\b999\b", text)
    assert re.search(rf"\b{ours}\b", text)


@pytest.mark.parametrize("content", [b"this is a letter, not a database, and it is long enough to be one" * 20, None])
def test_a_file_of_somebody_else_is_refused_and_left_alone(cli: Cli, tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "other.db"
    if content is None:
        connection = apsw.Connection(str(file))
        connection.execute("create table cats (name)")
        connection.close()
        content = file.read_bytes()
    file.write_bytes(content)
    for words in (["ls"], ["start", "checkout", "customer=a", "amount:=1", "--app", APP]):
        said = cli(*words, "--db", f"sqlite:///{file}", "-o", "json")

        assert (said.code, said.error["code"]) == (6, "SW612")
    assert file.read_bytes() == content


def test_a_folder_that_cannot_be_written_is_explained(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    words = ["start", "checkout", "customer=a", "amount:=1", "--app", APP]
    said = cli(*words, "--db", f"sqlite:///{tmp_path}/file/shop.db", "-o", "json")

    assert (said.code, said.error["code"]) == (6, "SW613")


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may write everywhere, so it becomes nobody for a while."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_a_read_only_folder_is_explained(cli: Cli, db: Shop) -> None:
    assert cli("ls", "--db", db.url).code == 0
    with TemporaryDirectory() as name:  # pytest's own folders are closed to others
        folder = Path(name)
        (folder / "shop.db").write_bytes(Path(db.url.removeprefix("sqlite:///")).read_bytes())
        (folder / "shop.db").chmod(0o444)
        folder.chmod(0o555)
        try:
            with without_privileges():
                said = cli("ls", "--db", f"sqlite:///{folder}/shop.db", "-o", "json")
        finally:
            folder.chmod(0o700)

    assert (said.code, said.error["code"]) == (6, "SW613")


def test_a_url_that_means_nothing_is_wrong_usage(cli: Cli) -> None:
    said = cli("ls", "--db", "shop.db", "-o", "json")

    assert (said.code, said.error["code"]) == (2, "SW103")
    assert "sqlite:///" in said.error["fix"]


@pytest.mark.parametrize(
    "words", [["ls", "--limit", "many"], ["ls", "--status", "odd"], ["show"], ["ls", "--nope"], ["rollback", "resume"]]
)
def test_wrong_usage_is_exit_code_2_in_words_and_in_json(cli: Cli, words: list[str]) -> None:
    plain, body = cli(*words), cli(*words, "--output=json")

    assert (plain.code, body.code) == (2, 2)
    assert plain.err.startswith("SW400  ")
    assert "--help" in plain.err
    assert body.error["code"] == "SW400"


def test_an_error_has_the_same_fields_in_words_and_in_json(cli: Cli, db: Shop) -> None:
    body = cli("show", "nobody", "-o", "json", "--db", db.url).error
    words = cli("show", "nobody", "--db", db.url)

    assert set(body) == {"code", "message", "where", "why", "fix"}
    assert words.err.startswith(f"{body['code']}  {body['message']}")


def test_a_bug_of_ours_leaves_a_report_without_values(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def explode(*_: object, **__: object) -> None:
        raise KeyError("secret payload")

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(entry.stepwell, "main", explode)
    said = cli("ls")

    (report,) = tmp_path.glob("stepwell-report-*")
    assert said.code == 1
    assert said.err.startswith("SW999  ")
    assert str(report) in said.err
    assert "explode" in (text := report.read_text())
    assert "secret" not in text.replace('raise KeyError("secret payload")', "")


def test_the_traceback_is_shown_only_when_asked_for(cli: Cli, tmp_path: Path) -> None:
    words = ["ls", "--db", f"sqlite:///{tmp_path}/no.db"]

    assert "Traceback" not in cli(*words).err
    assert "Traceback" in cli(*words, "--debug").err
    assert cli("--debug", *words).code == 6


def test_an_interrupt_is_exit_code_130(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise click.exceptions.Abort

    monkeypatch.setattr(entry.stepwell, "main", interrupt)

    assert cli("ls").code == 130


def test_a_fix_is_given_in_commands() -> None:
    error = RollbackIncomplete("a-1", None, 2)

    assert error.fix == "fix the cause, then: engine.repairs.resume_rollback('a-1')"
    assert describe(error)[0]["fix"] == "fix the cause, then: stepwell rollback resume a-1"


def test_an_error_in_json_has_the_hint_that_people_get(cli: Cli, db: Shop) -> None:
    wrong, missing = ("ls", "--no-such"), ("show", "nobody", "--db", db.url)

    assert cli(*wrong, "-o", "json").error["fix"] == "stepwell ls --help"
    assert "  fix     stepwell ls --help" in cli(*wrong).err
    assert cli(*missing, "-o", "json").error["fix"] == "stepwell ls"
    assert "  fix     stepwell ls" in cli(*missing).err
