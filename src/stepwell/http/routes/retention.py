"""Operations on retention: how long runs are kept, the rounds of the workers that delete, and erasing runs."""

from __future__ import annotations

from dataclasses import asdict

import msgspec

from stepwell.engine.facts import facts_of
from stepwell.engine.footprint import Footprint, TableFootprint, WorkflowFootprint
from stepwell.engine.retention import EraseReport, PruneRound, Retention
from stepwell.http.fields import Text
from stepwell.http.operations import Call, FilterText, Operation, Reply, look
from stepwell.http.roles import Permission
from stepwell.http.schemas import audience_of, fields_of


class PruneRoundBody(fields_of(PruneRound)):  # type: ignore[misc]
    """A round of the workers that delete: the one that is under way, or the last one. `kept` counts by reason."""


class KeepsBody(msgspec.Struct):
    """For how many seconds ended runs are kept, by outcome. An outcome that is not listed is kept for ever."""

    outcomes: dict[str, float]
    workflows: dict[str, dict[str, float]]


class RetentionBody(msgspec.Struct):
    """The policy of the application of this server, if it has one, and the rounds of all workers."""

    policy: KeepsBody | None
    rounds: list[PruneRoundBody]


class TableFootprintBody(fields_of(TableFootprint)):  # type: ignore[misc]
    """What a table takes, in bytes."""


class WorkflowFootprintBody(fields_of(WorkflowFootprint)):  # type: ignore[misc]
    """What the runs of a workflow take, about, and what pruning by the policy would free."""


class FootprintBody(
    fields_of(Footprint, tables=list[TableFootprintBody], workflows=list[WorkflowFootprintBody])  # type: ignore[misc]
):
    """Where the bytes of the database are. `note` says what it does by itself about deleted rows."""


class EraseBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which runs to erase with their trees, and why. With `dry_run`, they are only counted."""

    where: FilterText
    reason: Text = ""
    dry_run: bool = False


class ErasedBody(fields_of(EraseReport)):  # type: ignore[misc]
    """How many runs matched and were erased. `left` are runs whose tree has an active run or is too large."""


async def show(call: Call) -> Reply:
    """How long runs are kept, and the rounds of the workers."""
    care, audience = call.services.engine.retention, audience_of(call)
    rounds = [PruneRoundBody(**facts_of(one, audience)) for one in await care.rounds()]
    return Reply(RetentionBody(None if care.policy is None else _keeps(care.policy), rounds))


async def footprint(call: Call) -> Reply:
    """Where the bytes of the database are. It may be a minute old: all callers share one."""
    found = asdict(await call.services.engine.retention.footprint())
    tables = [TableFootprintBody(**one) for one in found.pop("tables")]
    workflows = [WorkflowFootprintBody(**one) for one in found.pop("workflows")]
    return Reply(FootprintBody(**found, tables=tables, workflows=workflows))


async def erase(call: Call) -> Reply:
    """Erase the runs that match a filter."""
    body: EraseBody = call.body
    call.filter(body.where, where="where")
    report = await call.services.engine.retention.erase(
        body.where, by=call.caller.name, reason=body.reason, dry_run=body.dry_run
    )
    call.after = f"{'would erase' if body.dry_run else 'erased'} {report.runs}"
    return Reply(ErasedBody(**facts_of(report, audience_of(call))))


def _keeps(policy: Retention) -> KeepsBody:
    return KeepsBody(policy.seconds, {name: each.seconds for name, each in policy.workflows.items()})


OPERATIONS = (
    look("/retention", "show_retention", show, "How long runs are kept", {200: RetentionBody}),
    look("/retention/footprint", "show_footprint", footprint, "What the database takes", {200: FootprintBody}),
    Operation(
        method="POST",
        path="/retention/erase",
        name="erase_runs",
        permission=Permission.AUDIT,
        handler=erase,
        summary="Erase runs for ever",
        answers={200: ErasedBody},
        body=EraseBody,
    ),
)
