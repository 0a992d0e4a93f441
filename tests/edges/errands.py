"""Errands: runs that wait for signals, for timers and for children, and a ledger of every step that was run."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stepwell import Engine
from stepwell.cli.modules import load_workflows

ERRANDS = """
import os
from pathlib import Path

from stepwell import Context, workflow


async def note(what: str) -> str:
    with Path(os.environ["LEDGER"]).open("a") as ledger:
        ledger.write(what + "\\n")
    return what


@workflow
async def errand(ctx: Context, name: str) -> list[str]:
    done = [await ctx.step("fetch", note, f"{name} fetch")]
    ctx.state["where"] = "on its way"
    order = await ctx.receive("order")
    done.append(await ctx.step("carry", note, f"{name} carry {order.payload}"))
    await ctx.sleep("rest", 0.3)
    return [*done, "home"]


@workflow
async def parent(ctx: Context, name: str) -> list[str]:
    await ctx.step("pack", note, f"{name} pack")
    return await ctx.child(errand, f"child of {name}")
"""


class Errands(NamedTuple):
    """Two databases, one of them empty; the workflows; and what their steps did, line by line."""

    src: str
    dst: str
    app: str
    ledger: Path

    def lines(self) -> list[str]:
        return sorted(self.ledger.read_text().splitlines())


async def find_child(engine: Engine) -> str:
    while True:
        for run in await engine.runs.list():
            if run.parent is not None:
                return run.run_id
        await asyncio.sleep(0.01)


async def wait_until_all_wait(engine: Engine, *keys: str) -> None:
    for key in keys:
        while not (await engine.runs.detail(key)).history.waits:  # noqa: ASYNC110  another task waits
            await asyncio.sleep(0.01)


async def begin(url: str, workflows: dict[str, Any]) -> None:
    async with Engine(url, workflows=workflows.values()) as engine:
        for n in range(5):
            await engine.start(workflows["errand"], f"e{n}", key=f"e{n}")
        await engine.start(workflows["parent"], "p", key="p")
        await wait_until_all_wait(engine, *(f"e{n}" for n in range(5)), "p", await find_child(engine))
        await engine.signal("e0", "order", "milk", dedup_key="once")
        assert await engine.result("e0", timeout="60s") == ["e0 fetch", "e0 carry milk", "home"]
        await engine.signal("nobody yet", "order", "held", if_missing="hold")


def make_errands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, src: str, dst: str) -> Errands:
    """Runs in the source that wait, and one that has ended."""
    app, ledger = tmp_path / "errands_of_a_move.py", tmp_path / "ledger"
    app.write_text(ERRANDS)
    ledger.touch()
    monkeypatch.setenv("LEDGER", str(ledger))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, app.stem, raising=False)
    made = Errands(src, dst, str(app), ledger)
    asyncio.run(begin(made.src, {each.name: each for each in load_workflows(made.app)}))
    return made


async def finish(url: str, app: str) -> dict[str, Any]:
    """Send everybody what they wait for, and give what became of them."""
    async with Engine(url, workflows=load_workflows(app)) as engine:
        for n in range(1, 5):
            await engine.signal(f"e{n}", "order", "bread")
        await engine.signal(await find_child(engine), "order", "salt")
        return {key: await engine.result(key, timeout="60s") for key in ("e0", "e1", "e2", "e3", "e4", "p")}


STEPS_BEFORE = sorted([*(f"e{n} fetch" for n in range(5)), "p pack", "child of p fetch", "e0 carry milk"])
STEPS_AFTER = sorted([*STEPS_BEFORE, *(f"e{n} carry bread" for n in range(1, 5)), "child of p carry salt"])


def check_it_goes_on(errands: Errands) -> None:
    assert errands.lines() == STEPS_BEFORE
    results = asyncio.run(finish(errands.dst, errands.app))

    assert results["e1"] == ["e1 fetch", "e1 carry bread", "home"]
    assert results["p"] == ["child of p fetch", "child of p carry salt", "home"]
    assert errands.lines() == STEPS_AFTER  # not one of them twice


def die(errands: Errands, method: str, call: int, kind: str = "sqlite") -> None:
    """Begin a move in another process, which is killed before the n-th call of a method of this kind of store."""
    killer = f"""
import itertools, os, signal, sys
from stepwell.cli.main import main
from stepwell.engine.transfers import Move
from stepwell.stores.{kind}.transfers import {kind.title()}Transfers as Transfers

calls, original = itertools.count(1), Transfers.{method}

async def die(self, *args, **kwargs):
    if next(calls) == {call}:
        os.kill(os.getpid(), signal.SIGKILL)
    return await original(self, *args, **kwargs)

Transfers.{method} = die
Move.run.__kwdefaults__["batch_items"] = 2
main(["move", {errands.src!r}, {errands.dst!r}])
"""
    died = subprocess.run([sys.executable, "-c", killer], capture_output=True, timeout=60)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
