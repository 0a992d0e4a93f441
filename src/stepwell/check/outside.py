"""Calls in workflow code that reach into the outside world."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from stepwell.check.findings import Finding
from stepwell.check.names import is_step
from stepwell.check.rules import OUTSIDE
from stepwell.check.sources import BODIES, Function, Scope, Source

_TIME: Final = 'a replay would see another time; write: ctx.now(), or await ctx.once("name", clock) for another clock'
_CHANCE: Final = "a replay would draw another value; write: ctx.random(), or draw it in a step: await ctx.step(draw)"
_ID: Final = "a replay would make another id; write: ctx.uuid()"
_SLEEP: Final = 'it blocks the worker and is lost in a crash; write: await ctx.sleep("name", "1h")'
_WORLD: Final = (
    "a replay would do it again and may get another answer; move it into a function and write: "
    "await ctx.step(function, ...)"
)

_CALLS: Final = {
    "time.time": _TIME,
    "time.time_ns": _TIME,
    "time.monotonic": _TIME,
    "time.monotonic_ns": _TIME,
    "time.perf_counter": _TIME,
    "time.perf_counter_ns": _TIME,
    "time.localtime": _TIME,
    "time.gmtime": _TIME,
    "time.strftime": _TIME,
    "datetime.datetime.now": _TIME,
    "datetime.datetime.utcnow": _TIME,
    "datetime.datetime.today": _TIME,
    "datetime.date.today": _TIME,
    "uuid.uuid1": _ID,
    "uuid.uuid4": _ID,
    "os.urandom": _CHANCE,
    "os.getpid": _WORLD,
    "os.getenv": _WORLD,
    "os.system": _WORLD,
    "time.sleep": _SLEEP,
    "asyncio.to_thread": _WORLD,
    "asyncio.open_connection": _WORLD,
    "urllib.request.urlopen": _WORLD,
    "open": _WORLD,
    "input": _WORLD,
}
_MODULES: Final = {
    "random": _CHANCE,
    "secrets": _CHANCE,
    "requests": _WORLD,
    "httpx": _WORLD,
    "aiohttp": _WORLD,
    "urllib3": _WORLD,
    "socket": _WORLD,
    "subprocess": _WORLD,
    "smtplib": _WORLD,
    "ftplib": _WORLD,
    "http.client": _WORLD,
    "boto3": _WORLD,
    "redis": _WORLD,
    "psycopg": _WORLD,
    "sqlite3": _WORLD,
}
# Deterministic functions in modules that are otherwise about randomness.
_HARMLESS: Final = frozenset({"random.Random", "secrets.compare_digest"})


def find_outside(scope: Scope) -> Iterator[Finding]:
    """Calls of workflow code itself, and of the functions of the same file that it calls."""
    for statement in scope.body:
        yield from _find(scope, scope.source, statement, "", frozenset())


def _find(scope: Scope, source: Source, node: ast.AST, through: str, known: frozenset[str]) -> Iterator[Finding]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    given: list[ast.AST] = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Lambda):
        return  # a branch has a scope of its own
    if isinstance(node, ast.Call):
        if scope.operation(node) in BODIES:
            given = [one for one in given if not isinstance(one, ast.Lambda)]
        yield from _call(scope, source, node, through, known)
    for child in given:
        yield from _find(scope, source, child, through, known)


def _call(scope: Scope, source: Source, call: ast.Call, through: str, known: frozenset[str]) -> Iterator[Finding]:
    called = source.resolve(call.func)
    reason = _reason(source, called)
    if reason is not None:
        message = f'"{ast.unparse(call.func)}()" is called outside a step' + (
            f", through {through}()" if through else ""
        )
        yield Finding(
            source.path,
            call.lineno,
            call.col_offset + 1,
            OUTSIDE.code,
            OUTSIDE.severity,
            scope.name,
            message,
            reason,
        )
        return
    function = source.functions.get(called)
    if function is not None and is_step(source, function):
        line = f"await ctx.step({ast.unparse(call.func)}{', ...' if call.args or call.keywords else ''})"
        yield Finding(
            source.path,
            call.lineno,
            call.col_offset + 1,
            OUTSIDE.code,
            OUTSIDE.severity,
            scope.name,
            f'step "{called}" is called directly' + (f", through {through}()" if through else ""),
            f"it is not recorded, and a replay would run it again; write: {line}",
        )
        return
    if function is not None and called not in known and not _is_ours(source, function):
        for statement in function.body:
            yield from _find(scope, source, statement, called, known | {called})


def _reason(source: Source, called: str) -> str | None:
    if not called or called in _HARMLESS or called in source.functions:
        return None
    module = called.rpartition(".")[0]
    root = called.partition(".")[0]
    if root not in {name.partition(".")[0] for name in source.imports.values()} and "." in called:
        return None  # an attribute of a value that is named like a module
    return _CALLS.get(called) or _MODULES.get(module) or (_MODULES.get(root) if root != called else None)


def _is_ours(source: Source, function: Function) -> bool:
    """Whether a function is a step, a workflow, or workflow code with a scope of its own."""
    decorators = [one.func if isinstance(one, ast.Call) else one for one in function.decorator_list]
    if any(source.resolve(one) in ("stepwell.step", "stepwell.workflow") for one in decorators):
        return True
    arguments = [*function.args.posonlyargs, *function.args.args]
    kind = arguments[0].annotation if arguments else None
    return kind is not None and source.resolve(kind).rpartition(".")[2] in ("Context", "SyncContext")
