"""`stepwell resume`: let a paused run go on."""

from __future__ import annotations

from typing import Any

from stepwell.cli.acts import Act, act_on, operator
from stepwell.cli.bulk import Which, choosing
from stepwell.cli.settings import Settings, command


@command("resume")
@choosing
def resume(settings: Settings, **which: Any) -> int:
    """Let a paused run go on, after its cause is mended.

    \b
    Example:
      stepwell resume order-42
      stepwell resume --where 'status:paused workflow:checkout'
    """
    act = Act(
        lambda engine, run_id: engine.resume(run_id, by=operator()),
        done="Resumed",
        impossible="be resumed",
        needs="a paused run",
    )
    return act_on(settings, Which(**which), act)
