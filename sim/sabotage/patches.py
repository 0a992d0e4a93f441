"""What switches are made of."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from stepwell.stores.sqlite.texts import SQL

Patches = list[tuple[Any, str, Any]]  # whose attribute, its name, what it becomes
Switches = dict[str, Callable[[], Patches]]


def switches(*made: Callable[[], Patches]) -> Switches:
    """Functions that make patches, each by its name."""
    return {one.__name__.replace("_", "-"): one for one in made}


def nothing(*_: Any, **__: Any) -> None:
    """In the place of a function that does something."""
    return


def statement(name: str, old: str, new: str) -> Patches:
    """One statement of the SQLite store with a piece of its text changed, wherever it has been kept under a name."""
    right = SQL[name]
    assert old in right, f"{name} has changed: {right}"
    wrong = right.replace(old, new)
    kept = [
        (module, attribute, wrong)
        for module in tuple(sys.modules.values())
        if module.__name__.startswith("stepwell.stores.sqlite.")
        for attribute, value in tuple(vars(module).items())
        if isinstance(value, str) and value == right
    ]
    return [(SQL, name, wrong), *kept]
