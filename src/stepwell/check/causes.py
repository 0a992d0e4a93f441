"""Why code and record have probably parted, told from both of them."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from functools import lru_cache
from typing import Any

from stepwell.errors import HistoryDivergedError, ReplayError
from stepwell.model.states import ENTRIES_OF_WAITS, EntryKind, WaitKind
from stepwell.replay.divergence import last_name
from stepwell.replay.workflows import Workflow

_ASKS = re.compile(r"it asks for ([^,]+)")
_WAITS = re.compile(r"it waits for a \w+ at ([^,]+)")
_STANDS = re.compile(r"a wait for a (\w+) at ")
_KINDS = {kind.word for kind in EntryKind}


def find_cause(workflow: Workflow[Any, Any], problem: ReplayError) -> tuple[str, tuple[str, ...]]:
    """The likeliest cause of a divergence, and what mends it; nothing if nothing is known.

    A name that is recorded and no longer in the source was renamed or taken out; one that is still there is passed too
    late, because something was put in front of it.
    """
    if not isinstance(problem, HistoryDivergedError) or not problem.recorded:
        return "", ()
    known = _names_in(workflow)
    if known is None:
        return "", ()
    gone = last_name(problem.where)
    asked = _ASKS.search(problem.now) or _WAITS.search(problem.now)
    kind = problem.recorded.partition(" ")[0]
    wait = _STANDS.match(problem.recorded)
    was = (
        ENTRIES_OF_WAITS[WaitKind(wait[1])][0].word
        if wait is not None and wait[1] in ENTRIES_OF_WAITS
        else _kind_of(kind)
    )
    removed = f'if it was taken out on purpose, declare it where it stood: ctx.removed("{gone}", "{was}")'
    if asked is None:
        if problem.now.startswith("it raises"):
            return f"the code fails before it comes to {gone}, which the first time it did not", ()
        if gone not in known and kind in _KINDS:
            return f"{gone} was taken out of the code", (removed,)
        return "", ()
    new = last_name(asked[1])
    gate = f'guard what is new: if ctx.version("{new}", 2) >= 2: ...'
    if gone in known:
        return f"{new} was put in front of {gone} after this run had passed it", (gate,)
    if gone == new:
        return "", ()
    rename = f"keep its name: name={gone!r} for the new one"
    if was == EntryKind.STEP.word:
        rename = f"keep its name: name={gone!r} for the step, or ctx.step({gone!r}, ...)"
    return f"{gone} was renamed to {new}, or taken out", (rename, removed, gate)


def _kind_of(word: str) -> str:
    """The kind to declare as removed."""
    return word if word in _KINDS else "step"


@lru_cache(maxsize=256)
def _names_in(workflow: Workflow[Any, Any]) -> frozenset[str] | None:
    """Every text and identifier in the module of a workflow: what an operation could be called after."""
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
