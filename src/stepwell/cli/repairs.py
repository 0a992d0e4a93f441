"""Repairs from a command line: the plan is shown before or after, and many runs go one by one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.acts import Act
from stepwell.cli.bulk import RunSelection, act_on_many, check_choice
from stepwell.cli.client import Client, ask
from stepwell.cli.inputs import read_json
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings
from stepwell.cli.targets import get_run_id
from stepwell.cli.texts import clean

if TYPE_CHECKING:
    from stepwell.engine.repair_plans import RepairPlan
    from stepwell.replay.workflows import Workflow
    from stepwell.wiring import Engine

    Repair = Callable[[Engine, str, bool], Awaitable[RepairPlan]]

REASON = click.option("--reason", default="", help="Kept in the audit of the run.")


def repair(settings: Settings, which: RunSelection, do: Repair, act: Act | None = None) -> int:
    """Repair one run and show the plan, or many and count them, if it is an act for many; gives the exit code."""
    check_choice(which)
    workflows = load_app(settings)
    if act is not None and (which.run is None or which.run == "-"):
        return act_on_many(settings, which, act, workflows)
    target = which.run or ""

    async def run(client: Client) -> RepairPlan:
        return await do(client.engine, await get_run_id(client, target), which.dry_run)

    show_plan(settings, ask(settings, run, workflows=workflows))
    return 0


def show_plan(settings: Settings, plan: RepairPlan) -> None:
    """Print what was done, or would be."""
    run_id = plan.fork_id if plan.is_applied and plan.fork_id else plan.run_id
    words = [clean(line) if not line.startswith(" ") else "  " + clean(line.strip()) for line in plan.lines]
    Output(settings).one("stepwell.repair/1", asdict(plan), run_ids=[run_id], words=lambda: words)


def load_app(settings: Settings) -> list[Workflow[Any, Any]]:
    """The workflows that the line names, so that results are checked against their types."""
    if settings.app is None:
        return []
    from stepwell.cli.modules import load_workflows

    return load_workflows(settings.app)


def given(text: str | None, otherwise: Any, what: str) -> Any:
    """A JSON value of an option, `@file` or `-`; or what stands for none."""
    return otherwise if text is None else read_json(text, what=what)
