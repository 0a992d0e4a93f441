"""Bodies that change outer variables although a replay does not run them again."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from stepwell.check.findings import Finding
from stepwell.check.rules import LOST_CHANGE
from stepwell.check.sources import Function, Scope, keyword, text_of, walk_own

_MUTATORS: Final = frozenset(
    {
        "add",
        "append",
        "appendleft",
        "clear",
        "discard",
        "extend",
        "extendleft",
        "insert",
        "pop",
        "popitem",
        "popleft",
        "remove",
        "reverse",
        "setdefault",
        "sort",
        "update",
    }
)
_CONTAINERS: Final = frozenset(
    {"list", "dict", "set", "bytearray", "collections.deque", "collections.defaultdict", "collections.Counter"}
)
_FIXES: Final = {
    "loop": "keep the value in the state of the loop; write: return Continue(state), or return Break(result)",
    "race": "return the value from the branch; write: value = (await ctx.race(...)).value",
    "join": "return the value from the branch; write: results = await ctx.join(...)",
    "map": "return the value for the item; write: results = await ctx.map(...)",
}


def find_lost_changes(scope: Scope) -> Iterator[Finding]:
    """Writes to captured variables in bodies of races and loops, in `fail_fast` branches, and in plain branches."""
    if isinstance(scope.node, ast.Lambda):
        return
    inner = {node.name: node for node in _functions_in(scope.node)}
    bound = _bound(scope.node)
    for call in walk_own(scope):
        if not isinstance(call, ast.Call) or not _is_not_repeated(scope, call):
            continue
        operation = scope.operation(call)
        for body in _bodies(call):
            function = inner.get(body)
            if function is not None:
                yield from _writes(scope, function, operation, bound)


def _is_not_repeated(scope: Scope, call: ast.Call) -> bool:
    operation = scope.operation(call)
    if operation in ("join", "map"):
        return scope.is_plain or text_of(keyword(call, "on_error")) == "fail_fast"
    return operation in ("race", "loop")


def _bodies(call: ast.Call) -> Iterator[str]:
    for given in call.args[1:2]:
        for node in given.values if isinstance(given, ast.Dict) else [given]:
            if isinstance(node, ast.Name):
                yield node.id


def _writes(scope: Scope, function: Function, operation: str, bound: dict[str, bool]) -> Iterator[Finding]:
    shared = {name for node in _own_nodes(function) if isinstance(node, ast.Nonlocal) for name in node.names}
    captured = {name: kind for name, kind in bound.items() if name in shared or name not in _bound(function)}
    for node in _own_nodes(function):
        name = _written(node, captured, shared)
        if name is not None:
            assert isinstance(node, ast.expr | ast.stmt)
            yield Finding(
                scope.source.path,
                node.lineno,
                node.col_offset + 1,
                LOST_CHANGE.code,
                LOST_CHANGE.severity,
                scope.name,
                f'"{function.name}" changes the outer variable "{name}", but a replay does not run it again',
                _FIXES[operation],
            )


def _written(node: ast.AST, captured: dict[str, bool], shared: set[str]) -> str | None:
    """The captured variable that a node changes; None if it changes none."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if name in shared:
            return name
        case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
            root = _root(node)
            return root if root in captured else None
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method in _MUTATORS:
            return name if captured.get(name) else None
        case ast.Call(func=ast.Name(id="next"), args=[ast.Name(id=name), *_]):
            return name if name in captured else None
        case _:
            return None


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _functions_in(node: ast.AST) -> Iterator[Function]:
    """The functions that a function defines directly."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield child
        elif not isinstance(child, ast.ClassDef | ast.Lambda):
            yield from _functions_in(child)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without the nodes of functions inside it."""
    body = node.body if isinstance(node, Function) else ast.iter_child_nodes(node)
    for child in body:
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        yield child
        yield from _own_nodes(child)


def _bound(function: Function) -> dict[str, bool]:
    """The variables of a function, and whether each is known to be a container."""
    arguments = function.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    names = {one.arg: False for one in given if one is not None}
    for node in _own_nodes(function):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                names[name] = names.get(name, False) or _is_container(value)
            case ast.Name(id=name, ctx=ast.Store()):
                names.setdefault(name, False)
            case _:
                pass
    return names


def _is_container(value: ast.expr) -> bool:
    match value:
        case ast.List() | ast.Dict() | ast.Set() | ast.ListComp() | ast.DictComp() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return any(name == one.rpartition(".")[2] for one in _CONTAINERS)
        case _:
            return False
