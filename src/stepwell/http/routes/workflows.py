"""Operations on workflows: what can be started, with which input, and how it goes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from stepwell.clock import to_datetime
from stepwell.engine.catalogue import WorkflowFacts
from stepwell.engine.versions import VersionUse
from stepwell.errors import NotFoundError
from stepwell.http.operations import Call, Reply, look
from stepwell.http.routes.overviews import HealthBody, health_body
from stepwell.http.schemas import HoldBody
from stepwell.model.states import RunStatus
from stepwell.nearest import nearest


class SignalType(msgspec.Struct):
    """A signal that a workflow declares."""

    name: str
    payload: dict[str, Any] | None


class WorkflowBody(msgspec.Struct):
    """One version of a workflow. It has no schemas if this server knows it only from the store.

    `sample` is an input that fits, to begin with; `source` is the file and the line of its code.
    """

    name: str
    version: int
    is_newest: bool
    is_known_here: bool
    takes_input: bool | None
    input: dict[str, Any] | None
    output: dict[str, Any] | None
    signals: list[SignalType] | None
    summary: str
    needs_input: bool | None = None
    sample: Any = None
    source: str = ""


class WorkflowList(msgspec.Struct):
    """Every workflow that this server or the store knows."""

    workflows: list[WorkflowBody]


class VersionBody(msgspec.Struct):
    """How many runs and workers use a version. `reason` tells why its code has to stay; empty if it may go."""

    workflow: str
    version: int
    live: int
    waiting: int
    redrivable: int
    runs: dict[str, int]
    served_by: list[str]
    last_at: datetime | None
    is_unserved: bool
    may_retire: bool
    reason: str


class VersionList(msgspec.Struct):
    """Every version that a run or a live worker names, by workflow, the newest first."""

    versions: list[VersionBody]


class WorkflowDetail(msgspec.Struct):
    """One workflow: its versions, newest first, with their use; how its latest runs went; and who paused it, if so."""

    workflows: list[WorkflowBody]
    versions: list[VersionBody]
    health: HealthBody
    hold: HoldBody | None


async def list_workflows(call: Call) -> Reply:
    """Every workflow with the schemas of its input, its result and its signals."""
    return Reply(WorkflowList(await _workflows(call)))


async def show_workflow(call: Call) -> Reply:
    """One workflow in all its versions, and how its latest runs went."""
    engine, name = call.services.engine, call.path["workflow"]
    everything = await _workflows(call)
    found = [each for each in everything if each.name == name]
    if not found:
        raise NotFoundError("workflow", name, near=nearest(name, [each.name for each in everything]))
    uses = [each for each in await engine.versions.uses() if each.workflow == name]
    holds = {each.workflow: each for each in await engine.holds.list()}
    hold = holds.get(name) or holds.get(None)
    return Reply(
        WorkflowDetail(
            found,
            [version_body(use, uses) for use in uses],
            health_body(call, await engine.overviews.health(name)),
            None if hold is None else HoldBody(hold.by, hold.reason, hold.at),
        )
    )


async def list_versions(call: Call) -> Reply:
    """Which versions runs and workers use."""
    uses = await call.services.engine.versions.uses()
    return Reply(VersionList([version_body(use, uses) for use in uses]))


def version_body(use: VersionUse, uses: Any) -> VersionBody:
    """The use of a version; `uses` has those of the other versions too."""
    reason = use.why_not(uses)
    return VersionBody(
        use.workflow,
        use.version,
        use.live,
        use.waiting,
        use.redrivable,
        {RunStatus(status).value: count for status, count in use.runs.items()},
        list(use.served_by),
        None if use.last_at is None else to_datetime(use.last_at),
        use.is_unserved,
        not reason,
        reason,
    )


async def _workflows(call: Call) -> list[WorkflowBody]:
    engine = call.services.engine
    known = {definition: _known(facts) for definition, facts in engine.versions.catalogue.items()}
    for definition in await engine.versions.list():
        name, _, version = definition.rpartition("@")
        known.setdefault(definition, WorkflowBody(name, int(version), False, False, None, None, None, None, ""))
    newest = {name: max(found) for name, found in versions_of(list(known)).items()}
    for body in known.values():
        body.is_newest = body.version == newest[body.name]
    return sorted(known.values(), key=lambda body: (body.name, -body.version))


def _known(facts: WorkflowFacts) -> WorkflowBody:
    signals = None if facts.signals is None else [SignalType(each.name, each.payload) for each in facts.signals]
    return WorkflowBody(
        facts.name,
        facts.version,
        False,
        True,
        facts.takes_input,
        facts.input,
        facts.output,
        signals,
        facts.summary,
        facts.needs_input,
        facts.sample,
        facts.source,
    )


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
        "One workflow: its versions, newest first, and how its latest runs went",
        {200: WorkflowDetail},
    ),
    look("/versions", "list_versions", list_versions, "Which versions runs and workers use", {200: VersionList}),
)
