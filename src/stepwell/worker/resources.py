"""The services and settings that all parts of a worker share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any

from stepwell.clock import Instant
from stepwell.codec.base import Codec
from stepwell.config import WorkerSettings
from stepwell.environment import Environment
from stepwell.ids import Incarnation
from stepwell.model.runs import Run
from stepwell.replay.registry import Registry
from stepwell.sinks.routes import Routes
from stepwell.stores.base.store import Store
from stepwell.worker.claim_requests import ClaimRequests
from stepwell.worker.committer import Committer
from stepwell.worker.lease import Lease
from stepwell.worker.notices import Notices
from stepwell.worker.observers import Observers
from stepwell.worker.receipts import Receipts
from stepwell.worker.run_logs import RunLog


@dataclass(slots=True, eq=False)
class Resources:
    """Settings, services and the store. Lease and committer are replaced together when a lease was lost."""

    environment: Environment
    store: Store
    registry: Registry
    settings: WorkerSettings
    codec: Codec
    routes: Routes
    observers: Observers | None
    run_log: RunLog | None  # None if its level is off
    on_over: Callable[[Run], None] | None  # called with each run that is no longer executed here; completed, if it is
    lease: Lease = field(init=False)
    committer: Committer = field(init=False)
    notices: Notices = field(init=False)
    receipts: Receipts = field(init=False, default_factory=Receipts)
    wake: asyncio.Event = field(init=False, default_factory=asyncio.Event)  # set to let the claimer look for runs
    requests: ClaimRequests = field(init=False)
    now: Callable[[], Instant] = field(init=False)
    _context: Context = field(init=False, default_factory=copy_context)

    def __post_init__(self) -> None:
        self.now = self.store.now
        self.notices = Notices(self.observers, self.run_log, self.on_over, self.now, self.codec)
        self.requests = ClaimRequests(self.wake)
        self.lease = self.new_lease()

    def new_lease(self) -> Lease:
        """A lease of a new incarnation, which is not registered yet."""
        incarnation = Incarnation(self.environment.ids.uuid())
        return Lease(self.environment.clock, incarnation, self.settings.lease_span)

    def spawn_body(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a body with the context variables of the worker, whatever the bodies before it did to theirs."""
        return self.environment.executor.begin(work, name="stepwell-step", context=self._context.copy())
