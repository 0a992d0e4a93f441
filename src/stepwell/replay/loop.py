"""The event loop inside a workflow: it never waits, never does I/O, and always runs things in the same order.

Workflow code may use `asyncio.gather`, tasks, task groups, locks, queues and events; all of that runs here, first in
first out, until nothing is left to run. Whoever drives the loop then knows exactly what the workflow waits for. Anything that
would need the outside world (sockets, threads, real timers) is refused with the fix.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any, NoReturn

from stepwell.errors import NonDeterministicError


class TurnLoop(asyncio.AbstractEventLoop):
    """Runs the coroutines of one workflow until all of them wait."""

    def __init__(self) -> None:
        self.ready: deque[asyncio.Handle] = deque()
        self.problem: BaseException | None = None

    def run_until_idle(self) -> None:
        """Run what is ready, and what that makes ready, until nothing is."""
        ready = self.ready
        outer = events._get_running_loop()
        events._set_running_loop(self)
        try:
            while ready:
                handle = ready.popleft()
                if not handle._cancelled:  # type: ignore[attr-defined]
                    handle._run()
        finally:
            events._set_running_loop(outer)

    # --- what asyncio itself asks of a loop ---

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        handle = asyncio.Handle(callback, args, self, context)
        self.ready.append(handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None, **_: Any
    ) -> asyncio.Task[Any]:  # type: ignore[override]
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def time(self) -> float:
        return 0.0

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An error that nobody awaits inside the workflow: kept for the driver. Destroyed pending tasks carry none."""
        if self.problem is None:
            self.problem = context.get("exception")

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    # --- what a workflow must not do ---

    def call_later(self, delay: float, *_: Any, **__: Any) -> NoReturn:
        _refuse(
            "a timer (asyncio.sleep, asyncio.timeout or wait_for)",
            'await ctx.sleep("name", ...), or give the operation a timeout=',
        )

    def call_at(self, when: float, *_: Any, **__: Any) -> NoReturn:
        self.call_later(when)

    def call_soon_threadsafe(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("a call from another thread", "do it inside a step")

    def run_in_executor(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("a thread or process", "do it inside a step; a sync step runs in a thread by itself")

    async def getaddrinfo(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("the network", "do it inside a step")

    async def create_connection(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("the network", "do it inside a step")

    def add_reader(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("a file or socket", "do it inside a step")

    def add_writer(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("a file or socket", "do it inside a step")

    async def subprocess_exec(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("a subprocess", "do it inside a step")

    async def shutdown_asyncgens(self) -> None:
        return None


def _refuse(what: str, fix: str) -> NoReturn:
    raise NonDeterministicError(
        f"workflow code used {what} outside a step",
        why="each recovery would see something else than the first run did",
        fix=fix,
    )
