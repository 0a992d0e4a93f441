"""House rules that a linter does not know: leftovers, machine paths, and what only the seam may touch."""

from __future__ import annotations

import ast
import re

import pytest

from tests.style.seam import findings
from tests.style.tree import (
    PACKAGE,
    ROOT,
    ignored_but_committed,
    name_of,
    project_files,
    source_files,
    syntax_of,
    text_of,
)

# Character classes keep these patterns from finding themselves.
LEFTOVER = re.compile(r"\b(?:TO[D]O|FIX[M]E|XX[X])\b")
MACHINE_PATH = re.compile(r"(?<![\w.$}~])/(?:home|root|work|Users)/\w")
REGISTRY = re.compile(
    r"py[p]i[.]org|python[h]osted[.]org|npm[j]s[.](?:org|com)|yarn[p]kg[.]com|ana[c]onda[.]org|crates[.]io"
    r"|--(?:extra-)?index-url[ =]"
)

UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}
UNSAFE_BUILTINS = {"eval", "exec", "__import__"}

# The seam may do everything; beside it, one thread writes to SQLite.
SEAM = {"clock.py", "ids.py", "environment.py"}
EXCEPTIONS = {
    "stores/sqlite/writer.py": {"threading.Thread"},
    # The virtual world is one more seam: its time is by hand, and its processes can be killed.
    "virtual/loop.py": {".create_task", ".run_in_executor"},
    "virtual/executors.py": {".create_task"},
    "testing/threads.py": {".run_in_executor", "concurrent.futures.ThreadPoolExecutor"},
    "testing/world.py": {".create_task"},
    "testing/base.py": {".create_task"},
    # Tasks of a workflow's own loop, which has neither time nor I/O.
    "replay/branches.py": {".create_task"},
    "replay/turn.py": {".create_task"},
    "replay/primitives/map.py": {".create_task"},
    "replay/primitives/wait_any.py": {".create_task"},
}


def lines_matching(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name_of(path)}:{number}: {line.strip()[:120]}"
        for path in project_files()
        for number, line in enumerate((text_of(path) or "").splitlines(), 1)
        if pattern.search(line)
    ]


def test_nothing_is_left_for_later_in_a_comment() -> None:
    assert lines_matching(LEFTOVER) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    here = re.compile(re.escape(str(ROOT)) + r"\b") if len(ROOT.parts) > 2 else MACHINE_PATH

    assert lines_matching(MACHINE_PATH) == []
    assert lines_matching(here) == []


def test_nothing_that_git_should_ignore_is_committed() -> None:
    assert ignored_but_committed()[:10] == []


def test_no_file_names_a_package_registry() -> None:
    assert lines_matching(REGISTRY) == []


def locked(name: str) -> dict[str, str]:
    """The lines of a lock by what they require, as `name==version`."""
    lock = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in lock.splitlines() if line.strip() and not line.startswith("#")]
    return {line.split()[0]: line for line in lines}


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_every_locked_requirement_has_hashes(name: str) -> None:
    requirements = locked(name)

    assert requirements
    assert [one for one, line in requirements.items() if "==" not in one or "--hash=sha256:" not in line] == []


def test_the_demo_installs_few_packages_and_developers_have_the_same_versions() -> None:
    demo, everything = locked("requirements.txt"), locked("requirements-dev.txt")

    assert len(demo) <= 15
    assert {one: line for one, line in everything.items() if one in demo} == demo


def test_values_are_never_read_by_code_that_could_run_them() -> None:
    found = []
    for path in source_files():
        for node in ast.walk(syntax_of(path)):
            match node:
                case ast.Import(names=names):
                    modules = [alias.name for alias in names]
                case ast.ImportFrom(module=str(module)):
                    modules = [module]
                case ast.Call(func=ast.Name(id=name)) if name in UNSAFE_BUILTINS:
                    found.append(f"{name_of(path)}:{node.lineno}: {name}()")
                    continue
                case _:
                    continue
            found += [f"{name_of(path)}:{node.lineno}: {m}" for m in modules if m.split(".")[0] in UNSAFE_MODULES]

    assert found == []


def test_only_the_seam_reads_time_makes_ids_or_starts_work() -> None:
    found = []
    for path in source_files():
        within = path.relative_to(PACKAGE).as_posix()
        if within not in SEAM:
            allowed = EXCEPTIONS.get(within, set())
            found += [
                f"{name_of(path)}:{line}: {name}" for line, name in findings(syntax_of(path)) if name not in allowed
            ]

    assert found == []


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import time\ntime.time()", "time.time"),
        ("import time as t\nwhen = t.monotonic", "time.monotonic"),
        ("from time import time_ns as n\nn()", "time.time_ns"),
        ("from datetime import datetime\ndatetime.now()", "datetime.datetime.now"),
        ("import datetime as d\nd.datetime.now(d.UTC)", "datetime.datetime.now"),
        ("from uuid import uuid4\nuuid4()", "uuid.uuid4"),
        ("import random\nrandom.choice([1])", "random.choice"),
        ("import random\nrandom.Random()", "random.Random()"),
        ("import asyncio\nasyncio.create_task(f())", "asyncio.create_task"),
        ("loop.create_task(f())", ".create_task"),
        ("group.create_task(f())", ".create_task"),
        ("from threading import Thread\nThread(target=f)", "threading.Thread"),
        ("import threading\nclass Mine(threading.Thread): ...", "threading.Thread"),
        ("import os\nos.urandom(8)", "os.urandom"),
    ],
)
def test_the_seam_rule_sees(code: str, name: str) -> None:
    assert [found for _, found in findings(ast.parse(code))] == [name]


@pytest.mark.parametrize(
    "code",
    [
        "import random\nseeded = random.Random(7)",
        "import random\ndef f(source: random.Random) -> float: return source.random()",
        "import threading\ndef f(thread: threading.Thread) -> None: ...",
        "import asyncio\ndef f(one: asyncio.Task[int]) -> None: ...",
        "clock.now()",
        "from datetime import datetime\ndatetime.fromtimestamp(0)",
    ],
)
def test_the_seam_rule_lets_pass(code: str) -> None:
    assert list(findings(ast.parse(code))) == []
