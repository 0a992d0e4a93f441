"""Sets of `asyncio.gather(...)`, whose order differs in every replay."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from stepwell.check.findings import Finding
from stepwell.check.rules import OUTSIDE
from stepwell.check.sources import Scope, walk_own

_GATHER: Final = "asyncio.gather"
_SETS: Final = frozenset({"set", "frozenset", "asyncio.wait", "asyncio.as_completed"})  # the last two make one
_FIX: Final = (
    "the order depends on memory addresses, so a replay may take another one; use a list, or write: "
    "asyncio.create_task(...), because tasks keep their order in a set"
)


def find_unordered(scope: Scope) -> Iterator[Finding]:
    """Sets of `asyncio.gather(...)`. Tasks, futures and operations have the same order on every replay."""
    nodes = list(walk_own(scope))
    names = {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and _is_gather(scope, node.value, frozenset())
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        if isinstance(node, ast.expr) and any(_is_gather(scope, one, names) for one in _members(scope, node)):
            yield Finding(
                scope.source.path,
                node.lineno,
                node.col_offset + 1,
                OUTSIDE.code,
                OUTSIDE.severity,
                scope.name,
                "a set of asyncio.gather(...) has no fixed order",
                _FIX,
            )


def _members(scope: Scope, node: ast.expr) -> Sequence[ast.expr]:
    """The members of a set, as far as the code names them."""
    match node:
        case ast.Set(elts=elements):
            return elements
        case ast.SetComp(elt=element):
            return [element]
        case ast.Call(func=func, args=[ast.List(elts=elements) | ast.Tuple(elts=elements), *_]):
            return elements if scope.source.resolve(func) in _SETS else ()
        case ast.Call(func=func, args=[ast.ListComp(elt=element) | ast.GeneratorExp(elt=element), *_]):
            return [element] if scope.source.resolve(func) in _SETS else ()
        case _:
            return ()


def _is_gather(scope: Scope, node: ast.expr, names: set[str] | frozenset[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in names
    return isinstance(node, ast.Call) and scope.source.resolve(node.func) == _GATHER
