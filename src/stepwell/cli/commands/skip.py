"""`stepwell skip`: supply the result of a step or wait."""

from __future__ import annotations

import click

from stepwell.cli.acts import operator
from stepwell.cli.bulk import RunSelection
from stepwell.cli.repairs import REASON, given, repair
from stepwell.cli.settings import Settings, command
from stepwell.cli.targets import complete_run


@command("skip")
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.argument("path", metavar="PATH")
@click.option("--result", metavar="JSON", help="What the step or wait gives: JSON, @file or - for standard input.")
@click.option("--dry-run", is_flag=True, help="Only say what it would do.")
@REASON
def skip(settings: Settings, run: str, path: str, result: str | None, dry_run: bool, reason: str) -> int:
    """Record a result in the place of a failed step, or of a wait, and go on.

    With --app the result is checked against the type of the step. A timer takes no result.

    \b
    Example:
      stepwell skip order-42 payment/charge --result '{"receipt": "by hand"}' --reason "paid in cash"
      stepwell skip order-42 cooling-off
    """
    from stepwell.engine.skips import NO_RESULT

    value = given(result, NO_RESULT, "the result")
    return repair(
        settings,
        RunSelection(run, None, dry_run, True),
        lambda engine, run_id, dry: engine.repairs.skip(run_id, path, value, by=operator(), reason=reason, dry_run=dry),
    )
