"""What the nouns of an engine share: the store, retries, and finding runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, TypeVar

from stepwell.advice import Advice, Verb
from stepwell.codec.base import REFERENCE, Codec, Place
from stepwell.codec.json_codec import JsonCodec
from stepwell.codec.offload import Offloaded
from stepwell.engine.lookups import Finder
from stepwell.environment import Affinity, Environment
from stepwell.errors import NotFoundError, StoreError
from stepwell.ids import RunId
from stepwell.model.outbox import Announce
from stepwell.model.runs import Claimed, Run, normal_key
from stepwell.model.workers import Claimant
from stepwell.nearest import nearest
from stepwell.replay.event_loop import refuse_in_workflow
from stepwell.replay.registry import Registry
from stepwell.stores.base.faults import is_final
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import Detail, RunFilter

T = TypeVar("T")

TRIES_MAX: Final = 20  # of a request whose acknowledgement was lost
PAUSE: Final = 0.05  # seconds before the second try; each further pause is longer by as much
_SHOWN: Final = Place("", "", "a value that is shown")


class LocalWorker(Protocol):
    """A worker in the same process."""

    def offer(self) -> Claimant | None: ...
    def is_executing(self, run_id: RunId) -> bool: ...
    def adopt(self, claimed: Iterable[Claimed]) -> None: ...
    def evict(self, run_id: RunId) -> None: ...
    @property
    def awaiting(self) -> AbstractContextManager[None]: ...


class Backend:
    """A store and what is needed to use it: retries, the codec, known workflows, and the worker of this process."""

    def __init__(
        self,
        environment: Environment,
        store: Store,
        registry: Registry,
        codec: Codec,
        announce: Announce | None = None,
        signals_max: int | None = None,
    ) -> None:
        self.environment = environment
        self.opened = store  # for what needs no event loop
        self.registry = registry
        self.codec = codec
        self.announce = announce
        self.signals_max = signals_max  # how many signals may wait for one run
        self.affinity: Affinity | None = None  # while the engine is open
        self.worker: LocalWorker | None = None
        if codec.conceals:
            store.declare_encrypted()

    @property
    def store(self) -> Store:
        """The store, for what is awaited: in the event loop that the engine was opened in."""
        self.check_home()
        return self.opened

    def check_home(self) -> None:
        """Raise for a call from another event loop or process, or from workflow code."""
        if self.affinity is not None:
            refuse_in_workflow("an engine")
            self.affinity.check("this engine")

    # --- asking ---

    async def retrying(self, ask: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        """Repeat a request until the store answers, a bounded number of times. Requests carry their own ids, so
        repeating is safe.
        """
        store = self.store
        for tries in range(TRIES_MAX):
            try:
                return await ask(store)
            except StoreError as error:
                if tries == TRIES_MAX - 1 or is_final(error):
                    raise
                await asyncio.sleep(PAUSE * (tries + 1))
        raise AssertionError("unreachable")

    def new_act(self) -> str:
        """The id of an act of an operator. An act that is repeated with the same id happens once."""
        return self.environment.ids.uuid()

    async def with_offer(self, ask: Callable[[Claimant | None], Coroutine[Any, Any, T]]) -> T:
        """Make a request that may claim runs for the worker of this process, if it has free slots."""
        worker = self.worker
        offer = None if worker is None else worker.offer()
        if worker is None or offer is None:
            return await ask(None)
        with worker.awaiting:
            return await ask(offer)

    def adopt(self, claimed: Iterable[Claimed]) -> None:
        """Execute the runs that such a request has claimed."""
        if self.worker is not None:
            self.worker.adopt(claimed)

    # --- finding runs, by id or key ---

    async def find(self, target: str) -> Run | None:
        """A run; None if there is none."""
        return await self.retrying(lambda store: store.views.find(normal_key(target)))

    async def get(self, target: str, finder: Finder | None = None) -> Run:
        """A run; a finder shares its read with other callers. Raises `NotFoundError`."""
        # An id is in lower case without blanks, so normalizing it as a key does not change it.
        found = await self.retrying(lambda store: (finder or store.views).find(normal_key(target)))
        if found is None:
            raise NotFoundError("run", target, near=await self.near(target), fix=Advice(Verb.LIST))
        return found

    async def get_last(self, target: str) -> Run:
        """The last run of a chain that continues as new. Raises `NotFoundError`."""
        run = await self.get(target)
        while run.successor is not None:
            run = await self.get(run.successor)
        return run

    async def detail(self, target: str) -> Detail:
        """Everything stored about one run, in one consistent read. Raises `NotFoundError`."""
        # By id first: that needs no separate lookup.
        detail = await self.retrying(lambda store: store.views.detail(RunId(normal_key(target))))
        if detail is None:
            run = await self.get(target)
            detail = await self.retrying(lambda store: store.views.detail(run.run_id))
        if detail is None:
            raise NotFoundError("run", target, fix=Advice(Verb.LIST))
        return detail

    async def near(self, target: str) -> list[str]:
        """Ids and keys that are similar."""
        if len(target) >= 4:
            begun = await self.store.views.find_by_prefix(target, limit=2)
            if begun:
                return list(begun)
        recent = await self.store.views.list_runs(RunFilter(), limit=200)
        return nearest(target, [name for run in recent for name in (run.key, run.run_id) if name])

    # --- values ---

    def fetch(self, payload: bytes) -> bytes:
        """A payload. If it is stored outside its run, it is read from the database or the folder of this engine; its
        reference is returned if it cannot be read.
        """
        if payload[:1] != REFERENCE:
            return payload
        codec = self.codec if isinstance(self.codec, Offloaded) else Offloaded(JsonCodec(), self.opened.blobs)
        try:
            return codec.open(payload, _SHOWN)
        except StoreError:
            return payload
