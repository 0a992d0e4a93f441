"""What `ls`, `show`, `doctor`, `versions` and `--help` print on terminals of 80 and 200 columns, compared with files.

`pytest tests/edges/test_golden_output.py --rewrite-golden` writes the files anew: read them before you commit them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from stepwell.clock import Instant
from stepwell.environment import Environment, system_environment
from stepwell.virtual.clock import ManualClock
from tests.edges.conftest import Cli
from tests.edges.story import KEYS, write_story

GOLDEN = Path(__file__).with_name("golden")
ROOT = str(Path(__file__).parents[2])
WIDTHS = (80, 200)
COMMANDS = {
    "ls": ["ls"],
    "ls-all": ["ls", "--all"],
    "doctor": ["doctor"],
    "versions": ["versions"],
    "help": ["--help"],
    **{f"show {name}".replace(" ", "-"): ["show", key] for name, key in KEYS.items()},
    "show-bulk": ["show", "bulk-1"],
}
# What depends on the machine: the place and size of the file, free space, and the version of SQLite.
_MACHINE = {
    re.compile(r"(✓ (?:file|disk|library|size) +).*(?:\n {18}.*)*"): r"\1(depends on the machine)",
    re.compile(rf'File "{re.escape(ROOT)}/'): 'File "',
}
# Frames of stepwell itself change with its code.
_OWN_FRAME = re.compile(r'( *)File "src/stepwell/[^"]+", line \d+, in (\w+)\n(?:\1  .*\n)*')


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Instant]:
    file, now = write_story(tmp_path_factory.mktemp("story"))
    return f"sqlite:///{file}", now


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, story: tuple[str, Instant]) -> str:
    """The URL of the story, on a terminal, at the time of the story."""

    def environment(_: str) -> Environment:
        return replace(system_environment(), clock=ManualClock(story[1]))

    monkeypatch.setattr("stepwell.cli.dev.clock.environment_of", environment)
    monkeypatch.setattr("stepwell.cli.output._is_terminal", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    return story[0]


def _normal(text: str) -> str:
    for pattern, words in _MACHINE.items():
        text = pattern.sub(words, text)
    return _OWN_FRAME.sub(r'\1File "src/stepwell/…", in \2' + "\n", text)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_terminal_shows_what_the_golden_file_has(
    cli: Cli, at: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, name: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    said = cli("--db", at, *COMMANDS[name])
    shown = _normal(said.out + said.err)

    file = GOLDEN / f"{name}.{width}.txt"
    if request.config.getoption("--rewrite-golden"):
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", WIDTHS)
def test_only_tracebacks_are_wider_than_the_terminal(width: int) -> None:
    for file in GOLDEN.glob(f"*.{width}.txt"):
        told = file.read_text(encoding="utf-8").partition("traceback of")[0]
        assert [line for line in told.splitlines() if len(line) > width] == [], file.name


def test_every_golden_file_belongs_to_a_command() -> None:
    assert {file.name for file in GOLDEN.iterdir()} == {f"{name}.{width}.txt" for name in COMMANDS for width in WIDTHS}
