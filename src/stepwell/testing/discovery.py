"""Which workflows a workflow may start: all that its code can name."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

from stepwell.replay.workflows import Workflow


@functools.lru_cache(maxsize=1024)
def related(workflow: Workflow[Any, Any]) -> tuple[Workflow[Any, Any], ...]:
    """The workflow, and all workflows in its module, in the modules that this one imports, and in its closure."""
    found: dict[Workflow[Any, Any], None] = {workflow: None}
    seen: set[int] = set()
    left = [workflow]
    while left:
        for each in _named_by(left.pop().fn, seen):
            if each not in found:
                found[each] = None
                left.append(each)
    return tuple(found)


def _named_by(fn: Any, seen: set[int]) -> Iterator[Workflow[Any, Any]]:
    for cell in getattr(fn, "__closure__", None) or ():
        try:
            value = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        if isinstance(value, Workflow):
            yield value
    home = getattr(fn, "__globals__", {})
    if id(home) in seen:
        return
    seen.add(id(home))
    for value in tuple(home.values()):
        if isinstance(value, Workflow):
            yield value
        elif isinstance(value, types.ModuleType) and id(vars(value)) not in seen:
            seen.add(id(vars(value)))
            yield from (inner for inner in tuple(vars(value).values()) if isinstance(inner, Workflow))
