"""Holds: pause and resume runs and workflows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from stepwell.cli.acts import Act, act_on
from stepwell.cli.bodies import hold_body
from stepwell.cli.bulk import RunSelection, choosing
from stepwell.cli.client import Client, ask
from stepwell.cli.operators import by_option
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Group, Settings, command
from stepwell.cli.texts import clean, moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwell.engine.views import HoldActView, HoldView

Verb = Literal["pause", "resume"]
_DONE = {"pause": "is paused", "resume": "is resumed"}
_BEFORE = {"pause": "was already paused", "resume": "is not paused"}
_WOULD = {"pause": "would be paused", "resume": "would be resumed"}
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
@click.option("--reason", default="", help="Why, shown with the run.")
def pause(settings: Settings, is_all: bool, reason: str, **which: Any) -> int:
    """Pause a run until a person resumes it.

    Running steps end, and their results are recorded. Signals are kept, and due timers wait. To pause a whole
    workflow, use `stepwell workflow pause`.

    \b
    Example:
      stepwell pause order-42 --reason "the parcel was seen elsewhere"
      stepwell pause --where 'workflow:import status:running'
      stepwell pause --all --reason "the bank is down"
    """
    chosen = RunSelection(**which)
    if is_all:
        return _act_on_all(settings, chosen, "pause", reason)
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
@click.option("--all", "is_all", is_flag=True, help="Undo `pause --all`, instead of resuming one run.")
def resume(settings: Settings, is_all: bool, **which: Any) -> int:
    """Resume a paused run, after its cause is fixed.

    \b
    Example:
      stepwell resume order-42
      stepwell resume --where 'status:paused workflow:checkout'
      stepwell resume --all
    """
    chosen = RunSelection(**which)
    if is_all:
        return _act_on_all(settings, chosen, "resume")
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
    """List, pause and resume workflows.

    \b
    Example:
      stepwell workflow pause checkout --reason "the bank is down"
    """


@command("ls")
def _ls(settings: Settings) -> None:
    """List the workflows of all runs and workers, and which of them are paused.

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
        out.note("This database knows no workflow: it has neither runs nor workers.")
        return
    out.table(_COLUMNS, [_row(item) for item in items])


@command("show")
@click.argument("name")
def _show(settings: Settings, name: str) -> None:
    """Show one workflow: its versions, its runs by status, whether it is paused, and who paused it before.

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
        acts = [_act_body(act) for act in await client.engine.holds.list_acts(limit=_ACTS_READ)]
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
            yield _act_line(act)

    Output(settings).one("stepwell.workflow/1", body, run_ids=[], words=words)


@command("pause")
@click.argument("name")
@click.option("--reason", default="", help="Why, shown with the run.")
@click.option("--dry-run", is_flag=True, help="Only count the runs that it would affect.")
@by_option
def _pause(settings: Settings, name: str, reason: str, dry_run: bool, by: str) -> int:
    """Pause a workflow: workers release its runs between two steps, and claim none.

    \b
    Example:
      stepwell workflow pause checkout --reason "the bank is down"
    """
    return _act_on_workflow(settings, name, "pause", reason, by=by, dry_run=dry_run)


@command("resume")
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Only count the runs that it would affect.")
@by_option
def _resume(settings: Settings, name: str, dry_run: bool, by: str) -> int:
    """Resume a paused workflow.

    \b
    Example:
      stepwell workflow resume checkout
    """
    return _act_on_workflow(settings, name, "resume", by=by, dry_run=dry_run)


for each in (_ls, _show, _pause, _resume):
    workflow.add_command(each)


async def _read(client: Client) -> tuple[list[dict[str, Any]], HoldView | None]:
    """Every workflow, and the hold on all of them."""
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


def _act_on_all(settings: Settings, which: RunSelection, verb: Verb, reason: str = "") -> int:
    """Pause or resume every workflow. Raises if the command line also names runs."""
    if which.run is not None or which.where is not None:
        raise click.UsageError("--all affects every workflow: do not name a run or a filter with it.")
    return _act_on_workflow(settings, None, verb, reason, by=which.by, dry_run=which.dry_run)


def _act_on_workflow(
    settings: Settings, workflow: str | None, verb: Verb, reason: str = "", *, by: str, dry_run: bool
) -> int:
    """Pause or resume a workflow, or all (None), and report how many runs that affects."""

    async def act(client: Client) -> tuple[bool, int]:
        if dry_run:
            is_done = False
        elif verb == "pause":
            is_done = await client.engine.holds.pause_workflow(workflow, by=by, reason=reason)
        else:
            is_done = await client.engine.holds.resume_workflow(workflow, by=by)
        return is_done, await _count_live(client, workflow)

    is_done, runs = ask(settings, act)
    said = (_WOULD if dry_run else _DONE if is_done else _BEFORE)[verb]
    what = "Every workflow" if workflow is None else f"Workflow {workflow}"
    line = clean(f"{what} {said}: {runs:,} {'run has' if runs == 1 else 'runs have'} not ended")
    body = {"workflow": workflow, "verb": verb, "changed": is_done, "live_runs": runs, "dry_run": dry_run}
    Output(settings).one("stepwell.workflow_act/1", body, run_ids=[], words=lambda: [line])
    return 0


async def _count_live(client: Client, workflow: str | None) -> int:
    from stepwell.model.holds import workflow_of
    from stepwell.model.states import TERMINAL

    counted = [one for one in await client.views.tally_runs() if one.status not in TERMINAL]
    return sum(one.runs for one in counted if workflow in (None, workflow_of(one.definition)))


def hold_line(hold: HoldView) -> str:
    """Who paused something, in words."""
    who = f" by {hold.by}" if hold.by else ""
    return clean(f"paused{who}" + (f": {hold.reason}" if hold.reason else "") + f" (since {moment(hold.at)} UTC)")


def _act_body(act: HoldActView) -> dict[str, Any]:
    """One act on a workflow, or on all of them (null), as JSON."""
    return {
        "at": act.at.isoformat(),
        "workflow": act.workflow,
        "verb": act.verb,
        "by": act.by,
        "reason": act.reason,
    }


def _act_line(act: dict[str, Any]) -> str:
    """The same in words."""
    what = "every workflow " if act["workflow"] is None else ""
    who = f" by {act['by']}" if act["by"] else ""
    said = f": {act['reason']}" if act["reason"] else ""
    return clean(f"  {act['at']}  {what}{act['verb']}d{who}{said}")
