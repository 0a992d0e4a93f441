"""Path coverage: the operations in a workflow's code, and which of them no test reached."""

from __future__ import annotations

import ast
import fnmatch
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from stepwell.codec.signatures import hints_of
from stepwell.engine.views import entry_views, wait_views
from stepwell.replay.parameters import takes
from stepwell.replay.steps import Step
from stepwell.replay.workflows import Workflow
from stepwell.stores.base.views import Detail

_NAMED_FIRST = frozenset(
    {"once", "sleep", "sleep_until", "join", "map", "race", "loop", "receive", "receive_many", "emit", "checkpoint"}
)
_STEPS = frozenset({"step", "try_step"})
_CHILDREN = frozenset({"child", "spawn", "children"})
_BRANCHED = frozenset({"join", "race"})


class Operation(NamedTuple):
    """One operation in a workflow's code."""

    file: str
    line: int
    kind: str
    name: str  # a segment of a path; `*` matches parts that are known only at run time


@functools.lru_cache(maxsize=1024)
def known_operations(workflow: Workflow[Any, Any]) -> list[tuple[str, int, str, str]]:
    """Every operation in the code of a workflow, and in the functions that it passes its context to."""
    found: dict[Operation, None] = {}
    seen: set[Any] = set()
    left: list[Callable[..., Any]] = [inspect.unwrap(workflow.fn)]
    while left:
        fn = left.pop()
        if fn in seen:
            continue
        seen.add(fn)
        for operation in _operations(fn, left):
            found[operation] = None
    return [tuple(each) for each in found]  # type: ignore[misc]


def _operations(fn: Callable[..., Any], left: list[Callable[..., Any]]) -> Iterator[Operation]:
    try:
        lines, first = inspect.getsourcelines(fn)
        module = ast.parse(textwrap.dedent("".join(lines)))
        file = inspect.getsourcefile(fn) or ""
    except (OSError, TypeError, SyntaxError):
        return  # typed in a shell or generated, so it has no source lines
    home = {**getattr(fn, "__globals__", {}), **inspect.getclosurevars(fn).nonlocals}
    contexts = _context_names(module)
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and node.id in home:
            _follow(home[node.id], left)
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if isinstance(node.func.value, ast.Name) and node.func.value.id in contexts:
            for kind, name in _named(node, home):
                yield Operation(file, first + node.lineno - 1, kind, name)


def _context_names(module: ast.Module) -> set[str]:
    """The first parameter of every function: a context may have any name."""
    return {
        node.args.args[0].arg
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and node.args.args
    }


def _follow(value: Any, left: list[Callable[..., Any]]) -> None:
    if not inspect.isfunction(value):
        return
    signature = hints_of(value)
    if takes(signature, "Context") or takes(signature, "SyncContext"):
        left.append(value)


def _named(node: ast.Call, home: dict[str, Any]) -> Iterator[tuple[str, str]]:
    assert isinstance(node.func, ast.Attribute)
    verb = node.func.attr
    given = next((word.value for word in node.keywords if word.arg == "name"), None)
    first = node.args[0] if node.args else None
    if verb in _STEPS and first is not None:
        text = _text(first)
        function = _value(node.args[1] if text and len(node.args) > 1 else first, home)
        name = text or _name_of(function)
        yield "step", name
        if isinstance(function, Step) and function.options_.compensate is not None:
            yield "undo", f"{name}~undo"
    elif verb in _CHILDREN and first is not None:
        workflow = _value(first, home)
        yield "child", _text(given) or (workflow.name if isinstance(workflow, Workflow) else "*")
    elif verb in _NAMED_FIRST and first is not None:
        signal = _value(first, home)
        name = _text(given) or _text(first) or str(getattr(signal, "name", "*"))
        yield verb, name
        if verb in _BRANCHED and len(node.args) > 1 and isinstance(node.args[1], ast.Dict):
            for key in node.args[1].keys:
                if key is not None and _text(key):
                    yield "branch", _text(key)


def _text(node: ast.expr | None) -> str:
    """The text of a string literal, with `*` for interpolated parts; empty for any other expression."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(str(v.value) if isinstance(v, ast.Constant) else "*" for v in values)
        case _:
            return ""


def _value(node: ast.expr, home: dict[str, Any]) -> Any:
    match node:
        case ast.Name(id=name):
            return home.get(name)
        case ast.Attribute(value=value, attr=attr):
            return getattr(_value(value, home), attr, None)
        case ast.Call(func=ast.Attribute(value=value, attr="options"), keywords=words):
            named = next((_text(word.value) for word in words if word.arg == "name"), "")
            step = _value(value, home)
            return step.options(name=named) if isinstance(step, Step) and named else step
        case _:
            return None


def _name_of(function: Any) -> str:
    if isinstance(function, Step):
        return function.name
    return str(getattr(function, "__name__", "*"))


def reached_names(detail: Detail) -> set[str]:
    """The segments of every path that a run recorded or waits at, and the branches of its joins and races."""
    names: set[str] = set()
    for entry in entry_views(detail):
        names.update(_segments(entry.path))
        if entry.kind == "join" and isinstance(entry.value, list):
            names.update(str(branch[0]) for branch in entry.value)
    for wait in wait_views(detail):
        names.update(_segments(wait.path))
    return names


def _segments(path: str) -> Iterator[str]:
    for segment in path.split("/"):
        name, mark, use = segment.partition("#")
        yield name + ("~undo" if mark and use.endswith("~undo") else "")


class PathCoverage:
    """What all tests together reached."""

    def __init__(self) -> None:
        self._known: dict[str, set[Operation]] = {}
        self._names: dict[str, set[str]] = {}

    def add(self, told: dict[str, Any]) -> None:
        """Add what one test reached, from `recordings.reached_by`."""
        for definition, operations in told["known"].items():
            self._known.setdefault(definition, set()).update(Operation(*each) for each in operations)
        for definition, names in told["reached"].items():
            self._names.setdefault(definition, set()).update(names)

    def missed(self, definition: str) -> list[Operation]:
        """The operations of a workflow that no test reached, in the order of the code."""
        names = {segment for name in self._names.get(definition, ()) for segment in _segments(name)}
        return sorted(
            operation
            for operation in self._known.get(definition, ())
            if not any(fnmatch.fnmatchcase(name, operation.name) for name in names)
        )

    def lines(self) -> Iterator[str]:
        """The report, workflow by workflow."""
        if not self._known:
            yield "no test has run a workflow"
        for definition in sorted(self._known):
            name, missed, known = definition.partition("@")[0], self.missed(definition), self._known[definition]
            if definition not in self._names:
                yield f"{name}: no test has started it"
                continue
            yield f"{name}: {len(known) - len(missed)} of {len(known)} reached"
            for operation in missed:
                yield f"  {_short(operation.file)}:{operation.line}  {operation.kind} {operation.name} was not reached"


def _short(file: str) -> str:
    path = Path(file)
    try:
        return path.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.name
