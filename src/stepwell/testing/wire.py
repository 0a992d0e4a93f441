"""A store as one process of a test reaches it: whatever is written is seen here, and can be lost either way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from stepwell.clock import Instant
from stepwell.codec.blobs import Blobs
from stepwell.errors import StoreUnavailableError
from stepwell.ids import Incarnation
from stepwell.model.commits import Applied, Commit
from stepwell.replay.bodies import Body
from stepwell.stores.base.store import Capabilities, Store
from stepwell.stores.base.wakeups import Hint, Hub
from stepwell.worker.transactions import StepWork

if TYPE_CHECKING:
    from stepwell.testing.loop import Lane

_NOUNS = ("runs", "signals", "events", "outbox", "holds", "ledger", "workers", "transactions", "transfers", "views")


class Watcher(Protocol):
    """Who sees what a process writes. `before` and `after` may kill the process, or raise what it gets to hear."""

    def before(self, wire: Wire, commits: Sequence[Commit]) -> None: ...
    def wrote(self, wire: Wire, commits: Sequence[Commit], applied: Sequence[Applied]) -> None: ...
    def after(self, wire: Wire, commits: Sequence[Commit]) -> None: ...
    def performs(self, wire: Wire, body: Body) -> None: ...


class Wire:
    """The store behind, as far as the process that has this wire is alive and connected."""

    def __init__(self, store: Store, lane: Lane, watcher: Watcher) -> None:
        self._store = store
        self._watcher = watcher
        self.lane = lane
        self.incarnation: Incarnation | None = None
        self.is_cut_off = False  # every call is refused, and no hint comes
        self.wakeups = Hub()
        self.runs: Any
        self.signals: Any
        self.events: Any
        self.outbox: Any
        self.holds: Any
        self.ledger: Any
        self.workers: Any
        self.transactions: Any
        self.transfers: Any
        self.views: Any
        for noun in _NOUNS:
            setattr(self, noun, _Noun(self, noun, getattr(store, noun)))
        self._unlisten: Callable[[], None] = lambda: None

    @property
    def blobs(self) -> Blobs:
        return self._store.blobs

    @property
    def capabilities(self) -> Capabilities:
        return self._store.capabilities

    def now(self) -> Instant:
        return self._store.now()

    def declare_encrypted(self) -> None:
        self._store.declare_encrypted()

    async def open(self) -> None:
        await self._store.open()
        self._unlisten = self._store.wakeups.listen(self._hint)

    async def close(self) -> None:
        self._unlisten()
        await self._store.close()

    def _hint(self, hint: Hint) -> None:
        if not self.lane.is_dead and not self.is_cut_off:
            self.wakeups.tell(hint)

    async def call(self, noun: str, verb: str, bound: Callable[..., Awaitable[Any]], args: Any, kwargs: Any) -> Any:
        """One call: there, and back."""
        name = f"{noun}.{verb}"
        if name == "runs.apply":
            return await self._apply(bound, args, kwargs)
        if name == "transactions.perform":
            return await self._perform(bound, args, kwargs)
        await self._reach()
        if name == "workers.register":
            self.incarnation = args[0].incarnation
        return await bound(*args, **kwargs)

    async def _apply(self, bound: Callable[..., Awaitable[Any]], args: Any, kwargs: Any) -> Any:
        commits = args[0]
        await self._reach()
        self._watcher.before(self, commits)
        await self._reach()
        applied = await bound(*args, **kwargs)
        self._watcher.wrote(self, commits, applied)
        self._watcher.after(self, commits)
        await self._reach()
        return applied

    async def _perform(self, bound: Callable[..., Awaitable[Any]], args: Any, kwargs: Any) -> Any:
        commit, work = args
        await self._reach()
        if isinstance(work, StepWork):
            self._watcher.performs(self, work._body)
        await self._reach()
        performed = await bound(commit, _Watched(work, self), **kwargs)
        if performed.applied is not None:
            commits = [performed.commit or commit]
            self._watcher.wrote(self, commits, [performed.applied])
            self._watcher.after(self, commits)
        await self._reach()
        return performed

    def struck(self, commit: Commit) -> None:
        """Inside a transaction, before it is committed: whoever is killed here takes its transaction along."""
        self._watcher.before(self, [commit])
        if self.lane.is_dead:
            raise StoreUnavailableError("the process died inside of its transaction")

    async def _reach(self) -> None:
        if self.lane.is_dead:
            await never()
        if self.is_cut_off:
            raise StoreUnavailableError("this worker is cut off from the store")


class _Watched:
    """The work of a transactional step, seen before its transaction is committed."""

    def __init__(self, work: Any, wire: Wire) -> None:
        self._work = work
        self._wire = wire

    def __call__(self, tx: Any, now: Instant) -> Commit:
        commit: Commit = self._work(tx, now)
        self._wire.struck(commit)
        return commit

    def __repr__(self) -> str:
        return repr(self._work)


class _Noun:
    def __init__(self, wire: Wire, noun: str, behind: Any) -> None:
        self._wire, self._noun, self._behind = wire, noun, behind

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        bound, wire, noun = getattr(self._behind, verb), self._wire, self._noun
        if verb == "enqueue":  # in a transaction of the caller's own, and without waiting
            return bound  # type: ignore[no-any-return]

        def call(*args: Any, **kwargs: Any) -> Any:
            return wire.call(noun, verb, bound, args, kwargs)

        setattr(self, verb, call)
        return call


async def never() -> NoReturn:
    """What a dead process waits for."""
    while True:
        await asyncio.get_running_loop().create_future()
