"""Finds the function of a request in the child."""

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
from stepwell.worker.isolation.frames import BodyRequest

SCRIPT: Final = "__stepwell_script__"
"""The module name of a script here. It is not `__main__`, so that the script only defines its functions."""

_loading: list[str] = []


def loading() -> str:
    """The module that this process is loading for its parent; empty if none."""
    return _loading[-1] if _loading else ""


def loaded_as(request: BodyRequest) -> str:
    """The name of the function's module in this process."""
    return SCRIPT if request.module == "__main__" else request.module


def find_function(request: BodyRequest) -> Callable[..., Any]:
    """The function itself, without its `@step` wrapper. Raises what its module raises when it is imported."""
    _loading.append(request.module)
    try:
        module = _load(loaded_as(request), request.file)
    finally:
        _loading.pop()
    found: Any = module
    for part in request.name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Step):
        found = found.fn
    if isinstance(found, Isolated):
        found = found.func
    code = getattr(found, "__code__", None)
    if code is None or code.co_qualname != request.code_name:
        raise DefinitionError(
            f"{request.own_module} has no function {request.name} that runs {request.code_name}",
            where=request.file,
            why="another process finds a step by its name" if code else "the file may have changed since it was loaded",
            fix="define the step at the top level of its module under this name, and restart the worker after a change",
        )
    return found  # type: ignore[no-any-return]


def _load(name: str, file: str) -> ModuleType:
    """The module, imported by name if that finds the same file, else loaded from the file."""
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
    except (ImportError, ValueError):  # a parent package is missing, or is not a package
        return None
    return Path(spec.origin).resolve() if spec is not None and spec.origin else None
