"""What needs a person: runs and events that no worker will move, each kind with a count, an example and advice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from stepwell.advice import Advice, Verb
from stepwell.clock import DAY, Instant, to_datetime
from stepwell.engine.alerts import Alerts
from stepwell.engine.backend import Backend
from stepwell.engine.dead_letters import DeadLetters
from stepwell.engine.reasons import Reason, Surroundings, is_paused_by_code, reason_of
from stepwell.engine.retention import Retentions
from stepwell.engine.schedules import Schedules
from stepwell.engine.service_failures import ServiceFailures
from stepwell.engine.triggers import Triggers
from stepwell.engine.views import run_view
from stepwell.model.runs import Run
from stepwell.model.states import AlertState, RunStatus, TriggerState
from stepwell.stores.base.diagnosis import Example, Finding, fine, warning
from stepwell.stores.base.views import RunFilter

_READ_MAX: Final = 1_000  # runs of one status
_EXAMPLES_MAX: Final = 5
_BACKUP_DAYS: Final = 7
# A key of this form is one word in a shell, and one part of a path.
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@%+-]*")


async def examine_attention(backend: Backend) -> list[Finding]:
    """A finding for each kind of thing that waits for a person. Changes nothing."""
    return [
        _rollbacks(await _read(backend, RunStatus.COMPENSATION_FAILED)),
        _failed(await _unresolved(backend, await _read(backend, RunStatus.FAILED))),
        *_paused(await _read(backend, RunStatus.PAUSED)),
        await _workflows(backend),
        await _unserved(backend),
        *await _dead_letters(backend),
        await _alerts(backend),
        *await _care(backend),
        *await _triggers(backend),
        *await _schedules(backend),
        await _services(backend),
    ]


async def _read(backend: Backend, status: RunStatus) -> list[Run]:
    where = RunFilter(statuses=(status,))
    return await backend.retrying(lambda store: store.views.list_runs(where, limit=_READ_MAX + 1))


async def _unresolved(backend: Backend, runs: Sequence[Run]) -> list[Run]:
    """Without the resolved runs: their parent got the failure, or a later run has their key."""
    alone = [run for run in runs if run.parent is None or run.parent.detached]
    keyed = [run for run in alone if run.key is not None]
    keys = [run.key for run in keyed if run.key is not None]
    holders = await backend.retrying(lambda store: store.views.find_many(keys))
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
        fix=Advice(Verb.RESUME_ROLLBACK, _target(runs[0])),
        filter="status:compensation_failed",
        runs=len(runs),
        examples=_examples(runs, Verb.RESUME_ROLLBACK),
    )


def _failed(runs: Sequence[Run]) -> Finding:
    if not runs:
        return fine("failed", "no failed run is unresolved")
    return warning(
        "failed",
        f"{_count(len(runs), 'failed run is', 'failed runs are')} unresolved, such as {_example(runs[0])}",
        why="no worker retries a failed run; fix the cause, then retry it, or start a new run with its key",
        fix=Advice(Verb.RETRY, _target(runs[0])),
        filter="status:failed",
        runs=len(runs),
        examples=_examples(runs, Verb.RETRY),
    )


def _paused(runs: Sequence[Run]) -> list[Finding]:
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
            verb=Verb.RESUME,
        ),
        _finding_of_pauses(
            "changed code",
            by_code,
            "paused by changed code",
            why="the code does not fit the history of the run; deploy code that fits, and the run resumes by itself",
            verb=Verb.WHY,
        ),
    ]
    if others:
        found.append(
            _finding_of_pauses(
                "stopped",
                others,
                "paused after an error",
                why="continuing could repeat the error; fix the cause, then resume the run",
                verb=Verb.RESUME,
            )
        )
    return found


def _finding_of_pauses(check: str, runs: Sequence[Run], what: str, *, why: str, verb: Verb) -> Finding:
    if not runs:
        return fine(check, f"no run is {what}")
    return warning(
        check,
        f"{_count(len(runs), 'run is', 'runs are')} {what}, such as {_example(runs[0])}",
        why=why,
        fix=Advice(verb, _target(runs[0])),
        filter="status:paused",
        runs=len(runs),
        examples=_examples(runs, verb),
    )


async def _workflows(backend: Backend) -> Finding:
    holds = await backend.retrying(lambda store: store.holds.list_holds())
    if not holds:
        return fine("workflows", "no workflow is paused")
    first = holds[0]
    who = f" by {first.hold.by}" if first.hold.by else ""
    why = f": {first.hold.reason}" if first.hold.reason else ""
    what = "every workflow is" if first.workflow is None else _count(len(holds), "workflow is", "workflows are")
    example = "" if first.workflow is None else f", such as {first.workflow}"
    return warning(
        "workflows",
        f"{what} paused{example}{who}{why}",
        why="no worker executes runs of a paused workflow",
        fix=Advice(Verb.RESUME_ALL) if first.workflow is None else Advice(Verb.RESUME_WORKFLOW, first.workflow),
    )


async def _unserved(backend: Backend) -> Finding:
    now = backend.store.now()
    workers = await backend.retrying(lambda store: store.views.list_workers())
    served = {name for worker in workers if worker.lease_until > now for name in worker.definitions}
    runs = [run for run in await _read(backend, RunStatus.PENDING) if run.definition not in served]
    if not runs:
        return fine("pending", "a live worker serves every pending run")
    return warning(
        "pending",
        f"{_count(len(runs), 'pending run has', 'pending runs have')} no live worker, such as {_name(runs[0])}"
        f" ({runs[0].workflow} v{runs[0].version})",
        why="a worker executes only workflows of its module; start one whose module has this workflow and version",
        fix=Advice(Verb.WORKER),
        filter="status:pending",
        runs=len(runs),
        examples=_examples(runs, Verb.WHY),
    )


async def _dead_letters(backend: Backend) -> list[Finding]:
    dead = await backend.retrying(lambda store: store.outbox.list_owed(is_dead=True, limit=_READ_MAX + 1, after=0))
    found: list[Finding] = []
    if dead:
        found.append(
            warning(
                "dead letters",
                f"{_count(len(dead), 'event', 'events')} could not be sent, such as {dead[0].name!r} of run"
                f" {dead[0].key or dead[0].run_id} to {dead[0].sink}: {dead[0].failure}",
                why="the sink rejected it as often as its policy allows; fix the sink, then send the event again",
                fix=Advice(Verb.REPLAY, dead[0].event_id),
            )
        )
    letters = DeadLetters(backend)
    refused = [*await letters.list("signal", limit=_READ_MAX + 1), *await letters.list("hook", limit=_READ_MAX + 1)]
    if refused:
        first = refused[0]
        found.append(
            warning(
                "letters",
                f"{_count(len(refused), 'message', 'messages')} could not be handled, such as {first.name!r} for"
                f" {first.key or first.run_id or first.target}: {first.reason}",
                why="it did not fit, and is kept until a person retries it, edits it or drops it",
                fix=Advice(Verb.SHOW_LETTER, first.letter),
            )
        )
    return found or [fine("dead letters", "every event reached its sink or is still being sent")]


async def _alerts(backend: Backend) -> Finding:
    alerts = await Alerts(backend, None).list(limit=_READ_MAX)
    firing = [one for one in alerts if one.state in (AlertState.FIRING, AlertState.SEEN)]
    if not firing:
        watched = "nothing is watched" if not alerts else f"{_count(len(alerts), 'rule', 'rules')}, and none fires"
        return fine("alerts", watched)
    first = sorted(firing, key=lambda one: one.state != AlertState.FIRING)[0]
    seen = sum(one.state == AlertState.SEEN for one in firing)
    known = f" ({seen} of them seen)" if seen else ""
    return warning(
        "alerts",
        f"{_count(len(firing), 'alert fires', 'alerts fire')}{known}, such as {first.name}: {first.rule}",
        why="what it watches is as it says; the notifiers were told once",
        fix=Advice(Verb.SHOW_ALERT, first.name),
    )


async def _care(backend: Backend) -> list[Finding]:
    """How old the oldest data is, whether pruning goes on, and the age of the last backup."""
    now = backend.store.now()
    care = Retentions(backend, None)
    rounds = [one for one in await care.rounds() if one.ended_at is not None]
    oldest = await backend.retrying(lambda store: store.retention.list_ended(before=Instant(now + 1), limit=1))
    age = 0 if not oldest or oldest[0].ended_at is None else (now - oldest[0].ended_at) // DAY
    found: list[Finding] = []
    if not rounds:
        said = (
            "no run has ended" if not oldest else f"the oldest ended run is {age} days old, and runs are kept for ever"
        )
        found.append(fine("retention", said))
    else:
        last = max(rounds, key=lambda one: one.began_at)
        kept = sum(last.kept.values())
        late = (to_datetime(now) - (last.ended_at or last.began_at)).days
        said = f"the last round deleted {last.runs:,} runs and left {kept:,} past their time"
        if late >= 1:
            found.append(
                warning(
                    "retention",
                    f"no worker has deleted anything for {late} days; {said}",
                    why="workers of an App with a retention look once an hour, and none does",
                    fix="start a worker of that App, or: stepwell prune --older 30d",
                )
            )
        else:
            found.append(fine("retention", f"{said}; the oldest ended run is {age} days old"))
    saved = await care.last_backup()
    if saved is not None:
        days = (to_datetime(now) - saved.at).days
        if days >= _BACKUP_DAYS:
            found.append(
                warning(
                    "backup",
                    f"the last backup is {days} days old: {saved.target}",
                    why="what was stored since then exists once",
                    fix="stepwell backup DATABASE COPY",
                )
            )
        else:
            found.append(fine("backup", f"{days} days old: {saved.target}"))
    return found


async def _triggers(backend: Backend) -> list[Finding]:
    triggers = await Triggers(backend).list(limit=_READ_MAX + 1)
    yesterday = to_datetime(Instant(backend.store.now() - DAY))
    undeclared = [one for one in triggers if one.state == TriggerState.UNDECLARED]
    paused = [one for one in triggers if one.state == TriggerState.PAUSED]
    unreadable = [one for one in triggers if one.unreadable]
    failed = [one for one in triggers if one.failure is not None and one.failure.at > yesterday]
    found: list[Finding] = []
    if undeclared:
        found.append(
            warning(
                "triggers",
                f"{_count(len(undeclared), 'trigger starts', 'triggers start')} nothing, such as {undeclared[0].name}:"
                " no live worker has declared it for a day",
                why="a trigger lasts while a worker has it in its code; start a worker that has it, or delete it",
                fix=Advice(Verb.DELETE_TRIGGER, undeclared[0].name),
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
                fix=Advice(Verb.SHOW_TRIGGER, failed[0].name),
            )
        )
    if paused:
        reason = f": {paused[0].reason}" if paused[0].reason else ""
        found.append(
            warning(
                "paused triggers",
                f"{_count(len(paused), 'trigger is', 'triggers are')} paused, such as {paused[0].name}{reason}",
                why="events start no runs by a paused trigger, also not later",
                fix=Advice(Verb.RESUME_TRIGGER, paused[0].name),
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
                fix=Advice(Verb.SHOW_TRIGGER, unreadable[0].name),
            )
        )
    return found or [fine("triggers", "every trigger is active, and fits the events of the last day")]


async def _schedules(backend: Backend) -> list[Finding]:
    schedules = Schedules(backend)
    stuck, late = await schedules.list(cannot_fire=True, limit=_READ_MAX + 1), await schedules.list_late()
    unreadable = [one for one in await schedules.list(limit=_READ_MAX + 1) if one.unreadable]
    found: list[Finding] = []
    if stuck:
        problem = stuck[0].problem
        assert problem is not None
        found.append(
            warning(
                "schedules",
                f"{_count(len(stuck), 'schedule', 'schedules')} cannot start runs, such as {stuck[0].name}:"
                f" {problem.message}",
                why="its ticks start nothing until that is solved; other schedules are not affected",
                fix=Advice(Verb.SHOW_SCHEDULE, stuck[0].name),
            )
        )
    if unreadable:
        found.append(
            warning(
                "unreadable schedules",
                f"{_count(len(unreadable), 'schedule', 'schedules')} cannot be read here, such as"
                f" {unreadable[0].name}: {unreadable[0].unreadable}",
                why="a worker that cannot read a schedule either starts nothing for it",
                fix=Advice(Verb.SHOW_SCHEDULE, unreadable[0].name),
            )
        )
    if late:
        due_at = late[0].due_at
        assert due_at is not None
        found.append(
            warning(
                "late schedules",
                f"{_count(len(late), 'schedule is', 'schedules are')} due and was not looked at, such as"
                f" {late[0].name}: due since {due_at:%Y-%m-%d %H:%M:%S} UTC",
                why="every worker starts the runs of due schedules, whatever its workflows are; no worker does now",
                fix=Advice(Verb.WORKER),
            )
        )
    return found or [fine("schedules", "every schedule can start its runs, and none is late")]


async def _services(backend: Backend) -> Finding:
    failing = await ServiceFailures(backend).list()
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


def _examples(runs: Sequence[Run], verb: Verb) -> tuple[Example, ...]:
    """The first runs of a finding, each with its own advice."""
    return tuple(
        Example(
            run.run_id,
            run.key,
            run.workflow,
            run.version,
            run.status.value,
            *_reason(run),
            to_datetime(run.hold.at if run.hold is not None else run.ended_at or run.created_at),
            Advice(verb, _target(run)),
        )
        for run in runs[:_EXAMPLES_MAX]
    )


def _reason(run: Run) -> Reason:
    return reason_of(run_view(run), Surroundings(to_datetime(run.created_at)))


def _example(run: Run) -> str:
    reason = _reason(run)
    return ": ".join(part for part in (f"{_name(run)} ({run.workflow})", reason.where, reason.why) if part)


def _name(run: Run) -> str:
    return run.key or run.run_id


def _target(run: Run) -> str:
    """How advice names the run: by its key, which names no other run here, if the key is a plain word."""
    return run.key if run.key is not None and _PLAIN_KEY.fullmatch(run.key) else run.run_id
