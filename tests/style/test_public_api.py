"""The public names are a promise: adding or removing one is a change of public_api.txt that a reviewer sees.

Write the snapshot anew with `python -m tests.style.test_public_api --write`.
"""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SNAPSHOT = Path(__file__).with_name("public_api.txt")
MODULES = [
    "stepwell",
    "stepwell.codec",
    "stepwell.errors",
    "stepwell.care",
    "stepwell.hooks",
    "stepwell.http",
    "stepwell.sinks",
    "stepwell.testing",
    "stepwell.views",
]
NAMES_MAX = 60  # of `stepwell` itself: more than a reader can know


def public_names(module: str) -> list[str]:
    return list(importlib.import_module(module).__all__)


def full_names() -> list[str]:
    """Every public name: the names of `stepwell` as programs import them, all others with their module."""
    return [name if module == "stepwell" else f"{module}.{name}" for module in MODULES for name in public_names(module)]


def snapshot() -> list[str]:
    return SNAPSHOT.read_text(encoding="utf-8").split()


def public_values(module: str) -> dict[str, Any]:
    package = importlib.import_module(module)
    return {name: getattr(package, name) for name in public_names(module)}


def test_the_public_names_are_the_ones_that_were_agreed() -> None:
    assert sorted(full_names()) == snapshot(), "if it is meant: python -m tests.style.test_public_api --write"


def test_the_package_itself_has_few_names() -> None:
    assert len(public_names("stepwell")) <= NAMES_MAX


@pytest.mark.parametrize("module", MODULES)
def test_the_public_names_are_listed_once_and_exist(module: str) -> None:
    package = importlib.import_module(module)

    assert len(set(public_names(module))) == len(public_names(module))
    assert [name for name in public_names(module) if not hasattr(package, name)] == []
    assert set(public_names(module)) <= set(dir(package))


@pytest.mark.parametrize("module", MODULES)
def test_every_public_object_has_a_docstring_of_its_own(module: str) -> None:
    values = public_values(module)

    # A constant or a type alias cannot have one; `inspect.getdoc` would show the docstring of a base class.
    texts = {name: vars(value).get("__doc__") for name, value in values.items() if inspect.isclass(value)}
    texts |= {name: value.__doc__ for name, value in values.items() if inspect.isroutine(value)}
    assert [name for name, text in texts.items() if not (text or "").strip()] == []
    assert (importlib.import_module(module).__doc__ or "").strip()


def test_the_docstring_of_the_package_names_every_public_module() -> None:
    text = importlib.import_module("stepwell").__doc__ or ""

    assert [module for module in MODULES if f"`{module}`" not in text and module != "stepwell"] == []


@pytest.mark.parametrize("decorator", ["step", "workflow"])
def test_help_shows_every_option_of_a_decorator(decorator: str) -> None:
    function = public_values("stepwell")[decorator]
    options = inspect.signature(function).parameters

    assert [one for one in options.values() if one.kind in {one.VAR_KEYWORD, one.VAR_POSITIONAL}] == []
    assert [name for name in options if name != "fn" and f"`{name}`" not in (function.__doc__ or "")] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    package: ModuleType = importlib.import_module("stepwell")

    with pytest.raises(AttributeError, match="module 'stepwell' has no attribute 'Engin'"):
        getattr(package, "Engin")  # noqa: B009  a type checker would refuse the plain form


@pytest.mark.parametrize(
    "module", ["stepwell", "stepwell.codec", "stepwell.sinks", "stepwell.views", "stepwell.hooks", "stepwell.care"]
)
def test_importing_a_public_module_loads_no_engine(module: str) -> None:
    code = f"import sys, {module}; print([m for m in sys.modules if m.startswith(('stepwell.engine', 'stepwell.w'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.style.test_public_api --write")
    SNAPSHOT.write_text("".join(f"{name}\n" for name in sorted(full_names())), encoding="utf-8")
