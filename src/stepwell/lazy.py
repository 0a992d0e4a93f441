"""Public names that are imported at their first use (PEP 562), so that `import stepwell` stays quick."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(module: str, names: dict[str, Any], homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The `__getattr__` of a public module.

    `names` are the globals of that module, and `homes` are the modules that define its public names.
    """
    home_of = {name: home for home, members in homes.items() for name in members}

    def find(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = names[name] = getattr(import_module(home_of[name]), name)
        return value

    return find
