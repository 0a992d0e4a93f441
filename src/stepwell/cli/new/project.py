"""Writes a new project."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Final

from stepwell.errors import InvalidOptionError

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")
_TITLE: Final = "PROJECT_NAME"  # where a template has the name

# The files of a project, with their contents in words.
CONTENTS: Final = {
    "app.py": "a three-step order workflow with a wait, a reminder and an undo",
    "test_app.py": '4 tests, one of them "survives a crash at every point"',
    "README.md": "what to try next",
}


def write_project(name: str, *, within: Path) -> Path:
    """Create the folder of a project and fill it.

    Raises `InvalidOptionError` for an invalid name, and for a folder that is not empty.
    """
    if not _NAME.fullmatch(name):
        raise InvalidOptionError(
            f"{name!r} is not a valid project name",
            where="NAME",
            why="a name begins with a letter and has at most 60 letters, digits, - and _",
            fix="stepwell new hello",
        )
    folder = within / name
    if folder.is_symlink() or (folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))):
        raise InvalidOptionError(
            f"{name} already exists",
            where=str(folder),
            why="a new project never overwrites files",
            fix=f"choose another name, such as {name[:55]}-2",
        )
    texts = {file: _read_template(file).replace(_TITLE, name) for file in CONTENTS}
    try:
        folder.mkdir(exist_ok=True)
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise InvalidOptionError(
            f"cannot write {name}: {error.strerror or error}",
            where=str(folder),
            fix="use a folder that you can write to",
        ) from error
    return folder


def _read_template(file: str) -> str:
    # The ending .txt keeps templates from being modules or tests of this package.
    return (files("stepwell.cli.new") / "templates" / f"{file}.txt").read_text(encoding="utf-8")
