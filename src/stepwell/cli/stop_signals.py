"""Ctrl-C and SIGTERM, for commands that serve until they are stopped."""

from __future__ import annotations

import os
import signal
from collections.abc import Coroutine
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Self

from stepwell.cli.errors import INTERRUPTED

if TYPE_CHECKING:  # help must not wait for asyncio
    import asyncio
    from types import FrameType

    from stepwell.environment import Executor

_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)


class StopSignals(AbstractContextManager["StopSignals"]):
    """While it is entered, the first Ctrl-C or SIGTERM asks the command to stop, and the second one ends the process at
    once. Nothing is lost: another worker repeats what is not recorded.

    Python handles these signals between two instructions of the main thread. So the second one works even if a body
    blocks the event loop.
    """

    def __init__(self) -> None:
        self._is_asked = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked: asyncio.Event | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in _NUMBERS:
            self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: it is not one of Python's

    def watch(self) -> asyncio.Event:
        """An event of the running loop. It is set once the command is asked to stop."""
        import asyncio

        self._loop, self._asked = asyncio.get_running_loop(), asyncio.Event()
        if self._is_asked:
            self._asked.set()
        return self._asked

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._is_asked or (self._loop is not None and self._loop.is_closed()):
            os._exit(INTERRUPTED)
        self._is_asked = True
        if self._loop is not None and self._asked is not None:
            self._loop.call_soon_threadsafe(self._asked.set)  # it may interrupt anything in this thread


async def ends_unless_stopped(work: Coroutine[Any, Any, object], stop: asyncio.Event, executor: Executor) -> bool:
    """Wait for work that may take long, such as opening a database that does not answer. Asked to stop, cancel it.

    Returns whether the work has ended.
    """
    import asyncio

    working = executor.spawn(work, name="stepwell-working")
    stopped = executor.spawn(stop.wait(), name="stepwell-stopped")
    try:
        await asyncio.wait([working, stopped], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        if not working.done():
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
    if working.cancelled():
        return False
    await working
    return True
