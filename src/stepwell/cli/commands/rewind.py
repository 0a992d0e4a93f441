"""`stepwell rewind`: take a run back to a step."""

from __future__ import annotations

from typing import Any

import click

from stepwell.cli.acts import Act, operator
from stepwell.cli.bulk import RunSelection, choosing
from stepwell.cli.repairs import REASON, repair
from stepwell.cli.settings import Settings, command


@command("rewind")
@choosing
@click.argument("path", required=False, metavar="PATH")
@REASON
def rewind(settings: Settings, path: str | None, reason: str, **which: Any) -> int:
    """Take a run back to a step: that one and all after it is forgotten, and done again.

    A PATH inside a loop or map takes back the whole of it; / takes back everything. Nothing is undone by it.

    \b
    Example:
      stepwell rewind order-42 payment/charge --dry-run
      stepwell rewind --where 'status:failed error:timeout since:1h' reserve
    """
    if which["where"] is not None and path is None:
        path, which["run"] = which["run"], None
    if path is None:
        raise click.UsageError("Say where to: stepwell rewind RUN PATH")
    at = path
    return repair(
        settings,
        RunSelection(**which),
        lambda engine, run_id, dry: engine.repairs.rewind(run_id, at, by=operator(), reason=reason, dry_run=dry),
        Act(
            "rewind",
            {"path": at, "reason": reason},
            done="Rewound",
            impossible="be repaired so",
            needs="a failed, paused, waiting or pending run that has been at that place",
        ),
    )
