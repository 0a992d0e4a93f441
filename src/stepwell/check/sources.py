"""Source files as syntax trees, and the workflow code in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

Function = ast.FunctionDef | ast.AsyncFunctionDef

OPERATIONS: Final = frozenset(
    {
        "step",
        "try_step",
        "once",
        "sleep",
        "sleep_until",
        "sleep_business",
        "receive",
        "receive_many",
        "topic",
        "join",
        "race",
        "map",
        "loop",
        "child",
        "children",
        "spawn",
        "wait_any",
        "emit",
        "rollback_checkpoint",
        "compensate_with",
    }
)
# Version gates: they have names of their own, and are not awaited.
PINS: Final = frozenset({"version", "patched", "deprecated"})
# Functions that are passed to these run once, and their result is recorded.
BODIES: Final = frozenset({"step", "try_step", "once"})
_CONTEXTS: Final = frozenset({"Context", "SyncContext"})
_IGNORED: Final = re.compile(r"#\s*stepwell:\s*ignore\b(?P<codes>[^#]*)")


@dataclass
class Source:
    """One file."""

    path: str
    tree: ast.Module
    lines: list[str]
    imports: dict[str, str] = field(default_factory=dict)  # a name in the file → its full dotted name
    functions: dict[str, Function] = field(default_factory=dict)  # of the module

    def resolve(self, node: ast.expr) -> str:
        """The full dotted name of an expression such as `dt.datetime.now`; empty if it is unknown."""
        match node:
            case ast.Name(id=name):
                return self.imports.get(name, name)
            case ast.Attribute(value=value, attr=name):
                inner = self.resolve(value)
                return f"{inner}.{name}" if inner else ""
            case _:
                return ""

    def is_ignored(self, line: int, code: str) -> bool:
        """Whether a comment in this line ignores the finding: `# stepwell: ignore SW121`."""
        found = _IGNORED.search(self.lines[line - 1]) if line <= len(self.lines) else None
        return found is not None and (not found["codes"].strip() or code in found["codes"])


@dataclass(frozen=True)
class Scope:
    """Workflow code: a function or a lambda that takes a context."""

    source: Source
    node: Function | ast.Lambda
    context: str  # the name of its context
    name: str  # of the workflow or function that it belongs to
    is_plain: bool  # a `def` with a SyncContext: its operations return their results
    is_workflow: bool

    @property
    def body(self) -> list[ast.stmt]:
        """Its statements; a lambda has one."""
        if isinstance(self.node, ast.Lambda):
            return [ast.copy_location(ast.Return(self.node.body), self.node.body)]
        return self.node.body

    def operation(self, node: ast.AST) -> str:
        """The operation of the context that a call makes; empty if it makes none."""
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=self.context), attr=name)):
                return name if name in OPERATIONS or name in PINS else ""
            case _:
                return ""


def read_source(path: str, content: str | None = None) -> Source:
    """A parsed file. Raises `SyntaxError` and `OSError`."""
    text = Path(path).read_text("utf-8") if content is None else content
    tree = ast.parse(text, path)
    source = Source(path, tree, text.splitlines())
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for one in names:
                    source.imports[one.asname or one.name.partition(".")[0]] = (
                        one.name if one.asname else one.name.partition(".")[0]
                    )
            case ast.ImportFrom(module=str(module), names=names, level=0):
                for one in names:
                    source.imports[one.asname or one.name] = f"{module}.{one.name}"
            case _:
                pass
    for statement in tree.body:
        if isinstance(statement, Function):
            source.functions[statement.name] = statement
    return source


def find_scopes(source: Source) -> Iterator[Scope]:
    """All workflow code of a file, in its order: workflows, branches, loop bodies and helpers that take a context."""
    yield from _scopes_in(source, source.tree, "")


def _scopes_in(source: Source, node: ast.AST, owner: str) -> Iterator[Scope]:
    for child in ast.iter_child_nodes(node):
        inside = owner
        if isinstance(child, Function):
            scope = _scope_of(source, child, owner)
            if scope is not None:
                inside = scope.name
                yield scope
        elif isinstance(child, ast.Lambda) and owner:
            arguments = child.args.args
            if arguments and _is_context_of(child, arguments[0].arg):
                yield Scope(source, child, arguments[0].arg, owner, is_plain=False, is_workflow=False)
        yield from _scopes_in(source, child, inside)


def _scope_of(source: Source, node: Function, owner: str) -> Scope | None:
    arguments = [*node.args.posonlyargs, *node.args.args]
    name = _workflow_name(source, node)
    if not arguments:
        return None
    first = arguments[0]
    kind = "" if first.annotation is None else source.resolve(_unquoted(first.annotation)).rpartition(".")[2]
    if kind not in _CONTEXTS and name is None:
        return None
    is_plain = isinstance(node, ast.FunctionDef)
    return Scope(source, node, first.arg, name or owner or node.name, is_plain, name is not None)


def _unquoted(annotation: ast.expr) -> ast.expr:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            return ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return annotation
    return annotation


def _workflow_name(source: Source, node: Function) -> str | None:
    """The name of a decorated function as a workflow; None if it is not a workflow."""
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        if source.resolve(decorator.func if isinstance(decorator, ast.Call) else decorator) == "stepwell.workflow":
            named = None if call is None else keyword(call, "name")
            return text_of(named) or node.name
    return None


def _is_context_of(node: ast.Lambda, name: str) -> bool:
    """Whether a lambda calls operations of its first parameter: then it is a branch."""
    return any(
        isinstance(inner, ast.Attribute)
        and isinstance(inner.value, ast.Name)
        and inner.value.id == name
        and inner.attr in OPERATIONS
        for inner in ast.walk(node.body)
    )


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument."""
    return next((one.value for one in call.keywords if one.arg == name), None)


def text_of(node: ast.expr | None) -> str | None:
    """The text of a string literal; None for any other expression."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def is_true(node: ast.expr | None) -> bool:
    """Whether an argument is literally true."""
    return isinstance(node, ast.Constant) and node.value is True


def walk_own(scope: Scope) -> Iterator[ast.AST]:
    """The nodes of workflow code that run when it runs: without the functions inside it and the bodies that it passes
    to steps.
    """
    for statement in scope.body:
        yield from _walk(scope, statement)


def _walk(scope: Scope, node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walk(scope, child)
