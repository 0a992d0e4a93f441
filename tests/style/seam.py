"""Finds code that reads a clock, draws randomness, makes ids, or starts concurrent work by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

# Forbidden even as a value (`default_factory=time.time`), because somebody will call it.
REFERENCES = {
    *(f"time.{name}" for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")),
    *(f"time.{name}" for name in ("process_time", "localtime", "gmtime", "ctime")),
    *(f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")),
    "datetime.date.today",
    *(f"uuid.{name}" for name in ("uuid1", "uuid4", "uuid6", "uuid7")),
    "os.urandom",
    "os.getrandom",
    "os.fork",
    *(f"asyncio.{name}" for name in ("create_task", "ensure_future", "to_thread", "run_coroutine_threadsafe")),
    "_thread.start_new_thread",
}
MODULES = {"random", "secrets"}
HARMLESS = {"random.Random", "secrets.compare_digest"}
# Fine in an annotation; forbidden to call or to inherit from.
CLASSES = {
    "threading.Thread",
    "threading.Timer",
    "random.SystemRandom",
    "concurrent.futures.ThreadPoolExecutor",
    "concurrent.futures.ProcessPoolExecutor",
    "multiprocessing.Process",
}
METHODS = {"create_task", "run_in_executor"}


def findings(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Each offence as its line and the full name of what was used, whatever it was imported as."""
    names = _imported_names(module)
    for node in ast.walk(module):
        match node:
            case ast.Name() | ast.Attribute():
                name = _full_name(node, names)
                if name and (name in REFERENCES or _is_module_function(name)):
                    yield node.lineno, name
            case ast.ClassDef(bases=bases):
                yield from ((node.lineno, n) for base in bases if (n := _full_name(base, names)) in CLASSES and n)
            case ast.Call(func=func):
                name = _full_name(func, names)
                if name in CLASSES:
                    yield node.lineno, name
                elif name == "random.Random" and not node.args:
                    yield node.lineno, "random.Random()"
                elif isinstance(func, ast.Attribute) and func.attr in METHODS and name not in REFERENCES:
                    yield node.lineno, f".{func.attr}"
            case _:
                pass


def _is_module_function(name: str) -> bool:
    return name.partition(".")[0] in MODULES and name.count(".") == 1 and name not in HARMLESS | CLASSES


def _imported_names(module: ast.Module) -> dict[str, str]:
    names: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _full_name(node: ast.expr, names: dict[str, str]) -> str:
    match node:
        case ast.Name(id=name):
            return names.get(name, "")
        case ast.Attribute(value=value, attr=attr):
            owner = _full_name(value, names)
            return f"{owner}.{attr}" if owner else ""
        case _:
            return ""
