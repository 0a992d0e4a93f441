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
    """`engine.holds`: has runs and workflows stand still, and lets them go on."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def pause(self, target: str, *, by: str = "", reason: str = "") -> bool:
        """Have a run stand still until `resume`. Signals and events are kept for it, and its timers do not wake it.

        One that is being executed goes on to the end of the steps under way, whose results are kept. False if it is
        paused already, being cancelled or undone, or has ended. A run that was continued stands for the one that
        continues it.
        """
        run = await self._backend.get_last(target)
        said, act = redact(reason), self._backend.new_act()
        return await self._backend.retrying(lambda store: store.runs.pause(run.run_id, by=by, reason=said, act=act))

    async def resume(self, target: str, *, by: str = "") -> bool:
        """Let a paused run go on: one that a person paused, or one that stopped, after its cause is fixed. One that
        has not stopped yet simply goes on. False if it is not paused.
        """
        run = await self._backend.get(target)
        act = self._backend.new_act()
        return await self._backend.retrying(lambda store: store.runs.resume(run.run_id, by=by, act=act))

    async def pause_workflow(self, workflow: str | None, *, by: str = "", reason: str = "") -> bool:
        """Let no worker begin or go on with runs of this workflow, in any version, or of any (None). Those that are
        being executed are given back between two steps.

        Runs are started and get signals as before; timers that are due wait. False if it is paused already. Raises
        `UnknownWorkflowError` for a name that neither this engine nor the store knows.
        """
        await self._check_workflow(workflow)
        said, act = redact(reason), self._backend.new_act()
        return await self._backend.retrying(lambda store: store.holds.pause(workflow, by=by, reason=said, act=act))

    async def resume_workflow(self, workflow: str | None, *, by: str = "") -> bool:
        """Let runs of the workflow, or of all (None), go on: workers take what is due as soon as they hear of it. False
        if it is not paused.

        Resuming all does not resume a workflow that was paused by its name.
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

    # Last, because behind it `list` is this method.
    async def list(self) -> list[HoldView]:
        """The workflows that are paused: all of them first, then by name."""
        found = await self._backend.retrying(lambda store: store.holds.list_holds())
        return [hold_view(hold, workflow) for workflow, hold in found]
