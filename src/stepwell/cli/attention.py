"""What needs a person: runs and events that no worker will move, each kind with a count, an example and a command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepwell.cli.reasons import Surroundings, is_paused_by_code, reason_of
from stepwell.cli.texts import is_plain_word, shell_word
from stepwell.clock import Instant
from stepwell.model.states import RunStatus, TriggerState
from stepwell.stores.base.diagnosis import Finding, fine, warning

if TYPE_CHECKING:
    from stepwell.cli.client import Client
    from stepwell.engine.views import RunView
    from stepwell.model.runs import Run

_READ_MAX = 1_000  # runs of one status


async def examine_attention(client: Client) -> list[Finding]:
    """A finding for each kind of thing that waits for a person. Changes nothing."""
    return [
        _rollbacks(await _read(client, RunStatus.COMPENSATION_FAILED)),
        _failed(await _unresolved(client, await _read(client, RunStatus.FAILED))),
        *_paused(await _read(client, RunStatus.PAUSED)),
        await _workflows(client),
        await _unserved(client),
        await _dead_letters(client),
        *await _triggers(client),
        await _services(client),
    ]


async def _read(client: Client, status: RunStatus) -> list[Run]:
    from stepwell.stores.base.views import RunFilter

    return await client.views.list_runs(RunFilter(statuses=(status,)), limit=_READ_MAX + 1)


async def _unresolved(client: Client, runs: Sequence[Run]) -> list[Run]:
    """Without the resolved runs: their parent got the failure, or a later run has their key."""
    alone = [run for run in runs if run.parent is None or run.parent.detached]
    keyed = [run for run in alone if run.key is not None]
    holders = await client.views.find_many([run.key for run in keyed if run.key is not None])
    pairs = zip(keyed, holders, strict=True)
    resolved = {run.run_id for run, holder in pairs if holder is not None and holder.run_id != run.run_id}
    return [run for run in alone if run.run_id not in resolved]


def _rollbacks(runs: Sequence[Run]) -> Finding:
    if not runs:
        return fine("rollbacks", "no rollback is incomplete")
    return warning(
        "rollbacks",
        f"{_count(len(runs), 'rollback is', 'rollbacks are')} incomplete, such as {_example(runs[0])}",
        why="an undo failed, so only some effects of the run are undone; fix the cause, then resume the rollback",
        fix=f"stepwell rollback resume {_target(runs[0])}",
    )


def _failed(runs: Sequence[Run]) -> Finding:
    if not runs:
        return fine("failed", "no failed run is unresolved")
    return warning(
        "failed",
        f"{_count(len(runs), 'failed run is', 'failed runs are')} unresolved, such as {_example(runs[0])}",
        why="no worker retries a failed run; fix the cause, then retry it, or start a new run with its key",
        fix=f"stepwell retry {_target(runs[0])}",
    )


def _paused(runs: Sequence[Run]) -> list[Finding]:
    from stepwell.engine.views import run_view

    views = [run_view(run) for run in runs]
    by_code = [run for run, view in zip(runs, views, strict=True) if is_paused_by_code(view)]
    by_people = [run for run in runs if run.hold is not None]
    others = [run for run in runs if run not in by_code and run.hold is None]
    found = [
        _finding_of_pauses(
            "paused",
            by_people,
            "paused by people",
            why="a paused run continues only when a person resumes it",
            fix="stepwell resume {run}",
        ),
        _finding_of_pauses(
            "changed code",
            by_code,
            "paused by changed code",
            why="the code does not fit the history of the run; deploy code that fits, and the run resumes by itself",
            fix="stepwell why {run}",
        ),
    ]
    if others:
        found.append(
            _finding_of_pauses(
                "stopped",
                others,
                "paused after an error",
                why="continuing could repeat the error; fix the cause, then resume the run",
                fix="stepwell resume {run}",
            )
        )
    return found


def _finding_of_pauses(check: str, runs: Sequence[Run], what: str, *, why: str, fix: str) -> Finding:
    if not runs:
        return fine(check, f"no run is {what}")
    return warning(
        check,
        f"{_count(len(runs), 'run is', 'runs are')} {what}, such as {_example(runs[0])}",
        why=why,
        fix=fix.replace("{run}", _target(runs[0])),
    )


async def _workflows(client: Client) -> Finding:
    holds = await client.store.holds.list_holds()
    if not holds:
        return fine("workflows", "no workflow is paused")
    first = holds[0]
    who = f" by {first.hold.by}" if first.hold.by else ""
    why = f": {first.hold.reason}" if first.hold.reason else ""
    what = "every workflow is" if first.workflow is None else _count(len(holds), "workflow is", "workflows are")
    example = "" if first.workflow is None else f", such as {first.workflow}"
    command = "resume --all" if first.workflow is None else f"workflow resume {shell_word(first.workflow)}"
    return warning(
        "workflows",
        f"{what} paused{example}{who}{why}",
        why="no worker executes runs of a paused workflow",
        fix=f"stepwell {command}",
    )


async def _unserved(client: Client) -> Finding:
    now = client.store.now()
    workers = await client.views.list_workers()
    served = {name for worker in workers if worker.lease_until > now for name in worker.definitions}
    runs = [run for run in await _read(client, RunStatus.PENDING) if run.definition not in served]
    if not runs:
        return fine("pending", "a live worker serves every pending run")
    return warning(
        "pending",
        f"{_count(len(runs), 'pending run has', 'pending runs have')} no live worker, such as {_name(runs[0])}"
        f" ({runs[0].workflow} v{runs[0].version})",
        why="a worker executes only workflows of its module; start one whose module has this workflow and version",
        fix="stepwell worker MODULE",
    )


async def _dead_letters(client: Client) -> Finding:
    dead = await client.store.outbox.list_owed(is_dead=True, limit=_READ_MAX + 1, after=0)
    if not dead:
        return fine("dead letters", "every event reached its sink or is still being sent")
    return warning(
        "dead letters",
        f"{_count(len(dead), 'event', 'events')} could not be sent, such as {dead[0].name!r} of run"
        f" {dead[0].key or dead[0].run_id} to {dead[0].sink}: {dead[0].failure}",
        why="the sink rejected it as often as its policy allows; fix the sink, then send the event again",
        fix=f"stepwell outbox replay {shell_word(dead[0].event_id)}",
    )


async def _triggers(client: Client) -> list[Finding]:
    from stepwell.clock import DAY, to_datetime

    triggers = await client.engine.triggers.list(limit=_READ_MAX + 1)
    yesterday = to_datetime(Instant(client.store.now() - DAY))
    undeclared = [one for one in triggers if one.state == TriggerState.UNDECLARED]
    paused = [one for one in triggers if one.state == TriggerState.PAUSED]
    unreadable = [one for one in triggers if one.unreadable]
    failed = [one for one in triggers if one.failure is not None and one.failure.at > yesterday]
    found: list[Finding] = []
    if undeclared:
        first = shell_word(undeclared[0].name)
        found.append(
            warning(
                "triggers",
                f"{_count(len(undeclared), 'trigger starts', 'triggers start')} nothing, such as {undeclared[0].name}:"
                " no live worker has declared it for a day",
                why="a trigger lasts while a worker has it in its code; start a worker that has it, or delete it",
                fix=f"stepwell trigger delete {first}",
            )
        )
    if failed:
        failure = failed[0].failure
        assert failure is not None
        found.append(
            warning(
                "trigger errors",
                f"{_count(len(failed), 'trigger', 'triggers')} got an event that did not fit, such as {failed[0].name}:"
                f" event {failure.event_id}: {failure.message}",
                why="the event was published, and started no run of this workflow; other triggers are not affected",
                fix=f"stepwell trigger show {shell_word(failed[0].name)}",
            )
        )
    if paused:
        reason = f": {paused[0].reason}" if paused[0].reason else ""
        found.append(
            warning(
                "paused triggers",
                f"{_count(len(paused), 'trigger is', 'triggers are')} paused, such as {paused[0].name}{reason}",
                why="events start no runs by a paused trigger, also not later",
                fix=f"stepwell trigger resume {shell_word(paused[0].name)}",
            )
        )
    if unreadable:
        found.append(
            warning(
                "unreadable triggers",
                f"{_count(len(unreadable), 'trigger', 'triggers')} cannot be read here, such as {unreadable[0].name}:"
                f" {unreadable[0].unreadable}",
                why="a process that cannot read a trigger starts no run by it; an encrypted one needs the codec of the"
                " app (--app), and the workers that declare a damaged one store it again",
                fix=f"stepwell trigger show {shell_word(unreadable[0].name)}",
            )
        )
    return found or [fine("triggers", "every trigger is active, and fits the events of the last day")]


async def _services(client: Client) -> Finding:
    failing = await client.engine.workers.list_failing_services()
    if not failing:
        return fine("services", "no service of a worker fails")
    first = failing[0]
    times = f"{first.times:,} times in a row" if first.times > 1 else "once"
    return warning(
        "services",
        f"{_count(len(failing), 'service fails', 'services fail')}, such as {first.service!r} on worker {first.worker}"
        f" ({times}): {first.message}",
        why="what was due is done late or by another worker; the log of that worker has the traceback",
        fix="read the log of that worker",
    )


def _count(number: int, one: str, many: str) -> str:
    count = f"more than {_READ_MAX:,}" if number > _READ_MAX else f"{number:,}"
    return f"{count} {one if number == 1 else many}"


def _example(run: Run) -> str:
    from stepwell.clock import to_datetime
    from stepwell.engine.views import run_view

    view: RunView = run_view(run)
    reason = reason_of(view, Surroundings(to_datetime(run.created_at)))
    return ": ".join(part for part in (f"{_name(run)} ({run.workflow})", reason.where, reason.why) if part)


def _name(run: Run) -> str:
    return run.key or run.run_id


def _target(run: Run) -> str:
    """The run in a command: by its key, which names no other run here, if a shell reads that as a word."""
    return run.key if run.key is not None and is_plain_word(run.key) else shell_word(run.run_id)
