"""Repairs: retry, redrive, rewind, skip, fork, and resume a rollback."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

import click

from stepwell.cli.acts import Act, act_on
from stepwell.cli.bulk import RunSelection, act_on_many, check_choice, choosing
from stepwell.cli.client import Client, ask
from stepwell.cli.inputs import read_json
from stepwell.cli.operators import by_option
from stepwell.cli.output import Output
from stepwell.cli.settings import Group, Settings, command
from stepwell.cli.targets import complete_run, get_run_id
from stepwell.cli.texts import clean

if TYPE_CHECKING:
    from stepwell.engine.repair_plans import RepairPlan
    from stepwell.replay.workflows import Workflow
    from stepwell.wiring import Engine

    Repair = Callable[[Engine, str, bool], Awaitable[RepairPlan]]

_REASON = click.option("--reason", default="", help="Why, kept in the audit of the run.")


@command("retry")
@choosing
def retry(settings: Settings, **which: Any) -> int:
    """Retry a failed run from the step that failed, or at once what waits for its next attempt.

    The step gets a new budget of attempts. Recorded steps are not run again.

    \b
    Example:
      stepwell retry @last-failed
      stepwell retry --where 'status:failed error:timeout since:24h'
    """
    act = Act(
        "retry",
        {},
        done="Retrying",
        impossible="be retried",
        needs="a failed run whose key no other active run has, or a run that waits for the next attempt at a step",
    )
    return act_on(settings, RunSelection(**which), act)


@command("redrive")
@choosing
@click.option("--from", "from_path", metavar="PATH", help="Begin at this step instead; / is the first.")
@click.option("--version", default="same", metavar="new|same|N", help="Of the workflow. Default: same.")
@click.option("--input", "input_", metavar="JSON", help="Another input: JSON, @file or - for standard input.")
@click.option("--skip", "skipped", metavar="PATH", help="Do not run this step; record --result for it.")
@click.option("--result", metavar="JSON", help="Of the step to --skip.")
@_REASON
def redrive(
    settings: Settings,
    from_path: str | None,
    version: str,
    input_: str | None,
    skipped: str | None,
    result: str | None,
    reason: str,
    **which: Any,
) -> int:
    """Run a failed run again from the step that failed, or from another step.

    Steps recorded before it are kept and not run again. --dry-run lists what is kept, dropped and run again.

    \b
    Example:
      stepwell redrive @last-failed --version new
      stepwell redrive --where 'workflow:order* error:"stock API 503"' --yes
    """
    if result is not None and skipped is None:
        raise click.UsageError("--result is the result of the step to --skip.")
    options: dict[str, Any] = {
        "from_path": from_path,
        "version": _read_version(version),
        "skip": skipped,
        "reason": reason,
        **({} if input_ is None else {"input": read_json(input_, what="the input")}),
        **({} if result is None else {"result": read_json(result, what="the result")}),
    }
    chosen = RunSelection(**which)
    return _repair(
        settings,
        chosen,
        lambda engine, run_id, dry: engine.repairs.redrive(run_id, **options, by=chosen.by, dry_run=dry),
        Act(
            "redrive",
            options,
            done="Redriven",
            impossible="be repaired in this way",
            needs="a failed run whose key no other active run has",
        ),
    )


@command("rewind")
@choosing
@click.argument("path", required=False, metavar="PATH")
@_REASON
def rewind(settings: Settings, path: str | None, reason: str, **which: Any) -> int:
    """Rewind a run to a step: this step and all later ones are dropped from the history, and run again.

    A PATH inside a loop or map rewinds the whole loop or map; / rewinds everything. No compensation runs.

    \b
    Example:
      stepwell rewind order-42 payment/charge --dry-run
      stepwell rewind --where 'status:failed error:timeout since:1h' reserve
    """
    if which["where"] is not None and path is None:
        path, which["run"] = which["run"], None
    if path is None:
        raise click.UsageError("Name the step: stepwell rewind RUN PATH")
    at = path
    chosen = RunSelection(**which)
    return _repair(
        settings,
        chosen,
        lambda engine, run_id, dry: engine.repairs.rewind(run_id, at, by=chosen.by, reason=reason, dry_run=dry),
        Act(
            "rewind",
            {"path": at, "reason": reason},
            done="Rewound",
            impossible="be repaired in this way",
            needs="a failed, paused, waiting or pending run that has reached this step",
        ),
    )


@command("skip")
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.argument("path", metavar="PATH")
@click.option("--result", metavar="JSON", help="The result of the step or wait: JSON, @file or - for standard input.")
@click.option("--dry-run", is_flag=True, help="Only print the plan.")
@_REASON
@by_option
def skip(settings: Settings, run: str, path: str, result: str | None, dry_run: bool, reason: str, by: str) -> int:
    """Record a result for a failed step or a wait, and continue after it.

    With --app the result is checked against the type of the step. A timer takes no result.

    \b
    Example:
      stepwell skip order-42 payment/charge --result '{"receipt": "by hand"}' --reason "paid in cash"
      stepwell skip order-42 cooling-off
    """
    from stepwell.engine.skips import NO_RESULT

    value = _given(result, NO_RESULT, "the result")
    return _repair(
        settings,
        RunSelection(run, None, dry_run, True, by),
        lambda engine, run_id, dry: engine.repairs.skip(run_id, path, value, by=by, reason=reason, dry_run=dry),
    )


@command("fork")
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.option("--from", "from_path", metavar="PATH", required=True, help="The history before this step is copied.")
@click.option("--key", help="Of the new run.")
@click.option("--version", default="same", metavar="new|same|N", help="Of the workflow. Default: same.")
@click.option("--input", "input_", metavar="JSON", help="Another input: JSON, @file or - for standard input.")
@click.option("--dry-run", is_flag=True, help="Only print the plan.")
@_REASON
@by_option
def fork(
    settings: Settings,
    run: str,
    from_path: str,
    key: str | None,
    version: str,
    input_: str | None,
    dry_run: bool,
    reason: str,
    by: str,
) -> int:
    """Start a new run from the history of another run, up to a step.

    The other run does not change.

    \b
    Example:
      stepwell fork order-42 --from payment/charge --key order-42-again --version new
    """
    from stepwell.engine.repairs import UNCHANGED

    chosen = _read_version(version)
    value = _given(input_, UNCHANGED, "the input")
    return _repair(
        settings,
        RunSelection(run, None, dry_run, True, by),
        lambda engine, run_id, dry: engine.repairs.fork(
            run_id, from_path, key=key, version=chosen, input=value, by=by, reason=reason, dry_run=dry
        ),
    )


@click.group("rollback", cls=Group)
def rollback() -> None:
    """Resume a rollback that is incomplete, or tell it what a person has undone.

    \b
    Example:
      stepwell rollback resume order-42
      stepwell rollback mark-undone order-42 payment/charge --reason "refunded by hand"
    """


@command("resume")
@choosing
def _resume(settings: Settings, **which: Any) -> int:
    """Resume an incomplete rollback at the undo that failed.

    \b
    Example:
      stepwell rollback resume order-42
    """
    act = Act(
        "resume_rollback",
        {},
        done="Rollback resumed",
        impossible="be rolled back further",
        needs="a run whose rollback is incomplete",
    )
    return act_on(settings, RunSelection(**which), act)


@command("mark-undone")
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.argument("path", metavar="PATH")
@click.option("--reason", required=True, help="How it was undone, kept in the audit of the run.")
@by_option
def _mark_undone(settings: Settings, run: str, path: str, reason: str, by: str) -> int:
    """Record that a person has undone the effect of a step, and resume the rollback without its compensation.

    \b
    Example:
      stepwell rollback mark-undone order-42 payment/charge --reason "refunded by hand, ticket 42"
    """
    act = Act(
        "mark_undone",
        {"path": path, "reason": reason},
        done="Marked as undone, rollback resumed",
        impossible="have an effect marked as undone",
        needs="a run whose rollback is incomplete",
    )
    return act_on(settings, RunSelection(run, None, False, True, by), act)


rollback.add_command(_resume)
rollback.add_command(_mark_undone)


def _read_version(text: str) -> Literal["same", "new"] | int:
    """A version as people write it."""
    if text in ("same", "new"):
        return "same" if text == "same" else "new"
    if not (text.isascii() and text.isdigit()):
        raise click.UsageError("--version is new, same or a number.")
    return int(text)


def _repair(settings: Settings, which: RunSelection, do: Repair, act: Act | None = None) -> int:
    """Repair one run and print the plan; with an `act`, many runs and count them. Returns the exit code."""
    check_choice(which)
    workflows = _load_app(settings)
    if act is not None and (which.run is None or which.run == "-"):
        return act_on_many(settings, which, act, workflows)
    target = which.run or ""

    async def run(client: Client) -> RepairPlan:
        return await do(client.engine, await get_run_id(client, target), which.dry_run)

    _show_plan(settings, ask(settings, run, workflows=workflows))
    return 0


def _show_plan(settings: Settings, plan: RepairPlan) -> None:
    """Print the plan, applied or not."""
    run_id = plan.fork_id if plan.is_applied and plan.fork_id else plan.run_id
    words = [clean(line) if not line.startswith(" ") else "  " + clean(line.strip()) for line in plan.lines]
    Output(settings).one("stepwell.repair/1", asdict(plan), run_ids=[run_id], words=lambda: words)


def _load_app(settings: Settings) -> list[Workflow[Any, Any]]:
    """The workflows of the application, so that results are checked against their types."""
    loaded = settings.load()
    return [] if loaded is None else list(loaded.app.workflows)


def _given(text: str | None, otherwise: Any, what: str) -> Any:
    """The JSON value of an option, `@file` or `-`; `otherwise` if the option is missing."""
    return otherwise if text is None else read_json(text, what=what)
