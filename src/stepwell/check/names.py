"""What operations are called, and which of them meet in one place."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stepwell.check.findings import Finding
from stepwell.check.rules import DUPLICATE
from stepwell.check.sources import PINS, Function, Scope, Source, is_true, keyword, text_of

# The operations that may have happened when the code comes to a place: their names, and where they are first called.
Names = dict[str, int]


class _End(NamedTuple):
    """How a list of statements can be left."""

    after: Names | None  # by coming to its end; None if it never does
    again: Names  # by `continue`
    out: Names  # by `break`
    is_broken_off: bool = False  # whether there is a `break`


def find_duplicates(scope: Scope) -> Iterator[Finding]:
    """Operations of one scope that have one name and may both happen in one run of it."""
    seen: dict[tuple[str, int], Finding] = {}
    _Reader(scope, seen).read(scope.body, {})
    yield from seen.values()


def name_of(scope: Scope, call: ast.Call) -> str | None:
    """The name that a call gives its operation; None if it cannot be told, or if uses of it are numbered."""
    operation = scope.operation(call)
    if not operation or operation in PINS:
        return None  # a gate may be asked again
    if operation not in {"step", "try_step"}:  # the keywords of a step belong to its function
        if is_true(keyword(call, "repeat")):
            return None
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
        case "step" | "try_step" if len(call.args) > 1 and _is_repeated(scope.source, call.args[1]):
            return None
        case "child" | "children" | "spawn":
            return first.id if isinstance(first, ast.Name) else None
        case _:
            return text_of(first)


def _step_name(source: Source, node: ast.expr) -> str | None:
    """The name of a step that is given without one: its function's, or the one in its options."""
    match node:
        case ast.Name(id=name):
            function = source.functions.get(name)
            if function is None:
                return None if name not in source.imports else name
            options = step_options(source, function)
            if options is not None and is_true(keyword(options, "repeat")):
                return None
            return (text_of(keyword(options, "name")) if options is not None else None) or name
        case ast.Call(func=func, args=[first, *_]) if source.resolve(func) == "stepwell.step":
            if is_true(keyword(node, "repeat")):
                return None
            return text_of(keyword(node, "name")) or _step_name(source, first)
        case ast.Call(func=ast.Attribute(value=value, attr="options")):
            if is_true(keyword(node, "repeat")):
                return None
            return text_of(keyword(node, "name")) or _step_name(source, value)
        case _:
            return None


def _is_repeated(source: Source, node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name) if name in source.functions:
            options = step_options(source, source.functions[name])
            return options is not None and is_true(keyword(options, "repeat"))
        case ast.Call():
            return is_true(keyword(node, "repeat"))
        case _:
            return False


def step_options(source: Source, function: Function) -> ast.Call | None:
    """The options that a function is decorated with as a step."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and source.resolve(decorator.func) == "stepwell.step":
            return decorator
    return None


class _Reader:
    """Goes through statements as they may be executed, and notes names that are met twice."""

    def __init__(self, scope: Scope, seen: dict[tuple[str, int], Finding]) -> None:
        self._scope = scope
        self._seen = seen

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
        # What happens in a round that another one follows happens again.
        for name, line in ((end.after or {}) | end.again).items():
            if name not in now:
                self._note(name, line, None)
        is_endless = isinstance(loop, ast.While) and isinstance(test, ast.Constant) and bool(test.value)
        after = now | (end.after or {}) | end.again | end.out
        rest = self.read(loop.orelse, after)
        return _End(None if is_endless and not end.is_broken_off else rest.after, rest.again, rest.out)

    def _try(self, statement: ast.Try | ast.TryStar, now: Names) -> _End:
        body = self.read([*statement.body, *statement.orelse], now)
        # An exception may come at any place: everything in the body may have happened, or nothing.
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
                for name, line in inner.items():
                    if name not in now:
                        self._note(name, line, None)
                now |= inner
                return
            case _:
                self._expressions(ast.iter_child_nodes(node), now)
        if isinstance(node, ast.Call):
            called = name_of(self._scope, node)
            if called is not None:
                if called in now:
                    self._note(called, node.lineno, now[called])
                now.setdefault(called, node.lineno)

    def _note(self, name: str, line: int, first: int | None) -> None:
        scope = self._scope
        if (name, line) in self._seen:
            return
        if first is None:
            message = f'"{name}" is called again and again in a loop, under one name'
            fix = (
                "number the uses with repeat=True (of a step: step(f, repeat=True) or f.options(repeat=True) as the "
                f'function), or loop with ctx.loop("{name}", ...)'
            )
        else:
            message = f'two operations at the same place are both called "{name}"'
            fix = "give one another name; a name may repeat only on different paths"
        self._seen[name, line] = Finding(
            scope.source.path,
            line,
            1,
            DUPLICATE.code,
            DUPLICATE.severity,
            scope.name,
            message,
            fix,
            () if first is None else (first,),
        )


def _either(*ends: _End) -> _End:
    """One of several ways is taken."""
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
                found.setdefault(named, node.lineno)
    return found
