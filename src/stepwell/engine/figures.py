"""Figures of a store for Prometheus: how many runs and workers there are, and how long the queue is."""

from __future__ import annotations

from stepwell.clock import SECOND
from stepwell.engine.alert_rules import AlertBody
from stepwell.engine.backend import Backend
from stepwell.engine.records import RecordKind, Records
from stepwell.engine.schedule_records import PROBLEM_LABEL, ScheduleBody
from stepwell.engine.service_failures import ServiceFailures
from stepwell.engine.trigger_records import TriggerBody
from stepwell.model.states import TERMINAL, AlertState, RunStatus, ScheduleState, TriggerState
from stepwell.telemetry.metrics import Gauge, Labels, Metric

_COUNTED_MAX = 10_000
_LETTERS_MAX = 1_000
_ALERT_STATES = (AlertState.OK, AlertState.FIRING, AlertState.SEEN)
_STATES = (TriggerState.ACTIVE, TriggerState.PAUSED, TriggerState.UNDECLARED)
_SCHEDULE_STATES = (ScheduleState.ACTIVE, ScheduleState.PAUSED, ScheduleState.ENDED)


async def read_figures(backend: Backend) -> list[Metric]:
    """What the store holds now; `render` makes text of it."""
    unfinished = await backend.retrying(lambda store: store.views.count_unfinished())
    now, workers = backend.store.now(), await backend.retrying(lambda store: store.views.list_workers())
    counts: dict[Labels, float] = {
        (status.value,): unfinished.runs.get(status, 0) for status in RunStatus if status not in TERMINAL
    }
    oldest = 0 if unfinished.due_since is None else max(0, now - unfinished.due_since) / SECOND
    alive = sum(one.lease_until > now for one in workers)
    triggers = Records(backend, RecordKind.TRIGGER, TriggerBody)
    by_state: dict[Labels, float] = {
        (state.value,): await triggers.count(states=[state], limit=_COUNTED_MAX) for state in _STATES
    }
    schedules = Records(backend, RecordKind.SCHEDULE, ScheduleBody)
    by_schedule_state: dict[Labels, float] = {
        (state.value,): await schedules.count(states=[state], limit=_COUNTED_MAX) for state in _SCHEDULE_STATES
    }
    stuck = await schedules.count(labels=[PROBLEM_LABEL], limit=_COUNTED_MAX)
    due_at = await backend.retrying(lambda store: store.records.next_due([RecordKind.SCHEDULE]))
    late = 0 if due_at is None else max(0, now - due_at) / SECOND
    failing = len(await ServiceFailures(backend).list())
    alerts = Records(backend, RecordKind.ALERT, AlertBody)
    firing: dict[Labels, float] = {
        (state.value,): await alerts.count(states=[state], limit=_COUNTED_MAX) for state in _ALERT_STATES
    }
    dead = await backend.retrying(lambda store: store.outbox.list_owed(is_dead=True, limit=_LETTERS_MAX))
    refused = await backend.retrying(lambda store: store.views.list_unread(limit=_LETTERS_MAX, is_refused=True))
    letters: dict[Labels, float] = {("event",): len(dead), ("signal",): len(refused)}
    return [
        Gauge("stepwell_runs", "Runs that have not ended, by status.", counts, ("status",)),
        Gauge(
            "stepwell_ready_runs",
            "Runs that are due and not claimed: the depth of the queue.",
            {(): unfinished.due},
        ),
        Gauge("stepwell_ready_oldest_seconds", "For how long the oldest of them has been due.", {(): oldest}),
        Gauge("stepwell_workers_alive", "Workers whose lease has not expired.", {(): alive}),
        Gauge("stepwell_triggers", "Workflows that events start, by state.", by_state, ("state",)),
        Gauge("stepwell_schedules", "Workflows that time starts, by state.", by_schedule_state, ("state",)),
        Gauge("stepwell_schedules_cannot_fire", "Schedules that cannot start runs.", {(): stuck}),
        Gauge("stepwell_schedules_late_seconds", "For how long the longest due schedule has been due.", {(): late}),
        Gauge("stepwell_alerts", "Rules that watch runs, by state.", firing, ("state",)),
        Gauge(
            "stepwell_dead_letters", "Events and signals that could not be handled, up to 1,000.", letters, ("kind",)
        ),
        Gauge("stepwell_services_failing", "Services that fail on a worker.", {(): failing}),
    ]
