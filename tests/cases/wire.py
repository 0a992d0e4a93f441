"""A store as one process reaches it: every call is counted, and can be lost on its way there or back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from stepwell.clock import Instant
from stepwell.codec.blobs import Blobs
from stepwell.errors import StoreUnavailableError
from stepwell.stores.base.store import Capabilities, Store
from stepwell.stores.base.wakeups import Hint, Hub

Hook = Callable[[str], Awaitable[None]]

WRITES = frozenset({"create", "claim", "apply", "cancel", "deliver", "publish"})


async def _pass(_: str) -> None:
    return None


class Wire:
    """The store behind, with hooks around each call. Hints come through here as well, unless they are dropped."""

    def __init__(self, store: Store, log: list[tuple[str, Any, Any]]) -> None:
        self._store = store
        self._log = log  # of all processes, in order
        self.calls: list[str] = []
        self.answers: list[tuple[str, Any, Any]] = []  # of `apply`: what was sent, and what became of it
        self.before: Hook = _pass
        self.after: Hook = _pass
        self.is_cut = False  # nothing comes through, and nobody is told
        self.is_down = False  # every call is refused
        self.drops_hints = False
        self.wakeups = Hub()
        self.runs: Any = _Noun(self, "runs")
        self.signals: Any = _Noun(self, "signals")
        self.events: Any = _Noun(self, "events")
        self.outbox: Any = _Noun(self, "outbox")
        self.holds: Any = _Noun(self, "holds")
        self.ledger: Any = _Noun(self, "ledger")
        self.workers: Any = _Noun(self, "workers")
        self.transactions: Any = _Noun(self, "transactions")
        self.transfers: Any = _Noun(self, "transfers")
        self.views: Any = _Noun(self, "views")
        self._unlisten: Callable[[], None] = lambda: None

    @property
    def blobs(self) -> Blobs:
        return self._store.blobs

    @property
    def capabilities(self) -> Capabilities:
        return self._store.capabilities

    @property
    def behind(self) -> Store:
        """The store itself, without this wire."""
        return self._store

    def now(self) -> Instant:
        return self._store.now()

    def declare_encrypted(self) -> None:
        self._store.declare_encrypted()

    async def open(self) -> None:
        await self._store.open()
        self._unlisten = self._store.wakeups.listen(self._hint)

    async def close(self) -> None:
        if not self.is_cut:
            unlisten, self._unlisten = self._unlisten, lambda: None
            unlisten()
            await self._store.close()

    def cut(self) -> None:
        """Its process is dead: it reaches nothing any more."""
        self.is_cut = True

    def count(self, *names: str) -> int:
        """How many calls of these names were made."""
        return sum(call in names for call in self.calls)

    def _hint(self, hint: Hint) -> None:
        if not self.is_cut and not self.drops_hints:
            self.wakeups.tell(hint)

    async def call(self, noun: str, verb: str, args: Any, kwargs: Any) -> Any:
        """One call: counted, hooked, answered."""
        name = f"{noun}.{verb}"
        self.calls.append(name)
        await self._reach()
        await self.before(name)
        await self._reach()
        result = await getattr(getattr(self._store, noun), verb)(*args, **kwargs)
        if name == "runs.apply":
            answers = list(zip([name] * len(result), args[0], result, strict=True))
            self.answers += answers
            self._log += answers
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
        if self.is_cut:
            await asyncio.get_running_loop().create_future()
        if self.is_down:
            raise StoreUnavailableError("the store is away")


class _Noun:
    def __init__(self, wire: Wire, noun: str) -> None:
        self._wire, self._noun = wire, noun

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        return lambda *args, **kwargs: self._wire.call(self._noun, verb, args, kwargs)
