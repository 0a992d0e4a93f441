"""Hints from the store: a worker reads what has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, assert_never

from stepwell.ids import RunId
from stepwell.model.holds import ALL_WORKFLOWS
from stepwell.model.states import TERMINAL, RunStatus
from stepwell.stores.base.wakeups import Hint, HintKind
from stepwell.worker.companions import Companion
from stepwell.worker.execution import Execution
from stepwell.worker.executions import Executions
from stepwell.worker.relay import Relays
from stepwell.worker.resources import Resources
from stepwell.worker.rounds import Rounds


class HintListener:
    """Reads from the store when a hint arrives. A lost hint only costs time."""

    def __init__(
        self,
        resources: Resources,
        executions: Executions,
        relays: Relays,
        companions: Sequence[Companion],
        rounds: Rounds,
    ) -> None:
        self._resources = resources
        self._executions = executions
        self._relays = relays
        self._companions = companions
        self._rounds = rounds
        self._looks: set[asyncio.Task[None]] = set()  # that hints have begun

    def receive(self, hint: Hint) -> None:
        """A hint arrived."""
        match hint.kind:
            case HintKind.READY:
                self._resources.wake.set()
            case HintKind.MAIL:
                for run_id in hint.runs:
                    self.look_at(run_id)
            case HintKind.OWED:
                self._relays.wake()
            case HintKind.HELD:
                self._look_at_holds()
            case HintKind.CHANGED:
                self._look_at_holds()
                self._resources.wake.set()
                self._relays.wake()
                self._wake_companions()
                for execution in self._executions:
                    self.look_at(execution.run.run_id)
            case HintKind.DUE:
                self._wake_companions()
            case HintKind.REPLIED | HintKind.STREAM:
                pass
            case HintKind.ENDED:
                for run_id in hint.runs:
                    self._executions.code_cache.forget(run_id)
            case _:
                assert_never(hint.kind)

    def _wake_companions(self) -> None:
        for companion in self._companions:
            companion.wake()

    async def close(self) -> None:
        """End what hints have begun. The event loop may be closed next."""
        looks = tuple(self._looks)
        for look in looks:
            look.cancel()
        if looks:
            await asyncio.gather(*looks, return_exceptions=True)

    def _spawn(self, make: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        task = self._resources.environment.executor.spawn(self._run(make), name=name)
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)

    async def _run(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        # The work is made here: a task that is cancelled before it begins leaves no coroutine behind.
        await self._rounds.once(make())

    def look_at(self, run_id: RunId) -> None:
        """Read a run again: it may have been changed from outside."""
        execution = self._executions.find(run_id)
        if execution is not None and not execution.is_over:
            self._spawn(lambda: self._look(execution), "stepwell-mail")

    async def _look(self, execution: Execution) -> None:
        """Fetch the inbox of an owned run, and check whether this worker still owns it."""
        store = self._resources.store
        epoch, run = execution.run.epoch, await store.views.find(execution.run.run_id)
        if execution.is_over or execution.run.epoch != epoch or run is None:
            return  # a new claim has read newer facts
        if run.status in TERMINAL or (run.owner, run.epoch) != (self._resources.lease.incarnation, epoch):
            execution.lose()
            # This worker may own it by a later claim that it does not know.
            self._resources.requests.suspect_lost_claims()
        elif run.status is RunStatus.CANCELLING:
            execution.cancel()
        elif run.hold is not None:
            execution.leave()
        else:
            execution.receive(await store.runs.inbox(run.run_id), epoch)

    def _look_at_holds(self) -> None:
        if self._executions.active:
            self._spawn(self._honour_holds, "stepwell-holds")

    async def _honour_holds(self) -> None:
        """Release the runs of workflows that were paused."""
        held = {workflow or ALL_WORKFLOWS for workflow, _ in await self._resources.store.holds.list_holds()}
        for execution in self._executions:
            if not held.isdisjoint((ALL_WORKFLOWS, execution.run.workflow)):
                execution.leave()
