"""A client process with one errand, as a command line is: `python -m tests.system.errand FOLDER VERB ...`.

It knows no workflow: runs are started by name. What it prints is acknowledged.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from stepwell import Engine
from tests.system.fleet import DATABASE, ROOT

SECONDS_MAX = 60


async def perform(folder: Path, verb: str, target: str, rest: list[str]) -> Any:
    """Do one thing, and say what came of it."""
    async with Engine(f"sqlite:///{folder / DATABASE}") as engine:
        match verb:
            case "start":
                workflow, key = target, rest[0]
                return (await engine.runs.start_by_name(workflow, 1, json.loads(rest[1]), key=key)).run_id
            case "signal":
                return (await engine.signal(target, *rest)).value
            case "status":
                view = await engine.status(target)
                return None if view is None else view.status
            case "result":
                return await engine.result(target, timeout=f"{SECONDS_MAX}s")
            case _:
                raise ValueError(verb)


def send(folder: Path, verb: str, target: str, *rest: str) -> Any:
    """Send a process on an errand; what it printed."""
    command = [sys.executable, "-m", "tests.system.errand", str(folder), verb, target, *rest]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2 * SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(perform(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]))))
