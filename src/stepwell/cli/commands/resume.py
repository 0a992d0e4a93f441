"""`stepwell resume`: let a paused run go on."""

from __future__ import annotations

from typing import Any

import click

from stepwell.cli.acts import Act, act_on
from stepwell.cli.bulk import RunSelection, choosing
from stepwell.cli.settings import Settings, command
from stepwell.cli.workflow_holds import act_on_all


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
