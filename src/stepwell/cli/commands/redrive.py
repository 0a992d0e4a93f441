"""`stepwell redrive`: let failed runs go on, from their failure or from a step."""

from __future__ import annotations

from typing import Any

import click

from stepwell.cli.acts import Act, operator
from stepwell.cli.bulk import RunSelection, choosing
from stepwell.cli.inputs import read_json
from stepwell.cli.repairs import REASON, repair
from stepwell.cli.settings import Settings, command


@command("redrive")
@choosing
@click.option("--from", "start", metavar="PATH", help="Go back to this step first; / is the beginning.")
@click.option("--version", default="same", metavar="new|same|N", help="Of the workflow. Default: same.")
@click.option("--input", "input_", metavar="JSON", help="Another input: JSON, @file or - for standard input.")
@click.option("--skip", "skipped", metavar="PATH", help="Supply the --result of this step.")
@click.option("--result", metavar="JSON", help="Of the step to --skip.")
@REASON
def redrive(
    settings: Settings,
    start: str | None,
    version: str,
    input_: str | None,
    skipped: str | None,
    result: str | None,
    reason: str,
    **which: Any,
) -> int:
    """Let a failed run go on from the step that failed, or from another one.

    What is recorded before that is kept and not run again. --dry-run says what is kept, dropped and run again.

    \b
    Example:
      stepwell redrive @last-failed --version new
      stepwell redrive --where 'workflow:order* error:"stock API 503"' --yes
    """
    if result is not None and skipped is None:
        raise click.UsageError("--result says what --skip PATH gives.")
    if version not in ("same", "new") and not (version.isascii() and version.isdigit()):
        raise click.UsageError("--version is new, same or a number.")
    options: dict[str, Any] = {
        "start": start,
        "version": version if version in ("same", "new") else int(version),
        "skip": skipped,
        "reason": reason,
        **({} if input_ is None else {"input": read_json(input_, what="the input")}),
        **({} if result is None else {"result": read_json(result, what="the result")}),
    }
    return repair(
        settings,
        RunSelection(**which),
        lambda engine, run_id, dry: engine.repairs.redrive(run_id, **options, by=operator(), dry_run=dry),
        Act(
            "redrive",
            options,
            done="Redriven",
            impossible="be repaired so",
            needs="a failed run whose key no other active run has",
        ),
    )
