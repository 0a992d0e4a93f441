"""The page about changing code is carried out, block by block, and prints what it says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "changing-code.md"
SOURCES = Path(__file__).parents[2] / "src"
BLOCK = re.compile(r"```(python|console)\n(.*?)```", re.DOTALL)
EXIT = re.compile(r"\s+# exit code (\d+)$")


def _matches(expected: list[str], said: list[str]) -> bool:
    """Whether lines are those of the page. A line of only … stands for any lines, and … within a line for any text."""
    if not expected:
        return not said
    first, *rest = expected
    if first.strip() == "…":
        return any(_matches(rest, said[skipped:]) for skipped in range(len(said) + 1))
    pattern = ".*".join(re.escape(part) for part in first.split("…"))
    return bool(said) and re.fullmatch(pattern, said[0]) is not None and _matches(rest, said[1:])


def _run(command: str, folder: Path) -> tuple[int, list[str]]:
    words = shlex.split(EXIT.sub("", command))
    program = [sys.executable] if words[0] == "python" else [sys.executable, "-m", "stepwell.cli.main"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}
    done = subprocess.run(
        [*program, *words[1:]], cwd=folder, capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout.splitlines()


def test_the_page_about_changing_code_does_what_it_says(tmp_path: Path) -> None:
    commands = 0
    for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "python":
            name = text.partition("\n")[0].removeprefix("# ")
            (tmp_path / name).write_text(text)
            continue
        for block in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, *expected = block.rstrip("\n").split("\n")
            code, said = _run(command, tmp_path)
            wanted = EXIT.search(command)
            assert code == (int(wanted[1]) if wanted else 0), (command, said)
            assert _matches(expected, said), (command, said)
            commands += 1
    assert commands == 8


@pytest.mark.parametrize(
    ("expected", "said", "is_same"),
    [
        (["a", "…", "d"], ["a", "b", "c", "d"], True),
        (["a …"], ["a b"], True),
        (["a"], ["b"], False),
        (["a"], ["a", "b"], False),
        (["a", "…", "d"], ["a", "b"], False),
    ],
)
def test_what_the_page_says_is_compared(expected: list[str], said: list[str], is_same: bool) -> None:
    assert _matches(expected, said) is is_same
