"""`stepwell cancel`: stop a run, and undo what it did."""

from __future__ import annotations

import click

from stepwell.cli.acts import Act, act_on
from stepwell.cli.settings import Settings, command


@command("cancel")
@click.argument("run")
@click.option("--undo/--now", "undo", default=True, help="Undo its completed steps first (default), or end it at once.")
@click.option("--reason", default="", help="Kept with the run.")
def cancel(settings: Settings, run: str, undo: bool, reason: str) -> None:
    """Cancel a run and its active children.

    \b
    Example:
      stepwell cancel order-42 --reason "the customer changed her mind"
    """
    act = Act(
        lambda engine, run_id: engine.cancel(run_id, reason, compensate=undo),
        done="Cancelled",
        impossible="be cancelled",
        needs="a run that has not ended and is not being undone",
        had_before=("cancelled", "cancelling"),
    )
    act_on(settings, run, act)
