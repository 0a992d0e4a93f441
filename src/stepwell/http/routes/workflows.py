"""Operations on workflows: what can be started, and with which input."""

from __future__ import annotations

from typing import Any

import msgspec

from stepwell.codec.base import Place
from stepwell.codec.plans import plan_for
from stepwell.errors import NotFoundError, StepwellError
from stepwell.http.operations import Call, Reply, look
from stepwell.nearest import nearest
from stepwell.replay.signals import Signal
from stepwell.replay.workflows import Workflow


class SignalType(msgspec.Struct):
    """A signal that a workflow declares."""

    name: str
    payload: dict[str, Any] | None


class WorkflowBody(msgspec.Struct):
    """One version of a workflow. It has no schemas if this server knows it only from the store."""

    name: str
    version: int
    is_newest: bool
    is_known_here: bool
    takes_input: bool | None
    input: dict[str, Any] | None
    output: dict[str, Any] | None
    signals: list[SignalType] | None
    summary: str


class WorkflowList(msgspec.Struct):
    """Every workflow that this server or the store knows."""

    workflows: list[WorkflowBody]


async def list_workflows(call: Call) -> Reply:
    """Every workflow with the schemas of its input, its result and its signals."""
    return Reply(WorkflowList(await _workflows(call)))


async def show_workflow(call: Call) -> Reply:
    """One workflow in all its versions."""
    name = call.path["workflow"]
    everything = await _workflows(call)
    found = [each for each in everything if each.name == name]
    if not found:
        raise NotFoundError("workflow", name, near=nearest(name, [each.name for each in everything]))
    return Reply(WorkflowList(found))


async def _workflows(call: Call) -> list[WorkflowBody]:
    engine = call.services.engine
    known = {each.definition: _known(each) for each in engine.versions.known}
    for definition in await engine.versions.list():
        name, _, version = definition.rpartition("@")
        known.setdefault(definition, WorkflowBody(name, int(version), False, False, None, None, None, None, ""))
    newest = {name: max(found) for name, found in versions_of(list(known)).items()}
    for body in known.values():
        body.is_newest = body.version == newest[body.name]
    return sorted(known.values(), key=lambda body: (body.name, -body.version))


def _known(workflow: Workflow[Any, Any]) -> WorkflowBody:
    declared = workflow.mailbox.declared
    signals = None if declared is None else [_signal_type(name, each) for name, each in declared.items()]
    return WorkflowBody(
        workflow.name,
        workflow.version,
        False,
        True,
        workflow.takes_input,
        schema_of(workflow.input_hint) if workflow.takes_input else None,
        schema_of(workflow.output_hint),
        signals,
        (workflow.__doc__ or "").strip().partition("\n")[0],
    )


def _signal_type(name: str, signal: str | Signal[Any]) -> SignalType:
    return SignalType(name, schema_of(signal.hint) if isinstance(signal, Signal) else None)


def schema_of(hint: Any) -> dict[str, Any] | None:
    """The JSON Schema of a type; None if it has none."""
    try:
        plan_for(hint, Place("", "", "the schema"))
        return msgspec.json.schema(hint, schema_hook=lambda _: {})
    except (TypeError, ValueError, StepwellError):
        return None


def versions_of(definitions: list[str]) -> dict[str, list[int]]:
    """The versions of each workflow."""
    found: dict[str, list[int]] = {}
    for each in definitions:
        name, _, version = each.rpartition("@")
        found.setdefault(name, []).append(int(version))
    return found


OPERATIONS = (
    look("/workflows", "list_workflows", list_workflows, "Every workflow, with its schemas", {200: WorkflowList}),
    look(
        "/workflows/{workflow}",
        "show_workflow",
        show_workflow,
        "One workflow, newest version first",
        {200: WorkflowList},
    ),
)
