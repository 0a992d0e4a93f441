"""`stepwell fork`: a new run that begins with the record of another."""

from __future__ import annotations

import click

from stepwell.cli.acts import operator
from stepwell.cli.bulk import RunSelection
from stepwell.cli.repairs import REASON, given, repair
from stepwell.cli.settings import Settings, command
from stepwell.cli.targets import complete_run


@command("fork")
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.option("--from", "start", metavar="PATH", required=True, help="What is recorded before this step is copied.")
@click.option("--key", help="Of the new run.")
@click.option("--input", "input_", metavar="JSON", help="Another input: JSON, @file or - for standard input.")
@click.option("--dry-run", is_flag=True, help="Only say what it would do.")
@REASON
def fork(
    settings: Settings, run: str, start: str, key: str | None, input_: str | None, dry_run: bool, reason: str
) -> int:
    """Start a new run that begins with what another one recorded before a step.

    The other run stays as it is, whatever it is.

    \b
    Example:
      stepwell fork order-42 --from payment/charge --key order-42-again
    """
    from stepwell.engine.repairs import UNCHANGED

    value = given(input_, UNCHANGED, "the input")
    return repair(
        settings,
        RunSelection(run, None, dry_run, True),
        lambda engine, run_id, dry: engine.repairs.fork(
            run_id, start, key=key, input=value, by=operator(), reason=reason, dry_run=dry
        ),
    )
