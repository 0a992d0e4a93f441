"""The ways of asyncio to do several things at once, as workflow code uses them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from stepwell.errors import RunError

FORMS: Final = ("wait", "first", "completed", "group", "cancelled")
Named = list[tuple[str, Coroutine[Any, Any, Any]]]


async def run_tasks(form: str, work: Named) -> Any:
    """What came of the work, by name, in the order in which asyncio gives it; or "failed"."""
    if form == "group":
        return await _group(work)
    tasks = [asyncio.create_task(_name(name, each)) for name, each in work]
    match form:
        case "wait":
            done, _ = await asyncio.wait(tasks)
            return [task.result() for task in done]
        case "first":
            done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
            if pending:
                await asyncio.wait(pending)
            return [task.result() for task in done]
        case "completed":
            return [await each for each in asyncio.as_completed(tasks)]
        case _:
            await asyncio.sleep(0)
            tasks[0].cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            return [each for each in results if not isinstance(each, asyncio.CancelledError)]


async def run_in_turn(form: str, work: Named) -> Any:
    """The same for plain functions, which do one thing after the other."""
    skipped = 1 if form == "cancelled" else 0
    wanted = 1 if form == "first" else len(work)
    for _, each in work[:skipped] + work[wanted:]:
        each.close()
    try:
        return [await _name(name, each) for name, each in work[skipped:wanted]]
    except RunError:
        return "failed"


async def _group(work: Named) -> Any:
    tasks: list[asyncio.Task[Any]] = []
    failed = False
    try:
        async with asyncio.TaskGroup() as group:
            tasks += [group.create_task(_name(name, each)) for name, each in work]
    except* RunError:
        failed = True
    return "failed" if failed else [task.result() for task in tasks]


async def _name(name: str, work: Coroutine[Any, Any, Any]) -> list[Any]:
    return [name, await work]
