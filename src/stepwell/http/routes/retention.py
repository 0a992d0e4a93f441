"""Operations on retention: how long runs are kept, the rounds of the workers that delete, and erasing runs."""

from __future__ import annotations

from dataclasses import asdict

import msgspec

from stepwell.clock import SECOND
from stepwell.engine.facts import facts_of
from stepwell.engine.footprint import Footprint, TableFootprint, WorkflowFootprint
from stepwell.engine.retention import BackupNote, EraseReport, PruneAhead, PruneRound, Retention
from stepwell.http.fields import DurationText, Text
from stepwell.http.operations import HIDDEN_TEXT, Call, FilterText, Operation, Reply, look
from stepwell.http.roles import Permission
from stepwell.http.schemas import audience_of, fields_of


class PruneRoundBody(fields_of(PruneRound)):  # type: ignore[misc]
    """A round of the workers that delete: the one that is under way, or the last one. `kept` counts by reason."""


class BackupBody(fields_of(BackupNote)):  # type: ignore[misc]
    """The last copy that `stepwell backup` made of the database. `size` is in bytes."""


class PruneAheadBody(fields_of(PruneAhead)):  # type: ignore[misc]
    """What would be deleted now. If `is_whole` is false, only the `seen` runs that ended first were looked at."""


class KeepsBody(msgspec.Struct):
    """For how many seconds ended runs are kept, by outcome. An outcome that is not listed is kept for ever. `signals`
    and `records` are the times of signals that were read and of records that were closed.
    """

    outcomes: dict[str, float]
    workflows: dict[str, dict[str, float]]
    signals: float
    records: float


class RetentionBody(msgspec.Struct):
    """The policy of the application of this server, if it has one, the rounds of all workers, and the last backup."""

    policy: KeepsBody | None
    rounds: list[PruneRoundBody]
    backup: BackupBody | None


class PruneAheadQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """For how long every ended run is kept, instead of what the application says."""

    ended: DurationText | None = None


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
    saved = await care.last_backup()
    backup = None if saved is None else BackupBody(**facts_of(saved, audience))
    if backup is not None and not call.caller.may(Permission.STEER):
        backup.target = HIDDEN_TEXT  # it names files and hosts
    return Reply(RetentionBody(None if care.policy is None else _keeps(care.policy), rounds, backup))


async def look_ahead(call: Call) -> Reply:
    """What the workers would delete now."""
    query: PruneAheadQuery = call.query
    found = await call.services.engine.retention.look_ahead(None if query.ended is None else Retention(query.ended))
    return Reply(PruneAheadBody(**facts_of(found, audience_of(call))))


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
    of = {name: each.seconds for name, each in policy.workflows.items()}
    return KeepsBody(policy.seconds, of, policy.signals / SECOND, policy.records / SECOND)


OPERATIONS = (
    look("/retention", "show_retention", show, "How long runs are kept", {200: RetentionBody}),
    look("/retention/footprint", "show_footprint", footprint, "What the database takes", {200: FootprintBody}),
    look(
        "/retention/ahead",
        "look_ahead_of_retention",
        look_ahead,
        "What would be deleted now",
        {200: PruneAheadBody},
        query=PruneAheadQuery,
    ),
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
