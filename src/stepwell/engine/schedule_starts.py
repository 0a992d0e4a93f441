"""What a tick starts: the run of a schedule, made by whichever worker knows its workflow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from stepwell.clock import Instant
from stepwell.engine.backend import Backend
from stepwell.engine.starts import encode_input, input_place
from stepwell.engine.versions import of_users
from stepwell.errors import InvalidInputError, UnknownWorkflowError
from stepwell.model.runs import NewRun, Run
from stepwell.model.schedules import Spec, fill_input, tick_attributes, tick_key, tick_run_id
from stepwell.model.states import RunStatus
from stepwell.nearest import nearest
from stepwell.replay.workflows import Workflow

STARTER: Final = "schedule "
"""Before the name of a schedule: who started its runs."""


class Target(NamedTuple):
    """The workflow that a schedule starts. Without a definition here, its workers check the input."""

    workflow: str
    version: int
    definition: Workflow[Any, Any] | None = None


class Targets:
    """Finds workflows by name, first here and then among the live workers, whom it asks once."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._served: dict[str, int] | None = None
        self._found: dict[str, Target] = {}

    async def find(self, workflow: str) -> Target:
        """The newest version that is known here, else that a live worker serves. Raises `UnknownWorkflowError`."""
        found = self._found.get(workflow)
        if found is None:
            found = self._found[workflow] = await self._find(workflow)
        return found

    async def _find(self, workflow: str) -> Target:
        known = self._known(workflow)
        if known is not None:
            return Target(workflow, known.version, known)
        if self._served is None:
            self._served = await self._read()
        version = self._served.get(workflow)
        if version is None:
            near = nearest(workflow, [*self._served, *(one.name for one in self._registered())])
            raise UnknownWorkflowError(
                "workflow", workflow, near=near, fix="start a worker whose module has it, or name another workflow"
            )
        return Target(workflow, version)

    def _known(self, workflow: str) -> Workflow[Any, Any] | None:
        versions = [one for one in self._registered() if one.name == workflow]
        return max(versions, key=lambda one: one.version, default=None)

    def _registered(self) -> Iterable[Workflow[Any, Any]]:
        registry = self._backend.registry
        found = (registry.find(definition) for definition in of_users(registry.definitions))
        return [one for one in found if one is not None]

    async def _read(self) -> dict[str, int]:
        now, found = self._backend.opened.now(), dict[str, int]()
        for worker in await self._backend.retrying(lambda store: store.views.list_workers()):
            if worker.lease_until > now:
                for definition in of_users(worker.definitions):
                    name, _, version = definition.rpartition("@")
                    found[name] = max(int(version), found.get(name, 0))
        return found


def new_run(
    backend: Backend, name: str, spec: Spec, target: Target, tick: Instant, previous: Instant | None, *, by: str = ""
) -> NewRun:
    """The run of a tick. It is the same run in whichever process, so a tick starts at most one.

    Raises `InvalidInputError` if the input does not fit the workflow.
    """
    run_id = tick_run_id(name, tick)
    value = fill_input(spec.input, name, spec.rule, tick, previous)
    definition = target.definition
    if definition is not None:
        stored = encode_input(backend.codec, definition, value, run_id)
    else:
        stored = backend.codec.encode(value, place=input_place(target.workflow, run_id))
    return NewRun(
        run_id,
        target.workflow,
        target.version,
        stored,
        tick_key(name, tick),
        discards=definition is not None and definition.discards,
        started_by=by or f"{STARTER}{name}",
        attributes=tick_attributes(name, tick, previous),
    )


def check_spec_input(backend: Backend, name: str, spec: Spec, target: Target, tick: Instant) -> None:
    """Raise `InvalidInputError` if the input of a tick would not fit the workflow, as far as it is known here."""
    definition = target.definition
    if definition is None:
        return
    if spec.input is not None and not definition.takes_input:
        raise InvalidInputError(f"workflow {definition.name!r} takes no input", where=f"schedule {name}")
    new_run(backend, name, spec, target, tick, tick)


async def find_active(backend: Backend, run_ids: Iterable[str]) -> set[str]:
    """Which of these runs have not ended. A run that continued as new is active while its successor is."""
    asked = sorted(set(run_ids))
    active: set[str] = set()
    leads = {run_id: run_id for run_id in asked}  # a run of the chain, and the run that was asked for
    while leads:
        found = await _find(backend, list(leads))
        following: dict[str, str] = {}
        for run in found:
            origin = leads.get(run.run_id)
            if origin is None:
                continue
            if run.status is RunStatus.CONTINUED and run.successor is not None:
                following[run.successor] = origin
            elif run.ended_at is None:
                active.add(origin)
        leads = following
    return active


async def _find(backend: Backend, run_ids: list[str]) -> list[Run]:
    found = await backend.retrying(lambda store: store.views.find_many(run_ids))
    return [run for run in found if run is not None]
