"""The public names are a promise: adding or removing one is a change of public_api.txt that a reviewer sees.

Write the snapshot anew with `python -m tests.style.test_public_api --write`.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

SNAPSHOT = Path(__file__).with_name("public_api.txt")


def public_names() -> list[str]:
    return list(importlib.import_module("stepwell").__all__)


def snapshot() -> list[str]:
    return SNAPSHOT.read_text(encoding="utf-8").split()


def test_the_public_names_are_the_ones_that_were_agreed() -> None:
    assert sorted(public_names()) == snapshot(), "if it is meant: python -m tests.style.test_public_api --write"


def test_the_public_names_are_listed_once_and_exist() -> None:
    package = importlib.import_module("stepwell")

    assert len(set(public_names())) == len(public_names())
    assert [name for name in public_names() if not hasattr(package, name)] == []


def test_every_public_object_has_a_docstring_of_its_own() -> None:
    package = importlib.import_module("stepwell")
    values = {name: getattr(package, name) for name in public_names()}

    # A constant or a type alias cannot have one; a class would show its base's if asked politely.
    texts = {name: vars(value).get("__doc__") for name, value in values.items() if inspect.isclass(value)}
    texts |= {name: value.__doc__ for name, value in values.items() if inspect.isroutine(value)}
    assert [name for name, text in texts.items() if not (text or "").strip()] == []


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.style.test_public_api --write")
    SNAPSHOT.write_text("".join(f"{name}\n" for name in sorted(public_names())), encoding="utf-8")
