"""Pausing and resuming: one run, the runs of a workflow, or all."""

from __future__ import annotations

from stepwell.clock import to_datetime
from stepwell.engine.backend import Backend
from stepwell.engine.views import HoldActView, HoldView, hold_view
from stepwell.errors import UnknownWorkflowError
from stepwell.model.holds import workflow_of
from stepwell.nearest import nearest
from stepwell.redaction import redact


class Holds:
    """`engine.holds`: pauses and resumes runs and workflows."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def pause(self, target: str, *, by: str = "", reason: str = "") -> bool:
        """Pause a run until `resume`. Its signals and events are kept, and its timers do not wake it.

        A run that a worker executes first finishes the steps under way, whose results are kept. False if it is already
        paused, is being cancelled or rolled back, or has ended. A continued run is followed to its newest successor.
        """
        run = await self._backend.get_last(target)
        said, act = redact(reason), self._backend.new_act()
        return await self._backend.retrying(lambda store: store.runs.pause(run.run_id, by=by, reason=said, act=act))

    async def resume(self, target: str, *, by: str = "") -> bool:
        """Resume a paused run: one paused by a person, or one paused by changed code after the cause is fixed. A run
        that has not stopped yet just continues. False if it is not paused.
        """
        run = await self._backend.get(target)
        act = self._backend.new_act()
        return await self._backend.retrying(lambda store: store.runs.resume(run.run_id, by=by, act=act))

    async def pause_workflow(self, workflow: str | None, *, by: str = "", reason: str = "") -> bool:
        """Pause a workflow in all its versions, or every workflow (None): no worker claims its runs, and workers
        release them between two steps.

        Runs can still be started and get signals; due timers wait. False if it is already paused. Raises
        `UnknownWorkflowError` for a name that neither this engine nor the store knows.
        """
        await self._check_workflow(workflow)
        said, act = redact(reason), self._backend.new_act()
        return await self._backend.retrying(lambda store: store.holds.pause(workflow, by=by, reason=said, act=act))

    async def resume_workflow(self, workflow: str | None, *, by: str = "") -> bool:
        """Resume a workflow, or all that `pause_workflow(None)` paused: workers are notified, and claim due runs.
        False if it is not paused.

        Resuming all does not resume a workflow that was paused by name.
        """
        act = self._backend.new_act()
        is_done = await self._backend.retrying(lambda store: store.holds.resume(workflow, by=by, act=act))
        if not is_done:
            await self._check_workflow(workflow)
        return is_done

    async def list_acts(self, *, limit: int = 100) -> list[HoldActView]:
        """Who paused and resumed workflows, or all of them: the latest acts, newest first."""
        found = await self._backend.retrying(lambda store: store.holds.list_acts(limit=limit))
        return [HoldActView(to_datetime(one.at), one.workflow, one.verb, one.by, one.reason) for one in found]

    async def _check_workflow(self, workflow: str | None) -> None:
        if workflow is None:
            return
        definitions = [
            *self._backend.registry.definitions,
            *await self._backend.retrying(lambda store: store.views.list_definitions()),
        ]
        known = sorted({workflow_of(definition) for definition in definitions})
        if workflow not in known:
            raise UnknownWorkflowError("workflow", workflow, near=nearest(workflow, known))

    # Last, because below it `list` is this method.
    async def list(self) -> list[HoldView]:
        """The workflows that are paused: all of them first, then by name."""
        found = await self._backend.retrying(lambda store: store.holds.list_holds())
        return [hold_view(hold, workflow) for workflow, hold in found]
