"""A program with children: `python children.py METHOD KIND URL`. It prints what came of it as one line of JSON.

METHOD is one of multiprocessing (fork, spawn, forkserver), or "exit" for `os.fork` and a child that ends as any program
does, with everything that Python does at the end, or "stay" for a child that goes on when the parent's engine has been
closed. KIND is the engine that is open meanwhile in the parent: Engine or
SyncEngine.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from stepwell import Context, Engine, SyncEngine, WorkerSettings, workflow
from stepwell.errors import WrongLoopError

CHILDREN = 3
PATIENCE = "60s"
SETTINGS = WorkerSettings(lease=PATIENCE)


def same(number: int) -> int:
    return number


@workflow
async def flow(ctx: Context, number: int) -> int:
    return await ctx.step("same", same, number)


inherited: Engine | SyncEngine | None = None  # what a forked child finds


def child(url: str, number: int) -> list[Any]:
    """What a child does: use what it has inherited, which is refused; then open an engine of its own, and use it."""
    said = "nothing inherited"
    if inherited is not None:
        try:
            called = inherited.start(flow, number)
            if not isinstance(inherited, SyncEngine):
                asyncio.run(called)  # type: ignore[arg-type]
            said = "worked"
        except WrongLoopError as error:
            said = error.title
    with SyncEngine(url, workflows=[flow], settings=SETTINGS) as own:
        return [said, own.start(flow, number, key=f"child-{number}").result(timeout=PATIENCE)]


def fork_and_exit(url: str, number: int) -> list[Any]:
    """The same in a child that leaves by the front door."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, json.dumps(child(url, number)).encode())
        sys.exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        came = json.load(answer)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return list(came)


def have_children(method: str, url: str) -> list[list[Any]]:
    """Let the children do their part; what each said."""
    if method == "exit":
        return [fork_and_exit(url, number) for number in range(CHILDREN)]
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(CHILDREN, mp_context=context) as pool:
        return list(pool.map(child, [url] * CHILDREN, range(CHILDREN)))


async def asynchronous(method: str, url: str) -> dict[str, Any]:
    """A parent with an asynchronous engine."""
    global inherited
    async with Engine(url, workflows=[flow], settings=SETTINGS) as engine:
        inherited = engine
        before = await (await engine.start(flow, 10)).result(timeout=PATIENCE)
        said = have_children(method, url)
        after = [await (await engine.start(flow, number)).result(timeout=PATIENCE) for number in (11, 12)]
        ends = [await engine.result(f"child-{number}", timeout=PATIENCE) for number in range(CHILDREN)]
    return {"said": said, "parent": [before, *after], "seen": ends}


def blocking(method: str, url: str) -> dict[str, Any]:
    """A parent with a blocking one."""
    global inherited
    with SyncEngine(url, workflows=[flow], settings=SETTINGS) as engine:
        inherited = engine
        before = engine.start(flow, 10).result(timeout=PATIENCE)
        said = have_children(method, url)
        after = [engine.start(flow, number).result(timeout=PATIENCE) for number in (11, 12)]
        ends = [engine.result(f"child-{number}", timeout=PATIENCE) for number in range(CHILDREN)]
    return {"said": said, "parent": [before, *after], "seen": ends}


def outlived(url: str) -> dict[str, Any]:
    """A child opens an engine while that of the parent is open, and uses it when that is closed."""
    ready, go = os.pipe(), os.pipe()
    with SyncEngine(url, workflows=[flow], settings=SETTINGS) as engine:
        engine.start(flow, 10).result(timeout=PATIENCE)
        pid = os.fork()
        if pid == 0:
            with SyncEngine(url, workflows=[flow], settings=SETTINGS) as own:
                own.start(flow, 0, key="child-0").result(timeout=PATIENCE)
                os.write(ready[1], b"!")
                os.read(go[0], 1)
                for number in range(1, CHILDREN):
                    own.start(flow, number, key=f"child-{number}").result(timeout=PATIENCE)
            os._exit(0)
        os.read(ready[0], 1)
    os.write(go[1], b"!")
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with SyncEngine(url, workflows=[flow], settings=SETTINGS) as engine:
        seen = [engine.result(f"child-{number}", timeout=PATIENCE) for number in range(CHILDREN)]
    return {"code": code, "seen": seen}


def main(way: str, kind: str, where: str) -> dict[str, Any]:
    """Do what the command line says."""
    if way == "stay":
        return outlived(where)
    return asyncio.run(asynchronous(way, where)) if kind == "Engine" else blocking(way, where)


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
