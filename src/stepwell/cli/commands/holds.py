"""Holds: pause and resume runs and workflows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.acts import Act, act_on
from stepwell.cli.bodies import hold_body
from stepwell.cli.bulk import RunSelection, choosing
from stepwell.cli.client import Client, ask
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Group, Settings, command
from stepwell.cli.texts import clean
from stepwell.cli.workflow_holds import act_body, act_line, act_on_all, act_on_workflow, hold_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwell.engine.views import HoldView

_ACTS_READ = 1_000  # the latest, of all workflows
_ACTS_SHOWN = 20
_COLUMNS = (
    Column("WORKFLOW", is_fixed=True),
    Column("VERSIONS", is_fixed=True, dropped=1),
    Column("LIVE", is_fixed=True),
    Column("WORKERS", is_fixed=True),
    Column("PAUSED"),
)


@command("pause")
@choosing
@click.option("--all", "is_all", is_flag=True, help="Every workflow, instead of one run.")
@click.option("--reason", default="", help="Shown to whoever asks why.")
def pause(settings: Settings, is_all: bool, reason: str, **which: Any) -> int:
    """Have a run stand still until it is resumed.

    Steps that are running end, and their results are kept. Signals are kept too, and timers that are due wait.
    A whole workflow is paused by `stepwell workflow pause`.

    \b
    Example:
      stepwell pause order-42 --reason "the parcel was seen elsewhere"
      stepwell pause --where 'workflow:import status:running'
      stepwell pause --all --reason "the bank is down"
    """
    chosen = RunSelection(**which)
    if is_all:
        return act_on_all(settings, chosen, "pause", reason)
    act = Act(
        "pause",
        {"reason": reason},
        done="Paused",
        impossible="be paused",
        needs="a run that has not ended and is not being cancelled or undone",
    )
    return act_on(settings, chosen, act)


@command("resume")
@choosing
@click.option("--all", "is_all", is_flag=True, help="What `pause --all` paused, instead of one run.")
def resume(settings: Settings, is_all: bool, **which: Any) -> int:
    """Let a paused run go on, after its cause is mended.

    \b
    Example:
      stepwell resume order-42
      stepwell resume --where 'status:paused workflow:checkout'
      stepwell resume --all
    """
    chosen = RunSelection(**which)
    if is_all:
        return act_on_all(settings, chosen, "resume")
    act = Act(
        "resume",
        {},
        done="Resumed",
        impossible="be resumed",
        needs="a paused run",
    )
    return act_on(settings, chosen, act)


@click.group("workflow", cls=Group)
def workflow() -> None:
    """See workflows, pause them and let them go on.

    \b
    Example:
      stepwell workflow pause checkout --reason "the bank is down"
    """


@command("ls")
def _ls(settings: Settings) -> None:
    """List workflows that a run or a worker names, and which are paused.

    \b
    Example:
      stepwell workflow ls
    """
    items, of_all = ask(settings, _read)
    out = Output(settings)
    if out.many("stepwell.workflow/1", "workflows", items, run_ids=[], all_paused=hold_body(of_all)):
        return
    if of_all is not None:
        out.note(f"Every workflow is {hold_line(of_all)}.")
    if not items:
        out.note("No run and no worker names a workflow here.")
        return
    out.table(_COLUMNS, [_row(item) for item in items])


@command("show")
@click.argument("name")
def _show(settings: Settings, name: str) -> None:
    """Show one workflow: its versions, how many runs of it there are, whether it is paused, and who paused it before.

    \b
    Example:
      stepwell workflow show checkout
    """

    async def look(client: Client) -> dict[str, Any]:
        from stepwell.errors import UnknownWorkflowError
        from stepwell.nearest import nearest

        items, of_all = await _read(client)
        found = [item for item in items if item["workflow"] == name]
        if not found:
            raise UnknownWorkflowError("workflow", name, near=nearest(name, [item["workflow"] for item in items]))
        acts = [act_body(act) for act in await client.engine.holds.list_acts(limit=_ACTS_READ)]
        concerning = [act for act in acts if act["workflow"] in (None, name)][:_ACTS_SHOWN]
        return {**found[0], "all_paused": hold_body(of_all), "acts": concerning}

    body = ask(settings, look)

    def words() -> Iterator[str]:
        yield clean(f"{body['workflow']}  versions {_versions(body)}, {body['workers']} workers")
        for status, count in body["statuses"].items():
            yield clean(f"  {status}  {count:,}")
        for held, what in ((body["hold"], "it is"), (body["all_paused"], "every workflow is")):
            if held is not None:
                said = f"{what} paused by {held['by']}: {held['reason']} (since {held['at']})"
                yield clean(f"  paused   {said}")
        for act in body["acts"]:
            yield act_line(act)

    Output(settings).one("stepwell.workflow/1", body, run_ids=[], words=words)


@command("pause")
@click.argument("name")
@click.option("--reason", default="", help="Shown to whoever asks why.")
@click.option("--dry-run", is_flag=True, help="Only say how many runs it would concern.")
def _pause(settings: Settings, name: str, reason: str, dry_run: bool) -> int:
    """Let no worker begin or go on with runs of a workflow; those under way are given back between two steps.

    \b
    Example:
      stepwell workflow pause checkout --reason "the bank is down"
    """
    return act_on_workflow(settings, name, "pause", reason, dry_run=dry_run)


@command("resume")
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Only say how many runs it would concern.")
def _resume(settings: Settings, name: str, dry_run: bool) -> int:
    """Let runs of a paused workflow go on.

    \b
    Example:
      stepwell workflow resume checkout
    """
    return act_on_workflow(settings, name, "resume", dry_run=dry_run)


for each in (_ls, _show, _pause, _resume):
    workflow.add_command(each)


async def _read(client: Client) -> tuple[list[dict[str, Any]], HoldView | None]:
    """Every workflow, and the hold that is on all of them."""
    from stepwell.model.holds import workflow_of
    from stepwell.model.states import TERMINAL

    holds = {hold.workflow: hold for hold in await client.engine.holds.list()}
    tallies = await client.views.tally_runs()
    workers = [worker for worker in await client.engine.workers.list() if worker.is_alive]
    definitions = {*await client.engine.versions.list(), *(one.definition for one in tallies)}
    names = {workflow_of(one) for one in definitions} | {name for name in holds if name is not None}
    items: list[dict[str, Any]] = []
    for name in sorted(names):
        counted = [one for one in tallies if workflow_of(one.definition) == name]
        statuses: dict[str, int] = {}
        for one in counted:
            statuses[one.status.value] = statuses.get(one.status.value, 0) + one.runs
        items.append(
            {
                "workflow": name,
                "versions": sorted(int(one.rpartition("@")[2]) for one in definitions if workflow_of(one) == name),
                "statuses": statuses,
                "live": sum(one.runs for one in counted if one.status not in TERMINAL),
                "workers": sum(name in map(workflow_of, worker.definitions) for worker in workers),
                "hold": hold_body(holds.get(name)),
            }
        )
    return items, holds.get(None)


def _row(item: dict[str, Any]) -> list[str]:
    held = item["hold"]
    paused = "" if held is None else f"by {held['by']}: {held['reason']}"
    return [clean(item["workflow"]), _versions(item), f"{item['live']:,}", str(item["workers"]), clean(paused)]


def _versions(item: dict[str, Any]) -> str:
    return ", ".join(map(str, item["versions"]))
