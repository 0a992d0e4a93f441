"""`stepwell rollback resume`: go on with a rollback that stalled."""

from __future__ import annotations

from typing import Any

import click

from stepwell.cli.acts import Act, act_on
from stepwell.cli.bulk import RunSelection, choosing
from stepwell.cli.settings import Group, Settings, command


@click.group("rollback", cls=Group)
def rollback() -> None:
    """Steer a rollback that could not be finished.

    \b
    Example:
      stepwell rollback resume order-42
    """


@command("resume")
@choosing
def _resume(settings: Settings, **which: Any) -> int:
    """Go on with a stalled rollback, from the undo that failed.

    \b
    Example:
      stepwell rollback resume order-42
    """
    act = Act(
        "resume_rollback",
        {},
        done="Rollback goes on",
        impossible="be rolled back further",
        needs="a run whose rollback is incomplete",
    )
    return act_on(settings, RunSelection(**which), act)


rollback.add_command(_resume)
