"""The connection of one test process to its store. It sees every write, and can lose calls and answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

from stepwell.clock import Instant
from stepwell.errors import StoreUnavailableError
from stepwell.ids import Incarnation
from stepwell.model.commits import Applied, Commit
from stepwell.replay.bodies import Body
from stepwell.stores.base.store import Store
from stepwell.virtual.lanes import Lane
from stepwell.virtual.wire import FilteredWakeups, Method, RemoteStore
from stepwell.worker.transactions import StepWork


class Watcher(Protocol):
    """Sees the writes of a process. `before` and `after` may kill the process, or raise an error for it."""

    def before(self, wire: Wire, commits: Sequence[Commit]) -> None: ...
    def wrote(self, wire: Wire, commits: Sequence[Commit], applied: Sequence[Applied]) -> None: ...
    def after(self, wire: Wire, commits: Sequence[Commit]) -> None: ...
    def performs(self, wire: Wire, body: Body) -> None: ...


class Wire:
    """Carries the calls of one process to its store, as long as it is alive and connected."""

    def __init__(self, lane: Lane, watcher: Watcher) -> None:
        self._watcher = watcher
        self.lane = lane
        self.incarnation: Incarnation | None = None
        self.is_cut_off = False  # every call fails, and no hint arrives

    def reach(self, store: Store) -> RemoteStore:
        """The store at the other end."""
        return RemoteStore(store, self, FilteredWakeups(store.wakeups, self._is_open))

    def _is_open(self) -> bool:
        return not self.lane.is_dead and not self.is_cut_off

    async def call(self, noun: str, verb: str, method: Method, args: Any, kwargs: Any) -> Any:
        """One call and its answer."""
        name = f"{noun}.{verb}"
        if name == "runs.apply":
            return await self._apply(method, args, kwargs)
        if name == "transactions.perform":
            return await self._perform(method, args, kwargs)
        await self._reach()
        if name == "workers.register":
            self.incarnation = args[0].incarnation
        return await method(*args, **kwargs)

    async def _apply(self, method: Method, args: Any, kwargs: Any) -> Any:
        commits = args[0]
        await self._reach()
        self._watcher.before(self, commits)
        await self._reach()
        applied = await method(*args, **kwargs)
        self._watcher.wrote(self, commits, applied)
        self._watcher.after(self, commits)
        await self._reach()
        return applied

    async def _perform(self, method: Method, args: Any, kwargs: Any) -> Any:
        commit, work = args
        await self._reach()
        if isinstance(work, StepWork):
            self._watcher.performs(self, work._body)
        await self._reach()
        performed = await method(commit, _Watched(work, self), **kwargs)
        if performed.applied is not None:
            commits = [performed.commit or commit]
            self._watcher.wrote(self, commits, [performed.applied])
            self._watcher.after(self, commits)
        await self._reach()
        return performed

    def before_commit(self, commit: Commit) -> None:
        """Inside a transaction, before it is committed. If the process is killed here, the transaction rolls back."""
        self._watcher.before(self, [commit])
        if self.lane.is_dead:
            raise StoreUnavailableError("the process died inside its transaction")

    async def _reach(self) -> None:
        if self.lane.is_dead:
            await never()
        if self.is_cut_off:
            raise StoreUnavailableError("this worker is disconnected from the store")


class _Watched:
    """The work of a transactional step, observed before its transaction is committed."""

    def __init__(self, work: Any, wire: Wire) -> None:
        self._work = work
        self._wire = wire

    def __call__(self, tx: Any, now: Instant) -> Commit:
        commit: Commit = self._work(tx, now)
        self._wire.before_commit(commit)
        return commit

    def __repr__(self) -> str:
        return repr(self._work)


async def never() -> NoReturn:
    """Never returns: a dead process waits here."""
    while True:
        await asyncio.get_running_loop().create_future()
