"""Receipts wait for a commit that they can share, but not for long."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from stepwell.virtual.loop import VirtualLoop
from stepwell.worker.receipts import Receipts


def in_virtual_time(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(work)


def test_each_is_recorded_within_its_time_and_those_that_are_due_together_at_once() -> None:
    receipts, recorded = Receipts(), list[tuple[str, int]]()

    async def read_three() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()

        def read(name: str) -> None:
            receipts.wait(lambda: recorded.append((name, round(1_000 * (loop.time() - began)))))

        read("first")
        await asyncio.sleep(0.003)
        read("soon after")
        await asyncio.sleep(0.007)
        read("later")
        await asyncio.sleep(1)

    in_virtual_time(read_three())
    assert recorded == [("first", 20), ("soon after", 20), ("later", 30)]


def test_one_that_begins_while_others_are_recorded_has_its_own_time() -> None:
    receipts, recorded = Receipts(), list[int]()

    async def read_again_and_again() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()

        def again() -> None:
            recorded.append(round(1_000 * (loop.time() - began)))
            if len(recorded) < 3:
                receipts.wait(again)

        receipts.wait(again)
        await asyncio.sleep(1)

    in_virtual_time(read_again_and_again())
    assert recorded == [20, 40, 60]
