"""Threads for the blocking calls of a whole test."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from stepwell.replay.step_context import StepContext
from stepwell.virtual.loop import VirtualLoop

T = TypeVar("T")


class ThreadCalls:
    """Runs blocking calls in threads. Virtual time does not pass meanwhile."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._one: ThreadPoolExecutor | None = None  # for calls that the loop waits for, which end in order
        self._many: ThreadPoolExecutor | None = None  # for calls that need the loop while they run

    def begin(self, call: Callable[[], T], began: Callable[[], None] | None) -> asyncio.Future[T]:
        """Run a call."""
        if began is not None:
            began()  # a thread is always free
        future: asyncio.Future[T]
        if self._loop.manual is None or _needs_loop(call):
            if self._many is None:
                self._many = ThreadPoolExecutor(32, thread_name_prefix="stepwell-step")
            future = self._loop.run_in_executor(self._many, call)
            return future
        if self._one is None:
            self._one = ThreadPoolExecutor(1, thread_name_prefix="stepwell-step")
        # The loop waits for it: concurrent steps then end in the same order in every execution.
        future = self._loop.create_future()
        try:
            future.set_result(self._one.submit(call).result())
        except BaseException as error:  # noqa: BLE001  whatever a call raises is its outcome
            future.set_exception(error)
        return future

    def close(self) -> None:
        """Let idle threads end."""
        for pool in (self._one, self._many):
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)


def _needs_loop(call: Callable[[], Any]) -> bool:
    """Whether a call talks to the engine while it runs: a body with a context may wait for a checkpoint."""
    return isinstance(call, functools.partial) and any(isinstance(each, StepContext) for each in call.args)
