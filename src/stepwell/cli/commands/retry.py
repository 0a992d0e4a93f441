"""`stepwell retry`: let a failed run go on from the step that failed."""

from __future__ import annotations

import click

from stepwell.cli.acts import Act, act_on, operator
from stepwell.cli.settings import Settings, command


@command("retry")
@click.argument("run")
def retry(settings: Settings, run: str) -> None:
    """Let a failed run go on from the step that failed.

    It gets a fresh budget of attempts; what was recorded stays and is not run again.

    \b
    Example:
      stepwell retry @last-failed
    """
    act = Act(
        lambda engine, run_id: engine.retry(run_id, by=operator()),
        done="Retrying",
        impossible="be retried",
        needs="a failed run whose key no other active run has",
    )
    act_on(settings, run, act)
