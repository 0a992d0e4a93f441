"""Carries the calls of one process to its store: every call is counted, and can be lost on its way there or back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from stepwell.errors import StoreUnavailableError
from stepwell.stores.base.store import Store
from stepwell.virtual.lanes import Lane
from stepwell.virtual.wire import FilteredWakeups, Method, RemoteStore

Hook = Callable[[str], Awaitable[None]]

WRITES = frozenset({"create", "claim", "apply", "cancel", "deliver", "publish"})


async def _pass(_: str) -> None:
    return None


class Wire:
    """Hooks around each call. Hints come through here as well, unless they are dropped."""

    def __init__(self, behind: Store, lane: Lane, log: list[tuple[str, Any, Any]]) -> None:
        self._lane = lane
        self._log = log  # of all processes, in order
        self.behind: Any = behind
        self.store = RemoteStore(behind, self, FilteredWakeups(behind.wakeups, self._is_open))
        self.calls: list[str] = []
        self.answers: list[tuple[str, Any, Any]] = []  # of `apply`: what was sent, and what became of it
        self.before: Hook = _pass
        self.after: Hook = _pass
        self.is_down = False  # every call is refused
        self.drops_hints = False

    def count(self, *names: str) -> int:
        """How many calls of these names were made."""
        return sum(call in names for call in self.calls)

    def mend(self) -> None:
        """No hook, and no fault."""
        self.before = self.after = _pass
        self.is_down = False

    def _is_open(self) -> bool:
        return not self._lane.is_dead and not self.drops_hints

    async def call(self, noun: str, verb: str, method: Method, args: Any, kwargs: Any) -> Any:
        """One call: counted, hooked, answered."""
        name = f"{noun}.{verb}"
        self.calls.append(name)
        await self._reach()
        await self.before(name)
        await self._reach()
        result = await method(*args, **kwargs)
        answers: list[tuple[str, Any, Any]] = []
        if name == "runs.apply":
            answers = list(zip([name] * len(result), args[0], result, strict=True))
        elif name == "transactions.perform" and result.commit is not None:
            answers = [(name, result.commit, result.applied)]
        self.answers += answers
        self._log += answers
        await self.after(name)
        await self._reach()
        return result

    async def _reach(self) -> None:
        # A moment in which a process that was just stopped stays stopped.
        await asyncio.sleep(0)
        if self.is_down:
            raise StoreUnavailableError("the store is away")
