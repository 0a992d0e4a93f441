"""The likely reason why code no longer fits a history, found by comparing the two."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import lru_cache
from typing import Any

from stepwell.errors import HistoryDivergedError, ReplayError
from stepwell.model.states import EntryKind
from stepwell.replay.divergence import last_name
from stepwell.replay.workflows import Workflow


def find_cause(workflow: Workflow[Any, Any], problem: ReplayError) -> tuple[str, tuple[str, ...]]:
    """The likeliest cause of a divergence, and what fixes it; nothing if nothing is known.

    A recorded name that is no longer in the source was renamed or removed. A name that is still there is reached too
    late, because something was inserted before it.
    """
    if not isinstance(problem, HistoryDivergedError) or not problem.recorded:
        return "", ()
    known = _names_in(workflow)
    if known is None:
        return "", ()
    gone = last_name(problem.where)
    was = problem.kind or EntryKind.STEP.word
    removed = f'if it was removed on purpose, declare it where it was: ctx.removed("{gone}", "{was}")'
    if not problem.asked:
        if problem.raises:
            return f"the code raises an error before it reaches {gone}; the first time it did not", ()
        if gone not in known and problem.kind:
            return f"{gone} was removed from the code", (removed,)
        return "", ()
    new = last_name(problem.asked)
    gate = f'guard what is new: if ctx.version("{new}", 2) >= 2: ...'
    if gone in known:
        return f"{new} was inserted before {gone} after this run had passed it", (gate,)
    if gone == new:
        return "", ()
    rename = f"keep its name: name={gone!r} for the new one"
    if was == EntryKind.STEP.word:
        rename = f"keep its name: name={gone!r} for the step, or ctx.step({gone!r}, ...)"
    return f"{gone} was renamed to {new}, or removed", (rename, removed, gate)


@lru_cache(maxsize=256)
def _names_in(workflow: Workflow[Any, Any]) -> frozenset[str] | None:
    """Every string and identifier in the module of a workflow: an operation is named after one of them."""
    module = inspect.getmodule(workflow.fn)
    try:
        source = inspect.getsource(module) if module is not None else inspect.getsource(workflow.fn)
        tree = ast.parse(textwrap.dedent(source))
    except (OSError, TypeError, SyntaxError):
        return None
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)):
                found.add(text)
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case _:
                pass
    return frozenset(found)
