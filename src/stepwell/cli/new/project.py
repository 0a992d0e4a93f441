"""Writes a new project, whole or not at all."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Final

from stepwell.errors import InvalidOptionError

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")
_TITLE: Final = "PROJECT_NAME"  # where a template has the name

# What is written, and what it is, in the order in which people look.
CONTENTS: Final = {
    "app.py": "a three-step order workflow with a wait, a reminder and an undo",
    "test_app.py": '4 tests, one of them "survives a crash at every point"',
    "README.md": "what to try next",
}


def write_project(name: str, *, within: Path) -> Path:
    """Make the folder of a project and fill it.

    Raises `InvalidOptionError` for a name that cannot be one, and for a folder in which something is already.
    """
    if not _NAME.fullmatch(name):
        raise InvalidOptionError(
            f"a project cannot be called {name!r}",
            where="NAME",
            why="a name begins with a letter and has at most 60 letters, digits, - and _",
            fix="stepwell new hello",
        )
    folder = within / name
    if folder.is_symlink() or (folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))):
        raise InvalidOptionError(
            f"{name} exists already",
            where=str(folder),
            why="a new project never writes over what is there",
            fix=f"choose another name, such as {name[:55]}-2",
        )
    texts = {file: _read_template(file).replace(_TITLE, name) for file in CONTENTS}
    try:
        folder.mkdir(exist_ok=True)
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise InvalidOptionError(
            f"cannot write {name}: {error.strerror or error}", where=str(folder), fix="go to a folder that is yours"
        ) from error
    return folder


def _read_template(file: str) -> str:
    # Another ending, so that nobody takes a template for a module or a test of this package.
    return (files("stepwell.cli.new") / "templates" / f"{file}.txt").read_text(encoding="utf-8")
