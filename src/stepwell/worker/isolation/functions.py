"""Finds, in the child, the function that the parent means."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from stepwell.errors import DefinitionError
from stepwell.replay.isolation import Isolated
from stepwell.replay.steps import Step
from stepwell.worker.isolation.frames import Order

SCRIPT: Final = "__stepwell_script__"
"""What a script is called here: not `__main__`, so that it defines its functions and does not start its work again."""

_loading: list[str] = []


def loading() -> str:
    """The module that this process loads for its parent at this moment; empty if none."""
    return _loading[-1] if _loading else ""


def loaded_as(order: Order) -> str:
    """What the function's module is called in this process."""
    return SCRIPT if order.module == "__main__" else order.module


def find_function(order: Order) -> Callable[..., Any]:
    """The function itself, without what `@step` made of it. Raises what its module raises when it is imported."""
    _loading.append(order.module)
    try:
        module = _load(loaded_as(order), order.file)
    finally:
        _loading.pop()
    found: Any = module
    for part in order.name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Step):
        found = found.fn
    if isinstance(found, Isolated):
        found = found.func
    code = getattr(found, "__code__", None)
    if code is None or code.co_qualname != order.code_name:
        raise DefinitionError(
            f"{order.own_module} has no function {order.name} that runs {order.code_name}",
            where=order.file,
            why="another process finds a step by its name" if code else "the file may have changed since it was loaded",
            fix="let the name stand for the step at the top of its module; restart the worker after a change",
        )
    return found  # type: ignore[no-any-return]


def _load(name: str, file: str) -> ModuleType:
    """The module as an import gives it if that is the same file, else from its file under the same name."""
    if not file or _origin(name) == Path(file):
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        return importlib.import_module(name)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _origin(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # a package above it is not to be found, or is no package
        return None
    return Path(spec.origin).resolve() if spec is not None and spec.origin else None
