"""A store that a process reaches over a wire, which can observe, delay and lose every call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from stepwell.clock import Instant
from stepwell.codec.blobs import Blobs
from stepwell.stores.base.diagnosis import Diagnosis
from stepwell.stores.base.store import Capabilities, Store
from stepwell.stores.base.upkeep import Upkeep
from stepwell.stores.base.wakeups import Listener, Wakeups

_NOUNS = (
    *("runs", "signals", "events", "outbox", "holds", "ledger", "records", "retention", "workers", "transactions"),
    *("transfers", "views", "overviews"),
)

Method = Callable[..., Awaitable[Any]]


class Wire(Protocol):
    """Carries the calls of one process to its store."""

    async def call(self, noun: str, verb: str, method: Method, args: Any, kwargs: Any, /) -> Any:
        """Carry one call there, and its answer back."""
        ...


class RemoteStore:
    """The store at the other end of a wire."""

    def __init__(self, store: Store, wire: Wire, wakeups: Wakeups) -> None:
        self._store = store
        self.wakeups = wakeups
        self.runs: Any
        self.signals: Any
        self.events: Any
        self.outbox: Any
        self.holds: Any
        self.ledger: Any
        self.records: Any
        self.retention: Any
        self.workers: Any
        self.transactions: Any
        self.transfers: Any
        self.views: Any
        self.overviews: Any
        for noun in _NOUNS:
            setattr(self, noun, _RemoteNoun(wire, noun, getattr(store, noun)))

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

    def diagnosis(self) -> Diagnosis | None:
        return self._store.diagnosis()

    def upkeep(self) -> Upkeep | None:
        return None  # a simulated process has no connection of its own

    async def open(self) -> None:
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()


class _RemoteNoun:
    def __init__(self, wire: Wire, noun: str, behind: Any) -> None:
        self._wire, self._noun, self._behind = wire, noun, behind

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        wire, noun, behind = self._wire, self._noun, self._behind
        if verb == "enqueue":  # runs in the caller's transaction, without waiting
            return getattr(behind, verb)  # type: ignore[no-any-return]

        def call(*args: Any, **kwargs: Any) -> Any:
            return wire.call(noun, verb, getattr(behind, verb), args, kwargs)

        setattr(self, verb, call)
        return call


class FilteredWakeups:
    """Hints that arrive only while the connection to the store is open."""

    def __init__(self, wakeups: Wakeups, is_open: Callable[[], bool]) -> None:
        self._wakeups = wakeups
        self._is_open = is_open

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Listen to hints; call the returned function to stop."""
        return self._wakeups.listen(lambda hint: listener(hint) if self._is_open() else None)
