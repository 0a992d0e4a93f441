"""Pausing and resuming a workflow, or all of them: what the commands have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from stepwell.cli.acts import operator
from stepwell.cli.bulk import RunSelection
from stepwell.cli.client import Client, ask
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings
from stepwell.cli.texts import clean, moment

if TYPE_CHECKING:
    from stepwell.engine.views import HoldActView, HoldView

Verb = Literal["pause", "resume"]
_DONE = {"pause": "is paused", "resume": "goes on"}
_BEFORE = {"pause": "was paused before", "resume": "is not paused"}
_WOULD = {"pause": "would be paused", "resume": "would go on"}


def act_on_all(settings: Settings, which: RunSelection, verb: Verb, reason: str = "") -> int:
    """Pause or resume every workflow, if the line names nothing else."""
    if which.run is not None or which.where is not None:
        raise click.UsageError("--all is about every workflow: name no run and no filter with it.")
    return act_on_workflow(settings, None, verb, reason, dry_run=which.dry_run)


def act_on_workflow(settings: Settings, workflow: str | None, verb: Verb, reason: str = "", *, dry_run: bool) -> int:
    """Pause or resume a workflow, or all (None), and say how many runs that concerns."""

    async def act(client: Client) -> tuple[bool, int]:
        if dry_run:
            is_done = False
        elif verb == "pause":
            is_done = await client.engine.holds.pause_workflow(workflow, by=operator(), reason=reason)
        else:
            is_done = await client.engine.holds.resume_workflow(workflow, by=operator())
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


def act_body(act: HoldActView) -> dict[str, Any]:
    """That somebody paused or resumed a workflow, or all (null), as JSON."""
    return {
        "at": act.at.isoformat(),
        "workflow": act.workflow,
        "verb": act.verb,
        "by": act.by,
        "reason": act.reason,
    }


def act_line(act: dict[str, Any]) -> str:
    """The same in words."""
    what = "every workflow " if act["workflow"] is None else ""
    who = f" by {act['by']}" if act["by"] else ""
    said = f": {act['reason']}" if act["reason"] else ""
    return clean(f"  {act['at']}  {what}{act['verb']}d{who}{said}")
