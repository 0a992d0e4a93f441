"""Threads for blocking calls end with what they belong to."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable

import pytest

from stepwell.environment import SystemExecutor


async def _call(executor: SystemExecutor) -> list[threading.Thread]:
    """The threads of three calls at the same time."""
    gate = threading.Barrier(3)

    def call() -> threading.Thread:
        gate.wait()
        return threading.current_thread()

    return [*await asyncio.gather(*(executor.call_blocking(call) for _ in range(3)))]


@pytest.mark.parametrize("end", [SystemExecutor.close, None], ids=["closed", "dropped"])
def test_threads_end_with_their_executor(end: Callable[[SystemExecutor], None] | None) -> None:
    executor = SystemExecutor()
    threads = asyncio.run(_call(executor))

    if end is not None:
        end(executor)
    else:
        del executor
        gc.collect()

    for thread in threads:
        thread.join(timeout=60)
    assert len(set(threads)) == 3
    assert not any(thread.is_alive() for thread in threads)
