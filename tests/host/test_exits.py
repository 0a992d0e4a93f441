"""How a process ends that has given up a thread."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, sys, time
from stepwell import Context, Engine, SyncEngine, step, workflow

@step(timeout="50ms")
def stuck() -> None:
    time.sleep(600)

@workflow
async def flow(ctx: Context) -> str:
    return (await ctx.try_step(stuck)).kind

async def main(url: str) -> str:
    async with Engine(url, workflows=[flow]) as engine:
        return await (await engine.start(flow)).result()

def blocking(url: str) -> str:
    with SyncEngine(url, workflows=[flow]) as engine:
        return engine.start(flow).result()

print(asyncio.run(main(sys.argv[2])) if sys.argv[1] == "Engine" else blocking(sys.argv[2]))
"""


@pytest.mark.parametrize("kind", ["Engine", "SyncEngine"])
def test_a_thread_that_was_given_up_does_not_keep_its_process(tmp_path: Path, kind: str):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, str(program), kind, f"sqlite:///{tmp_path}/exit.db"]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert (ended.returncode, ended.stdout) == (0, "timeout\n")
