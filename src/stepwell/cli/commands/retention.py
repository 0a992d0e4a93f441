"""`stepwell prune` and `stepwell erase`: delete ended runs that are past their time, or that a person names."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.client import Client, ask
from stepwell.cli.operators import by_option
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.texts import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwell.engine.retention import EraseReport, PruneReport, Retention

_REASONS = {
    "active": "a run of the tree is active",
    "needed": "something needs a run of the tree: an event that was not sent, a refused signal, or an open record",
    "dedup": "a start with the same key still finds a run of the tree",
    "policy": "another run of the tree is kept longer",
    "newest": "it is the newest generation that has ended, of a chain that is active",
    "large": "the tree is too large to be deleted at once",
    "changed": "a run of the tree was retried meanwhile",
}
_OUTCOMES = ("completed", "failed", "compensated", "cancelled", "continued")
OUTCOMES_HELP = "Another time for one outcome, such as failed=90d. May be repeated."
_SLOWER = 3  # while workers have runs, it pauses for this many times as long as its last step took
_LOOKS_EVERY = 20  # steps


@command("prune")
@click.option(
    "--older", metavar="TIME", help="Delete runs that ended longer ago, such as 30d. Default: as the App says."
)
@click.option(
    "--keep",
    "keeps",
    multiple=True,
    metavar="OUTCOME=TIME",
    help=OUTCOMES_HELP,
)
@click.option("--workflow", "-w", "workflows", multiple=True, help="Only runs of this workflow. May be repeated.")
@click.option("--dry-run", is_flag=True, help="Only count what would be deleted.")
def prune(
    settings: Settings, older: str | None, keeps: tuple[str, ...], workflows: tuple[str, ...], dry_run: bool
) -> None:
    """Delete ended runs that are past their time, each with its parents, children and chain, or not at all.

    Nothing that a run, a sink or a person still needs is deleted. Work goes on meanwhile. If it is interrupted, the
    same command goes on where it stopped.

    \b
    Example:
      stepwell prune --older 30d --keep failed=90d --dry-run
    """
    retention = read_retention(older, keeps, has_workflows=bool(workflows))
    report = ask(settings, lambda client: _prune(settings, client, retention, workflows, dry_run))
    out = Output(settings)
    out.one("stepwell.prune/1", asdict(report), run_ids=[], words=lambda: _words(report))


def read_retention(older: str | None, keeps: tuple[str, ...], *, has_workflows: bool) -> Retention | None:
    """The retention that options say; None if they say none."""
    from stepwell.engine.retention import Retention

    if older is None and not keeps:
        if has_workflows:
            raise click.UsageError("--workflow needs --older or --keep: for how long are its runs kept?")
        return None
    outcomes: dict[str, Any] = {}
    for each in keeps:
        name, _, duration = each.partition("=")
        if name not in _OUTCOMES or not duration:
            raise click.UsageError(
                f"--keep {each}: write OUTCOME=TIME, such as failed=90d; one of {', '.join(_OUTCOMES)}"
            )
        outcomes[name] = duration
    return Retention(older, **outcomes)


async def _prune(
    settings: Settings, client: Client, retention: Retention | None, workflows: tuple[str, ...], dry_run: bool
) -> PruneReport:
    import asyncio

    from stepwell.cli.bars import Bars

    app = client.app
    if retention is None and app is not None and app.retention is not None:
        retention, workflows = app.retention, tuple(each.name for each in app.workflows)
    care = client.engine.retention
    work = care.begin(retention, workflows=workflows or None, dry_run=dry_run)
    out, steps, is_busy = Output(settings), 0, False
    with Bars(out) as bars:
        total = await work.count_candidates()
        while not work.is_over:
            began = care.monotonic()
            await work.step()
            steps += 1
            if steps % _LOOKS_EVERY == 1:
                is_busy = bool((await client.views.count_unfinished()).runs.get(_running(), 0))
            if is_busy and not dry_run:
                await asyncio.sleep(_SLOWER * (care.monotonic() - began))
            bars.tell("Pruning", min(work.seen, max(total - 1, 0)), max(total, 1))
        bars.tell("Pruning", max(total, 1), max(total, 1))
    return work.report()


def _running() -> Any:
    from stepwell.model.states import RunStatus

    return RunStatus.RUNNING


def _words(report: PruneReport) -> Iterator[str]:
    verb = "Would delete" if report.is_dry else "Deleted"
    yield f"{verb} {report.runs:,} runs in {report.trees:,} trees."
    for workflow, count in sorted(report.by_workflow.items(), key=lambda item: -item[1]):
        yield clean(f"  {count:>9,}  {workflow}")
    swept = {"events": report.events, "signals": report.signals, "records": report.records, "payloads": report.blobs}
    others = ", ".join(f"{count:,} {name}" for name, count in swept.items() if count)
    if others:
        yield f"Also {others} that nothing needs any more."
    for reason, count in sorted(report.kept.items(), key=lambda item: -item[1]):
        yield f"Kept {count:,} past their time: {_REASONS[reason]}."
    if report.is_dry:
        yield "Nothing was changed. The same command without --dry-run deletes them."


@command("erase")
@click.option("--where", required=True, metavar="FILTER", help="Which runs: see docs/filters.md.")
@click.option("--reason", default="", help="Why, kept in the audit.")
@click.option("--dry-run", is_flag=True, help="Only count what would be erased.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@by_option
def erase(settings: Settings, where: str, reason: str, dry_run: bool, yes: bool, by: str) -> int:
    """Erase the runs that match a filter, each with its parents, children and chain, for example of one customer.

    It does not matter how long they are kept, or whether something still needs them; only trees with an active run are
    left. The audit keeps who erased which run, when and why, and nothing of its values.

    \b
    Example:
      stepwell erase --where 'attr.customer:42' --reason "asked by the customer"
    """
    out = Output(settings)
    if not dry_run and not yes:
        plan = ask(settings, lambda client: client.engine.retention.erase(where, dry_run=True))
        _confirm(plan)
    report = ask(settings, lambda client: client.engine.retention.erase(where, by=by, reason=reason, dry_run=dry_run))
    out.one(
        "stepwell.erase/1",
        {**asdict(report), "dry_run": dry_run},
        run_ids=list(report.left),
        words=lambda: _erased(report, dry_run=dry_run),
    )
    return 10 if report.left else 0


def _confirm(plan: EraseReport) -> None:
    import sys

    from stepwell.errors import InvalidOptionError

    if not sys.stdin.isatty():
        raise InvalidOptionError(
            f"{plan.runs:,} runs; nothing done: confirmation needed, and this is not a terminal",
            fix="--yes confirms, --dry-run only counts",
        )
    if not click.confirm(f"Erase {plan.runs:,} runs for ever?", default=False, err=True):
        raise click.Abort


def _erased(report: EraseReport, *, dry_run: bool) -> Iterator[str]:
    yield f"{'Would erase' if dry_run else 'Erased'} {report.runs:,} runs; {report.matched:,} matched the filter."
    if report.left:
        some = ", ".join(report.left[:3]) + (", …" if len(report.left) > 3 else "")
        yield clean(f"Left {len(report.left):,} whose tree has an active run or is too large: {some}")
        yield "Cancel them, and erase again."
