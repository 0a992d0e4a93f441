"""Engines that are opened without a block: in shells, in scripts that never close them, and under a blocked loop."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from stepwell import SyncEngine

HEAD = """
import asyncio, sys, time
from stepwell import App, Context, Engine, SyncEngine, step, workflow

@workflow
async def flow(ctx: Context, number: int) -> int:
    return await ctx.step("same", lambda: number)

@step
def endless() -> None:
    time.sleep(600)

@step
async def blocking() -> None:
    time.sleep(600)

@workflow
async def stuck(ctx: Context) -> None:
    await ctx.step(endless)

@workflow
async def blocked(ctx: Context) -> None:
    await ctx.step(blocking)

app = App(sys.argv[1], workflows=[flow, stuck, blocked])
"""


def run(program: str, folder: Path, *words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    file = folder / "program.py"
    file.write_text(HEAD + program, encoding="utf-8")
    command = [sys.executable, *words, str(file), f"sqlite:///{folder}/exit.db"]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)


def workers(folder: Path) -> list[str]:
    with SyncEngine(f"sqlite:///{folder}/exit.db") as engine:
        return [worker.name for worker in engine.workers.list()]


def test_a_script_that_never_closes_its_engine_gives_its_lease_back_when_it_exits(tmp_path: Path):
    ended = run("engine = SyncEngine(app).open()\nprint(engine.start(flow, 2).result('60s'))\n", tmp_path)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "2\n", "")
    assert workers(tmp_path) == []


def test_an_engine_that_is_closed_by_hand_is_not_closed_again(tmp_path: Path):
    ended = run(
        "engine = SyncEngine(app).open()\nprint(engine.start(flow, 2).result('60s'))\nengine.close()\n", tmp_path
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "2\n", "")


def test_a_shell_uses_an_engine_without_a_block(tmp_path: Path):
    typed = "engine = SyncEngine(app).open()\nrun = engine.start(flow, 7)\nprint(run.result('60s'))\nexit()\n"
    ended = run("", tmp_path, "-i", text=typed)

    assert (ended.returncode, "7" in ended.stdout.split()) == (0, True), ended.stderr
    assert workers(tmp_path) == []


@pytest.mark.parametrize("name", ["stuck", "blocked"])
def test_an_exit_does_not_wait_for_a_body_that_never_ends(tmp_path: Path, name: str):
    began = time.monotonic()
    program = f"engine = SyncEngine(app).open()\nengine.start({name}, delay='500ms')\ntime.sleep(2)\n"
    ended = run(f"{program}print('exits', flush=True)\n", tmp_path)

    assert (ended.returncode, ended.stdout) == (0, "exits\n")
    assert time.monotonic() - began < 30


def test_an_asynchronous_engine_that_is_never_closed_does_not_keep_its_process(tmp_path: Path):
    program = """
async def main() -> None:
    engine = await Engine(app).open()
    print(await (await engine.start(flow, 3)).result(timeout="60s"))

asyncio.run(main())
"""
    ended = run(program, tmp_path)

    assert (ended.returncode, ended.stdout) == (0, "3\n"), ended.stderr


def test_a_forked_child_does_not_close_the_engine_of_its_parent(tmp_path: Path):
    program = """
import os
engine = SyncEngine(app).open()
engine.start(flow, 1).result("60s")
child = os.fork()
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
print(engine.start(flow, 2).result("60s"), len(engine.workers.list()))
"""
    ended = run(program, tmp_path)

    assert (ended.returncode, ended.stdout) == (0, "2 1\n"), ended.stderr
