"""Settings: the constructor comes first, then the environment, then a file, then the default."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepwell import WorkerSettings
from stepwell.errors import InvalidOptionError
from stepwell.setting_sources import Found, Origin, Sources, find_database, read_settings


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, text: str, name: str = "stepwell.toml") -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def test_a_setting_comes_from_the_constructor_then_the_environment_then_the_file_then_the_default(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    write(folder, 'lease = "7s"\nname = "file"\nruns_max = 3\n')
    monkeypatch.setenv("STEPWELL_NAME", "variable")
    monkeypatch.setenv("STEPWELL_LEASE", "6s")

    found = Sources().settings(WorkerSettings(lease="5s"), where="app.py:app")

    assert found["lease"] == Found("5s", Origin("constructor", "app.py:app"))
    assert found["name"] == Found("variable", Origin("environment", "STEPWELL_NAME"))
    assert found["runs_max"] == Found(3, Origin("file", "stepwell.toml:3"))
    assert found["stalls_max"] == Found(5, Origin("default"))


def test_a_default_that_the_constructor_was_given_counts_as_given(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STEPWELL_LEASE", "6s")

    assert read_settings(WorkerSettings(lease="10s")).lease == "10s"
    assert read_settings(WorkerSettings()).lease == "6s"


def test_complete_settings_are_taken_as_they_are(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STEPWELL_NAME", "variable")
    complete = WorkerSettings(lease="5s").completed()

    assert read_settings(complete) is complete


def test_an_empty_variable_is_not_set(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STEPWELL_NAME", "")

    assert read_settings().name == "worker"


def test_the_file_of_the_nearest_folder_counts(folder: Path, monkeypatch: pytest.MonkeyPatch):
    write(folder, 'name = "far"\nlease = "3s"\n')
    write(folder / "near", '[project]\nname = "x"\n[tool.stepwell]\n\nname = "near"\n', "pyproject.toml")
    write(folder / "near" / "inner", '[project]\nname = "y"\n', "pyproject.toml")
    monkeypatch.chdir(folder / "near" / "inner")

    found = Sources().settings()

    assert found["name"] == Found("near", Origin("file", f"{folder}/near/pyproject.toml:5"))
    assert found["lease"].origin.kind == "default"


def test_a_file_that_has_changed_is_read_again(folder: Path):
    write(folder, 'name = "one"\n')
    assert read_settings().name == "one"
    write(folder, 'name = "another"\n')

    assert read_settings().name == "another"


def test_paths_of_a_file_are_relative_to_its_folder(folder: Path, monkeypatch: pytest.MonkeyPatch):
    write(folder, 'db = "sqlite:///shop.db?shared=1"\napp = "shop.orders:app"\ntokens = "my.tokens"\n')
    write(folder / "shop", "", "orders.py")
    here = Sources()
    monkeypatch.chdir(folder / "shop")
    below = Sources()

    assert [here.find(key).value for key in ("db", "app", "tokens")] == [
        "sqlite:///shop.db?shared=1",
        "shop.orders:app",
        "my.tokens",
    ]
    assert [below.find(key).value for key in ("db", "app", "tokens")] == [
        f"sqlite:///{folder}/shop.db?shared=1",
        f"{folder}/shop/orders.py:app",
        f"{folder}/my.tokens",
    ]


@pytest.mark.parametrize(
    ("name", "meant"), [("STEPWELL_LEAS", "STEPWELL_LEASE"), ("STEPWELL_RUN_MAX", "STEPWELL_RUNS_MAX")]
)
def test_an_unknown_variable_is_an_error_that_names_the_nearest(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, meant: str
):
    monkeypatch.setenv(name, "5s")

    with pytest.raises(InvalidOptionError, match=f"{name} is not a setting. Did you mean .*{meant}") as caught:
        read_settings()
    assert caught.value.where == f"environment variable {name}"


def test_secrets_of_hooks_and_variables_of_tests_are_not_settings(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STEPWELL_HOOK_SHOP", "secret")
    monkeypatch.setenv("STEPWELL_TEST_POSTGRES", "postgresql://")

    assert read_settings() == WorkerSettings()


@pytest.mark.parametrize(
    ("text", "where", "title"),
    [
        ('\nleas = "5s"\n', "stepwell.toml:2", "'leas' is not a setting. Did you mean lease?"),
        ("[worker]\nlease = 1\n", "stepwell.toml:1", "'worker' is not a setting"),
        ('# lease\nlease = "soon"\n', "stepwell.toml:2, key lease", "lease: cannot read the duration 'soon'"),
        ('runs_max = "9"\n', "stepwell.toml:1, key runs_max", "runs_max is '9', which is not a whole number"),
        ("runs_max = true\n", "stepwell.toml:1, key runs_max", "runs_max is True, which is not a whole number"),
        ("name = 4\n", "stepwell.toml:1, key name", "name is 4, which is not a text"),
        ("lease = [1]\n", "stepwell.toml:1, key lease", "lease is [1], which is not a duration"),
        ('mode = "fast"\n', "stepwell.toml:1, key mode", "mode is 'fast'"),
        (
            "runs_max = 0\n",
            "stepwell.toml:1, key runs_max",
            "runs_max, stalls_max, threads_max, entries_max and signals_max must be at least 1",
        ),
        ("lease = \n", "stepwell.toml", "stepwell.toml is not valid TOML"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_line(folder: Path, text: str, where: str, title: str):
    write(folder, text)

    with pytest.raises(InvalidOptionError) as caught:
        read_settings()
    assert caught.value.where == where
    assert caught.value.title.startswith(title)


@pytest.mark.parametrize(
    ("name", "value"), [("STEPWELL_RUNS_MAX", "many"), ("STEPWELL_LEASE", "30"), ("STEPWELL_MODE", "fast")]
)
def test_a_variable_that_cannot_be_read_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str):
    monkeypatch.setenv(name, value)

    with pytest.raises(InvalidOptionError) as caught:
        read_settings()
    assert caught.value.where == f"environment variable {name}"


def test_two_files_in_one_folder_are_an_error(folder: Path):
    write(folder, 'name = "a"\n')
    write(folder, '[tool.stepwell]\nname = "b"\n', "pyproject.toml")

    with pytest.raises(InvalidOptionError, match=r"stepwell.toml and \[tool.stepwell\] of pyproject.toml both have"):
        read_settings()


def test_a_file_above_the_current_folder_that_another_user_owns_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    write(folder, 'app = "evil.py"\n')
    write(folder / "mine", "", "notes.txt")
    if os.geteuid() == 0:
        os.chown(folder / "stepwell.toml", 12_345, -1)
    owner = (folder / "stepwell.toml").stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    Sources()  # the file of the current folder is as trusted as the code in it
    monkeypatch.chdir(folder / "mine")

    with pytest.raises(InvalidOptionError, match="belongs to another user"):
        Sources()


def test_without_a_url_the_database_is_that_of_the_environment_the_file_dev_or_the_default(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    assert find_database(None) == Found("sqlite:///stepwell.db", Origin("default"))
    (folder / ".stepwell").mkdir()
    (folder / ".stepwell" / "dev.db").touch()
    assert find_database(None) == Found("sqlite:///.stepwell/dev.db", Origin("default", "stepwell dev"))
    write(folder, 'db = "sqlite:///file.db"\n')
    assert find_database(None) == Found("sqlite:///file.db", Origin("file", "stepwell.toml:1"))
    monkeypatch.setenv("STEPWELL_DB", "memory:")
    assert find_database(None) == Found("memory:", Origin("environment", "STEPWELL_DB"))
    assert find_database("sqlite:///a.db", where="app.py:app").origin == Origin("constructor", "app.py:app")


def test_rules_of_alerts_are_read_with_their_lines(folder: Path):
    write(folder, 'lease = "5s"\n\n[alerts."orders fail"]\ncount = 5\nwithin = "10m"\n[alerts.idle]\nstalled = "1d"\n')

    assert Sources().alerts() == {
        "orders fail": Found({"count": 5, "within": "10m"}, Origin("file", "stepwell.toml:3")),
        "idle": Found({"stalled": "1d"}, Origin("file", "stepwell.toml:6")),
    }
    assert read_settings().lease == "5s"


def test_rules_of_alerts_may_be_in_pyproject(folder: Path):
    write(folder, '[tool.stepwell]\nname = "a"\n[tool.stepwell.alerts.idle]\nstalled = "1d"\n', "pyproject.toml")

    assert Sources().alerts() == {"idle": Found({"stalled": "1d"}, Origin("file", "pyproject.toml:3"))}


@pytest.mark.parametrize("text", ["alerts = 5\n", "[alerts]\ncount = 5\n", "[[alerts]]\ncount = 5\n"])
def test_rules_without_a_name_are_an_error(folder: Path, text: str):
    write(folder, text)

    with pytest.raises(InvalidOptionError, match="not a table of rules") as caught:
        Sources().alerts()
    assert caught.value.where.startswith("stepwell.toml")


def test_without_rules_there_are_none(folder: Path):
    assert Sources().alerts() == {}
    write(folder, 'name = "a"\n')
    assert Sources().alerts() == {}
