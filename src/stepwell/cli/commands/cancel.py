"""`stepwell cancel`: stop a run, and undo what it did."""

from __future__ import annotations

from typing import Any

import click

from stepwell.cli.acts import Act, act_on
from stepwell.cli.bulk import RunSelection, choosing
from stepwell.cli.settings import Settings, command


@command("cancel")
@choosing
@click.option("--undo/--now", "undo", default=True, help="Undo its completed steps first (default), or end it at once.")
@click.option("--reason", default="", help="Kept with the run.")
def cancel(settings: Settings, undo: bool, reason: str, **which: Any) -> int:
    """Cancel a run and the children that it waits for.

    \b
    Example:
      stepwell cancel order-42 --reason "the customer changed her mind"
      stepwell cancel --where 'workflow:import* status:waiting since:1h' --dry-run
    """
    act = Act(
        "cancel",
        {"reason": reason, "compensate": undo},
        done="Cancelled",
        impossible="be cancelled",
        needs="a run that has not ended and is not being undone",
    )
    return act_on(settings, RunSelection(**which), act)
