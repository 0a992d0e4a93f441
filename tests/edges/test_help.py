"""Help: quick because nothing heavy is imported, and useful because each has an example."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from stepwell.cli.main import GROUPS, stepwell
from tests.edges.conftest import Cli

COMMANDS = stepwell.list_commands(click.Context(stepwell))
HEAVY = (
    "rich",
    "apsw",
    "msgspec",
    "asyncio",
    "stepwell.wiring",
    "stepwell.engine.backend",
    "stepwell.engine.views",
    "stepwell.worker",
    "stepwell.replay",
)


def _modules_after(code: str) -> set[str]:
    show = "import json, sys; print('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{show}"], capture_output=True, check=True, text=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import stepwell.cli.main",
        "import stepwell.cli.main; stepwell.cli.main.main(['--help'])",
        *(
            f"import stepwell.cli.main; stepwell.cli.main.main(['{name}', '--help'])"
            for name in ("start", "worker", "demo")
        ),
    ],
)
def test_help_imports_neither_the_engine_nor_a_driver(code: str) -> None:
    assert _modules_after(code) & set(HEAVY) == set()


def test_the_package_itself_imports_nothing_until_a_name_is_used() -> None:
    before = _modules_after("import stepwell")
    after = _modules_after("from stepwell import Engine, workflow, Retry")

    assert before & set(HEAVY) == set()
    assert "stepwell.wiring" in after


def _paths() -> Iterator[list[str]]:
    """Every command, and every command of a group."""
    for name in COMMANDS:
        yield [name]
        found = stepwell.get_command(click.Context(stepwell), name)
        if isinstance(found, click.Group):
            yield from ([name, each] for each in found.commands)


@pytest.mark.parametrize("words", list(_paths()), ids=" ".join)
def test_every_help_shows_a_real_example(cli: Cli, words: list[str]) -> None:
    said = cli(*words, "--help")

    assert said.code == 0
    assert f"stepwell {' '.join(words)}" in said.out.split("Example:")[1] or "worker" in words


def test_the_help_lists_every_command_in_its_group_with_a_summary(cli: Cli) -> None:
    lines = cli("--help").out.splitlines()
    titles = [f"{title}:" for title in GROUPS]
    begin, end = lines.index(titles[0]), lines.index("Options:")

    listed = [line.split(maxsplit=1) for line in lines[begin:end] if line.startswith("  ")]
    assert [name for name, _ in listed] == COMMANDS
    assert [line for line in lines[begin:end] if line and not line.startswith(" ")] == titles
    assert max(map(len, lines)) <= 80


def test_the_help_imports_no_module_of_a_command() -> None:
    imported = _modules_after("import stepwell.cli.main; stepwell.cli.main.main(['--help'])")

    assert not [name for name in imported if name.startswith("stepwell.cli.commands")]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_listed_command_exists(name: str) -> None:
    assert stepwell.get_command(click.Context(stepwell), name) is not None


@pytest.mark.parametrize(("word", "near"), [("shwo", "'show'"), ("signl", "'signal'"), ("re", "'result' or")])
def test_an_unknown_command_is_exit_code_2_with_a_suggestion(cli: Cli, word: str, near: str) -> None:
    said = cli(word, "x")

    assert said.code == 2
    assert f"Did you mean {near}" in said.err


def test_an_unambiguous_beginning_of_a_command_is_enough(cli: Cli) -> None:
    assert "Usage: stepwell history" in cli("hist", "--help").out


def test_the_version_is_printed(cli: Cli) -> None:
    assert cli("--version").out.startswith("stepwell ")


_COLLECTOR = """
import atexit, gc, sys
atexit.register(lambda: print(gc.get_freeze_count() > 0))
gc.set_threshold({before}, 7, 8)
from stepwell.cli.main import main
sys.argv = ["stepwell", "--help"]
main({words})
print(gc.get_threshold())
"""


@pytest.mark.parametrize(
    ("words", "before", "after"),
    [
        ("", 700, ["(100000, 7, 8)", "True"]),
        ("", 0, ["(0, 7, 8)", "True"]),
        ("", 900_000, ["(900000, 7, 8)", "True"]),
        ("sys.argv[1:]", 700, ["(700, 7, 8)", "False"]),
    ],
    ids=["a process", "collecting nothing", "collecting seldom", "a call in somebody else's process"],
)
def test_only_the_process_of_a_command_settles_its_collector(words: str, before: int, after: list[str]) -> None:
    code = _COLLECTOR.format(words=words, before=before)
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert said.stdout.splitlines()[-2:] == after
