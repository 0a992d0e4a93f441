"""Runs that are looked for at the same time are read together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stepwell.engine.lookups import Finder
from stepwell.errors import StoreUnavailableError


class SlowViews:
    """Answers when it is told to, with the name of what was asked for."""

    def __init__(self) -> None:
        self.reads: list[list[str]] = []
        self.gates: list[asyncio.Future[None]] = []

    async def find(self, target: str) -> str:
        return (await self.find_many([target]))[0]

    async def find_many(self, targets: Sequence[str]) -> list[str]:
        asked = list(targets)
        self.reads.append(asked)
        self.gates.append(asyncio.get_running_loop().create_future())
        await self.gates[-1]
        return [f"run {target}" for target in asked]

    async def answer(self, error: Exception | None = None) -> None:
        gate = self.gates.pop(0)
        if error is None:
            gate.set_result(None)
        else:
            gate.set_exception(error)
        await settle()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def views() -> SlowViews:
    return SlowViews()


@pytest.fixture
def finder(views: SlowViews) -> Finder:
    return Finder(cast("Any", SimpleNamespace(views=views)))


async def ask(finder: Finder, *targets: str) -> list[asyncio.Task[Any]]:
    tasks = [asyncio.ensure_future(finder.find(target)) for target in targets]
    await settle()
    return tasks


async def test_who_asks_first_is_answered_alone_and_the_rest_by_one_read(finder: Finder, views: SlowViews) -> None:
    tasks = await ask(finder, "a", "b", "c", "b")
    assert views.reads == [["a"]]
    await views.answer()
    assert views.reads == [["a"], ["b", "c", "b"]]
    await views.answer()

    assert [task.result() for task in tasks] == ["run a", "run b", "run c", "run b"]
    [late] = await ask(finder, "d")
    assert views.reads[-1] == ["d"]
    await views.answer()
    assert late.result() == "run d"


async def test_those_who_give_up_keep_nobody_waiting(finder: Finder, views: SlowViews) -> None:
    first, *gone = await ask(finder, "a", "b", "c")
    for task in gone:
        task.cancel()
    await views.answer()
    assert first.result() == "run a"

    tasks = await ask(finder, "d", "e", "f")
    tasks[0].cancel()
    await settle()
    assert views.reads[-1] == ["e", "f"]
    tasks[1].cancel()  # it was reading for both
    await settle()
    assert views.reads[-1] == ["f"]
    views.gates = views.gates[-1:]
    await views.answer()
    assert tasks[2].result() == "run f"


async def test_a_read_that_fails_is_each_ones_own_failure(finder: Finder, views: SlowViews) -> None:
    first, second, third = await ask(finder, "a", "b", "c")
    await views.answer(StoreUnavailableError("away"))
    assert isinstance(first.exception(), StoreUnavailableError)
    await views.answer(StoreUnavailableError("away"))
    assert isinstance(second.exception(), StoreUnavailableError)
    assert views.reads[-1] == ["c"]
    await views.answer()
    assert third.result() == "run c"
