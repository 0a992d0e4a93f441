"""`stepwell pause`: have a run, or everything, stand still."""

from __future__ import annotations

from typing import Any

import click

from stepwell.cli.acts import Act, act_on
from stepwell.cli.bulk import RunSelection, choosing
from stepwell.cli.settings import Settings, command
from stepwell.cli.workflow_holds import act_on_all


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
