"""Operations that are not awaited, have no undo, or are repeated without an end."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stepwell.check.findings import Finding
from stepwell.check.names import line_of, line_with_option, name_of, step_options
from stepwell.check.rules import NO_UNDO, UNAWAITED, UNBOUNDED, Rule
from stepwell.check.sources import OPERATIONS, Scope, Source, keyword, text_of, walk_own


def find_unawaited(scope: Scope) -> Iterator[Finding]:
    """Operations that are not awaited: a statement of their own, or assigned to a name that is never used."""
    if scope.is_plain or isinstance(scope.node, ast.Lambda):
        return  # a plain function gets results, not operations; a lambda returns its operation to its caller
    used = {node.id for node in ast.walk(scope.node) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    for node in walk_own(scope):
        match node:
            case ast.Expr(value=ast.Call() as call) if scope.operation(call) in OPERATIONS:
                yield _unawaited(scope, call)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                if scope.operation(call) in OPERATIONS and name not in used:
                    yield _unawaited(scope, call)
            case _:
                pass


def _unawaited(scope: Scope, call: ast.Call) -> Finding:
    what = f"{scope.context}.{scope.operation(call)}"
    named = name_of(scope, call)
    about = f' "{named}"' if named else ""
    message = f"{what}{about} is never awaited, so it does nothing"
    return _finding(scope, call, UNAWAITED, message, f"write: {line_of(scope, call)}")


def find_without_undo(scope: Scope) -> Iterator[Finding]:
    """Steps without an undo that follow a step with an undo. The last step of a workflow is not reported."""
    calls = [
        node
        for node in walk_own(scope)
        if isinstance(node, ast.Call) and scope.operation(node) in ("step", "try_step") and node.args
    ]
    calls.sort(key=lambda call: (call.lineno, call.col_offset))
    undoable: str | None = None
    for number, call in enumerate(calls):
        named = name_of(scope, call) or ast.unparse(call.args[0])
        if _has_undo(scope.source, call):
            undoable = undoable or named
        elif undoable is not None and number < len(calls) - 1:
            message = f"{named} has no undo, but follows {undoable}, which has one"
            line = line_with_option(scope, call, ast.keyword("compensate", ast.Name("undo", ast.Load())))
            fix = f"write: {line}; if {named} has no effect, add the comment # stepwell: ignore SW141"
            yield _finding(scope, call, NO_UNDO, message, fix)


def _has_undo(source: Source, call: ast.Call) -> bool:
    given = call.args[1] if text_of(call.args[0]) is not None and len(call.args) > 1 else call.args[0]
    while True:
        match given:
            case ast.Name(id=name) if name in source.functions:
                options = step_options(source, source.functions[name])
                return options is not None and keyword(options, "compensate") is not None
            case ast.Call() if keyword(given, "compensate") is not None:
                return True
            case ast.Call(func=ast.Attribute(value=value, attr="options")):
                given = value
            case ast.Call(args=[first, *_]):
                given = first
            case _:
                return False


def find_unbounded(scope: Scope) -> Iterator[Finding]:
    """Endless Python loops that record something in every round."""
    for node in walk_own(scope):
        if not isinstance(node, ast.While) or not isinstance(node.test, ast.Constant) or not node.test.value:
            continue
        inside = [inner for statement in node.body for inner in ast.walk(statement)]
        is_left = any(isinstance(inner, ast.Break | ast.Return) for inner in inside)
        recording = [inner for inner in inside if isinstance(inner, ast.Call) and scope.operation(inner) in OPERATIONS]
        renews = any(isinstance(inner, ast.Attribute) and inner.attr == "continue_as_new" for inner in inside)
        if recording and not renews and not is_left:
            message = "an endless loop makes the history grow without limit"
            name = next((named for call in recording if (named := name_of(scope, call)) is not None), "rounds")
            context = scope.context
            loop = f'{context}.loop("{name}", body, state)'
            fix = f"write: {loop if scope.is_plain else f'await {loop}'}, or {context}.continue_as_new(...) in the loop"
            yield _finding(scope, node, UNBOUNDED, message, fix)


def _finding(scope: Scope, node: ast.expr | ast.stmt, rule: Rule, message: str, fix: str) -> Finding:
    return Finding(
        scope.source.path, node.lineno, node.col_offset + 1, rule.code, rule.severity, scope.name, message, fix
    )
