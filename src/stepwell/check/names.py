"""The names of operations, and which operations of one scope share a name that must be unique."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from stepwell.check.findings import Finding
from stepwell.check.rules import DUPLICATE
from stepwell.check.sources import PINS, Function, Scope, Source, is_true, keyword, text_of

# The operations that may have happened before a statement: their names, and the first call of each.
Names = dict[str, ast.Call]

_LINE_MAX: Final = 100


class _End(NamedTuple):
    """How a list of statements can be left."""

    after: Names | None  # by reaching its end; None if it never does
    again: Names  # by `continue`
    out: Names  # by `break`
    is_broken_off: bool = False  # whether there is a `break`


def find_duplicates(scope: Scope) -> Iterator[Finding]:
    """Operations of one scope that share a name, may both happen in one execution of it, and are declared unique."""
    seen: dict[tuple[str, int], Finding] = {}
    _Reader(scope, seen).read(scope.body, {})
    yield from seen.values()


def name_of(scope: Scope, call: ast.Call) -> str | None:
    """The name that a call gives its operation; None if it is unknown."""
    operation = scope.operation(call)
    if not operation or operation in PINS:
        return None  # a version gate may be used again
    if operation not in {"step", "try_step"}:  # the keywords of a step belong to its function
        named = keyword(call, "name")
        if named is not None:
            return text_of(named)
    first = call.args[0] if call.args else None
    match operation:
        case "receive" | "receive_many":
            texts = [text_of(one) for one in call.args]
            return "|".join(text or "" for text in texts) or operation if None not in texts else None
        case "wait_any":
            return text_of(first) if call.args else operation
        case "step" | "try_step" if text_of(first) is None:
            return None if first is None else _step_name(scope.source, first)
        case "child" | "children" | "spawn":
            return first.id if isinstance(first, ast.Name) else None
        case _:
            return text_of(first)


def _step_name(source: Source, node: ast.expr) -> str | None:
    """The name of a step that is called without one: from its options, or the name of its function."""
    match node:
        case ast.Name(id=name):
            function = source.functions.get(name)
            if function is None:
                return None if name not in source.imports else name
            options = step_options(source, function)
            return (text_of(keyword(options, "name")) if options is not None else None) or name
        case ast.Call(func=func, args=[first, *_]) if source.resolve(func) == "stepwell.step":
            return text_of(keyword(node, "name")) or _step_name(source, first)
        case ast.Call(func=ast.Attribute(value=value, attr="options")):
            return text_of(keyword(node, "name")) or _step_name(source, value)
        case _:
            return None


def _is_unique_step(scope: Scope, call: ast.Call) -> bool:
    """Whether a call is of a step that may be used once in a scope."""
    if scope.operation(call) not in {"step", "try_step"} or not call.args:
        return False
    given = call.args[1] if text_of(call.args[0]) is not None and len(call.args) > 1 else call.args[0]
    while isinstance(given, ast.Call):
        if keyword(given, "unique") is not None:
            return is_true(keyword(given, "unique"))
        inner = given.func.value if isinstance(given.func, ast.Attribute) else next(iter(given.args), None)
        if inner is None:
            return False
        given = inner
    known = scope.source.functions.get(given.id) if isinstance(given, ast.Name) else None
    options = None if known is None else step_options(scope.source, known)
    return options is not None and is_true(keyword(options, "unique"))


def _has_unique_names(scope: Scope) -> bool:
    """Whether the workflow that a scope belongs to is declared with `names="unique"`."""
    function = scope.source.functions.get(scope.name)
    for decorator in [] if function is None else function.decorator_list:
        if isinstance(decorator, ast.Call) and scope.source.resolve(decorator.func) == "stepwell.workflow":
            return text_of(keyword(decorator, "names")) == "unique"
    return False


def step_options(source: Source, function: Function) -> ast.Call | None:
    """The options in the `@step(...)` decorator of a function."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and source.resolve(decorator.func) == "stepwell.step":
            return decorator
    return None


def is_step(source: Source, function: Function) -> bool:
    """Whether a function is decorated as a step."""
    decorators = [one.func if isinstance(one, ast.Call) else one for one in function.decorator_list]
    return any(source.resolve(one) == "stepwell.step" for one in decorators)


class _Reader:
    """Reads statements in the order of execution, and reports names that are used twice."""

    def __init__(self, scope: Scope, seen: dict[tuple[str, int], Finding]) -> None:
        self._scope = scope
        self._seen = seen
        self._is_unique = _has_unique_names(scope)

    def read(self, statements: Iterable[ast.stmt], before: Names) -> _End:
        """What may have happened after a list of statements."""
        now: Names | None = dict(before)
        again: Names = {}
        out: Names = {}
        is_broken_off = False
        for statement in statements:
            if now is None:
                break
            end = self._statement(statement, now)
            again |= end.again
            out |= end.out
            is_broken_off |= end.is_broken_off
            now = end.after
        return _End(now, again, out, is_broken_off)

    def _statement(self, statement: ast.stmt, now: Names) -> _End:
        match statement:
            case ast.If(test=test, body=body, orelse=orelse):
                self._expressions([test], now)
                return _either(self.read(body, now), self.read(orelse, now))
            case ast.Match(subject=subject, cases=cases):
                self._expressions([subject], now)
                return _either(_End(dict(now), {}, {}), *(self.read(case.body, now) for case in cases))
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(statement, now)
            case ast.Try() | ast.TryStar():
                return self._try(statement, now)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                self._expressions([item.context_expr for item in items], now)
                return self.read(body, now)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return _End(now, {}, {})
            case ast.Return() | ast.Raise():
                self._expressions(list(ast.iter_child_nodes(statement)), now)
                return _End(None, {}, {})
            case ast.Continue():
                return _End(None, dict(now), {})
            case ast.Break():
                return _End(None, {}, dict(now), is_broken_off=True)
            case _:
                self._expressions(list(ast.iter_child_nodes(statement)), now)
                return _End(now, {}, {})

    def _loop(self, loop: ast.For | ast.AsyncFor | ast.While, now: Names) -> _End:
        test = loop.test if isinstance(loop, ast.While) else loop.iter
        self._expressions([test], now)
        end = self.read(loop.body, now)
        # An operation in a round that is followed by another round happens again.
        for name, call in ((end.after or {}) | end.again).items():
            if name not in now:
                self._note(name, call, None)
        is_endless = isinstance(loop, ast.While) and isinstance(test, ast.Constant) and bool(test.value)
        after = now | (end.after or {}) | end.again | end.out
        rest = self.read(loop.orelse, after)
        return _End(None if is_endless and not end.is_broken_off else rest.after, rest.again, rest.out)

    def _try(self, statement: ast.Try | ast.TryStar, now: Names) -> _End:
        body = self.read([*statement.body, *statement.orelse], now)
        # An exception may be raised anywhere: everything in the body may have happened, or nothing.
        begun = now | _all_names(self._scope, statement.body)
        ends = [body, *(self.read(handler.body, begun) for handler in statement.handlers)]
        end = _either(*ends)
        if not statement.finalbody:
            return end
        final = self.read(statement.finalbody, begun | (end.after or {}))
        return _End(None if end.after is None else final.after, end.again, end.out, end.is_broken_off)

    def _expressions(self, nodes: Iterable[ast.AST], now: Names) -> None:
        for node in nodes:
            self._expression(node, now)

    def _expression(self, node: ast.AST, now: Names) -> None:
        match node:
            case ast.Lambda():
                return
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self._expression(test, now)
                other = dict(now)
                self._expression(body, now)
                self._expression(orelse, other)
                now |= other
                return
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                inner = dict(now)
                self._expressions(ast.iter_child_nodes(node), inner)
                for name, call in inner.items():
                    if name not in now:
                        self._note(name, call, None)
                now |= inner
                return
            case _:
                self._expressions(ast.iter_child_nodes(node), now)
        if isinstance(node, ast.Call):
            called = name_of(self._scope, node)
            if called is not None:
                if called in now:
                    self._note(called, node, now[called])
                now.setdefault(called, node)

    def _note(self, name: str, call: ast.Call, first: ast.Call | None) -> None:
        scope = self._scope
        if (name, call.lineno) in self._seen:
            return
        if not self._is_unique and not any(_is_unique_step(scope, one) for one in (call, first or call)):
            return
        if first is None:
            declared = 'names="unique"' if self._is_unique else "unique=True"
            message = f'"{name}" is used again in every round of a loop'
            fix = f'loop with {scope.context}.loop("{name}", ...), or leave out {declared}: its uses are numbered then'
        else:
            message = f'two operations in one scope are both called "{name}"'
            fix = f"rename one of them; write: {_renamed_line(scope, call, name)}"
        self._seen[name, call.lineno] = Finding(
            scope.source.path,
            call.lineno,
            1,
            DUPLICATE.code,
            DUPLICATE.severity,
            scope.name,
            message,
            fix,
            () if first is None else (first.lineno,),
        )


def line_of(scope: Scope, call: ast.Call) -> str:
    """The line to write for a call; long arguments are left out."""
    line = ast.unparse(call)
    short = line if len(line) <= _LINE_MAX and "\n" not in line else f"{ast.unparse(call.func)}(...)"
    return short if scope.is_plain else f"await {short}"


def line_with_option(scope: Scope, call: ast.Call, option: ast.keyword) -> str:
    """The call of a step, with one more option for the step."""
    at = int(text_of(call.args[0]) is not None and len(call.args) > 1)
    args = [*call.args]
    args[at] = _with_option(scope.source, args[at], option)
    return line_of(scope, ast.Call(call.func, args, call.keywords))


def _with_option(source: Source, node: ast.expr, option: ast.keyword) -> ast.expr:
    match node:
        case ast.Call(func=ast.Attribute(attr="options")):
            return ast.Call(node.func, node.args, [*node.keywords, option])
        case ast.Call(func=func) if source.resolve(func) == "stepwell.step":
            return ast.Call(func, node.args, [*node.keywords, option])
        case ast.Name(id=name) if name in source.functions and is_step(source, source.functions[name]):
            return ast.Call(ast.Attribute(node, "options", ast.Load()), [], [option])
        case _:
            return ast.Call(ast.Name("step", ast.Load()), [node], [option])


def _renamed_line(scope: Scope, call: ast.Call, name: str) -> str:
    """The call with another name."""
    other = ast.Constant(value=f"{name} 2")
    operation = scope.operation(call)
    is_named_first = operation not in {"receive", "receive_many", "topic", "child", "children", "spawn", "emit"}
    if is_named_first and call.args and text_of(call.args[0]) is not None and keyword(call, "name") is None:
        return line_of(scope, ast.Call(call.func, [other, *call.args[1:]], call.keywords))
    if operation in {"step", "try_step"}:
        return line_of(scope, ast.Call(call.func, [other, *call.args], call.keywords))
    others = [one for one in call.keywords if one.arg != "name"]
    return line_of(scope, ast.Call(call.func, call.args, [*others, ast.keyword("name", other)]))


def _either(*ends: _End) -> _End:
    """One of several branches is taken."""
    reached = [end.after for end in ends if end.after is not None]
    after: Names | None = None
    if reached:
        after = {}
        for names in reached:
            after |= names
    again: Names = {}
    out: Names = {}
    for end in ends:
        again |= end.again
        out |= end.out
    return _End(after, again, out, any(end.is_broken_off for end in ends))


def _all_names(scope: Scope, statements: Iterable[ast.stmt]) -> Names:
    found: Names = {}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and (named := name_of(scope, node)) is not None:
                found.setdefault(named, node)
    return found
