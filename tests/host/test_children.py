"""Processes that a program makes while an engine is open: by every way that Python has."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from tests.host import children
from tests.host.children import CHILDREN

REFUSED = "this engine was opened before this process was forked"


# A child that is forked inside a coroutine and leaves by the front door would go on with its parent's event loop, which
# asyncio forbids: that is not a way that works for anybody.
WAYS = [(method, kind) for method in ("fork", "spawn", "forkserver") for kind in ("Engine", "SyncEngine")]
WAYS.append(("exit", "SyncEngine"))


@pytest.mark.parametrize(("method", "kind"), WAYS)
def test_children_open_engines_of_their_own_and_the_parent_goes_on(tmp_path: Path, method: str, kind: str):
    file = tmp_path / "children.db"
    command = [sys.executable, children.__file__, method, kind, f"sqlite:///{file}"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    said = REFUSED if method in ("fork", "exit") else "nothing inherited"
    assert json.loads(done.stdout) == {
        "said": [[said, number] for number in range(CHILDREN)],
        "parent": [10, 11, 12],
        "seen": list(range(CHILDREN)),
    }
    connection = apsw.Connection(str(file))
    assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_a_child_keeps_the_file_when_its_parent_has_closed_it(tmp_path: Path):
    """Closed as if nobody else had it open, its log would be deleted under the child."""
    command = [sys.executable, children.__file__, "stay", "SyncEngine", f"sqlite:///{tmp_path}/children.db"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert json.loads(done.stdout) == {"code": 0, "seen": list(range(CHILDREN))}


@pytest.mark.parametrize(("method", "kind"), [("fork", "Engine"), ("exit", "SyncEngine")])
def test_connections_to_a_server_stay_the_parents(postgres_url: str, method: str, kind: str):
    command = [sys.executable, children.__file__, method, kind, postgres_url]

    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert json.loads(done.stdout)["parent"] == [10, 11, 12]
