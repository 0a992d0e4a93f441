"""`stepwell resume`: let a paused run go on."""

from __future__ import annotations

import click

from stepwell.cli.acts import Act, act_on, operator
from stepwell.cli.settings import Settings, command


@command("resume")
@click.argument("run")
def resume(settings: Settings, run: str) -> None:
    """Let a paused run go on, after its cause is mended.

    \b
    Example:
      stepwell resume order-42
    """
    act = Act(
        lambda engine, run_id: engine.resume(run_id, by=operator()),
        done="Resumed",
        impossible="be resumed",
        needs="a paused run",
    )
    act_on(settings, run, act)
