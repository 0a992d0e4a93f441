"""Waking runs, and moving what they wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.acts import Act, act_on
from stepwell.cli.bulk import RunSelection, choosing
from stepwell.cli.client import Client, ask
from stepwell.cli.inputs import read_time
from stepwell.cli.operators import by_option
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.targets import complete_run, get_run_id
from stepwell.cli.texts import clean, moment

if TYPE_CHECKING:
    from stepwell.engine.reschedules import Rescheduled


@command("wake")
@choosing
@click.option("--reason", default="", help="Why, kept in the audit of the run.")
def wake(settings: Settings, reason: str, **which: Any) -> int:
    """Let a worker look at a waiting run now; begin a delayed run now.

    The code runs again from the record, and goes on where it can. Sleeps and timeouts keep their deadlines:
    `stepwell reschedule` moves them.

    \b
    Example:
      stepwell wake order-42
      stepwell wake --where 'status:waiting workflow:import'
    """
    act = Act(
        "wake",
        {"reason": reason},
        done="Woken",
        impossible="be woken",
        needs="a run that waits, or that has not begun",
    )
    return act_on(settings, RunSelection(**which), act)


@command("reschedule")
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.argument("path", metavar="[PATH]", required=False)
@click.option("--in", "delay", metavar="DURATION", help="From now on: 90m, 2h, 3d.")
@click.option("--at", "until", metavar="TIME", help="A point in time: 2026-12-24T08:00+01:00.")
@click.option("--reason", default="", help="Why, kept in the audit of the run.")
@by_option
def reschedule(
    settings: Settings, run: str, path: str | None, delay: str | None, until: str | None, reason: str, by: str
) -> None:
    """Move the deadline of a sleep, a timer or a timeout, or the begin of a delayed run.

    PATH can be left out if the run has one deadline, or has not begun. `stepwell show RUN` lists what it waits for.

    \b
    Example:
      stepwell reschedule order-42 cool-off --in 10m
      stepwell reschedule order-42 --at 2026-12-24T08:00+01:00 --reason "the shop is closed"
    """
    when = None if until is None else read_time(until, what="--at")

    async def move(client: Client) -> Rescheduled:
        run_id = await get_run_id(client, run)
        return await client.engine.runs.reschedule(run_id, path, delay=delay, until=when, by=by, reason=reason)

    done = ask(settings, move)
    before = None if done.before is None else done.before.isoformat()
    body = {"run_id": done.run_id, "path": done.path, "before": before, "due_at": done.due_at.isoformat()}
    what = f"{done.path} of run {done.run_id}" if done.path else f"run {done.run_id}"
    line = clean(f"Rescheduled {what}: {moment(done.before)} becomes {moment(done.due_at)} UTC")
    Output(settings).one("stepwell.rescheduled/1", body, run_ids=[done.run_id], words=lambda: [line])
