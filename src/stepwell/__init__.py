"""stepwell: durable workflows for Python. A workflow is an ordinary function, and every step it takes is recorded.

Here are the names that programs use. The rest is in public modules: `stepwell.errors` (every exception),
`stepwell.views` (what an engine returns when you look at runs), `stepwell.codec` (encryption and large payloads),
`stepwell.sinks` (where events go), `stepwell.care` (alerts, and how long runs are kept), `stepwell.hooks` (metrics and
traces), `stepwell.http` (the HTTP API) and `stepwell.testing` (the test kit).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwell.app import App
    from stepwell.clock import Duration
    from stepwell.codec.secret import Secret
    from stepwell.config import WorkerSettings
    from stepwell.engine.handles import Handle
    from stepwell.engine.starts import Start
    from stepwell.engine.triggers import Trigger
    from stepwell.errors import (
        AlreadyExistsError,
        ChildFailed,
        Failure,
        Fatal,
        InvalidInputError,
        JoinError,
        NotFoundError,
        RaceError,
        ResultTimeout,
        RetryAfter,
        Rollback,
        RunCancelled,
        RunFailed,
        RunPaused,
        StepFailed,
        StepwellError,
        WaitTimeout,
    )
    from stepwell.model.business_hours import BusinessHours
    from stepwell.model.retries import Retry
    from stepwell.model.schedules import at, cron, every
    from stepwell.model.topics import Event
    from stepwell.model.transactions import Transaction
    from stepwell.replay.budgets import Budget
    from stepwell.replay.context import Context
    from stepwell.replay.operations import ChildOperation, Operation, Outcome
    from stepwell.replay.primitives.loop import Break, Continue
    from stepwell.replay.primitives.observe import Absent
    from stepwell.replay.primitives.race import Winner
    from stepwell.replay.primitives.receive import Message
    from stepwell.replay.primitives.sleep import Slept
    from stepwell.replay.primitives.step import Tried
    from stepwell.replay.primitives.topic import topic
    from stepwell.replay.primitives.wait_any import Arrived, done, signal, timer
    from stepwell.replay.signals import Cancel, Request, Signal
    from stepwell.replay.step_context import StepContext
    from stepwell.replay.steps import Step, step
    from stepwell.replay.sync_context import SyncContext
    from stepwell.replay.workflows import Workflow, workflow
    from stepwell.sync import SyncEngine, SyncHandle
    from stepwell.wiring import Engine

__all__ = [
    "Absent",
    "AlreadyExistsError",
    "App",
    "Arrived",
    "Break",
    "Budget",
    "BusinessHours",
    "Cancel",
    "ChildFailed",
    "ChildOperation",
    "Context",
    "Continue",
    "Duration",
    "Engine",
    "Event",
    "Failure",
    "Fatal",
    "Handle",
    "InvalidInputError",
    "JoinError",
    "Message",
    "NotFoundError",
    "Operation",
    "Outcome",
    "RaceError",
    "Request",
    "ResultTimeout",
    "Retry",
    "RetryAfter",
    "Rollback",
    "RunCancelled",
    "RunFailed",
    "RunPaused",
    "Secret",
    "Signal",
    "Slept",
    "Start",
    "Step",
    "StepContext",
    "StepFailed",
    "StepwellError",
    "SyncContext",
    "SyncEngine",
    "SyncHandle",
    "Transaction",
    "Tried",
    "Trigger",
    "WaitTimeout",
    "Winner",
    "WorkerSettings",
    "Workflow",
    "at",
    "cron",
    "done",
    "every",
    "signal",
    "step",
    "timer",
    "topic",
    "workflow",
]

_HOMES = {
    "stepwell.app": ["App"],
    "stepwell.clock": ["Duration"],
    "stepwell.codec.secret": ["Secret"],
    "stepwell.config": ["WorkerSettings"],
    "stepwell.engine.handles": ["Handle"],
    "stepwell.engine.starts": ["Start"],
    "stepwell.engine.triggers": ["Trigger"],
    "stepwell.errors": [
        "AlreadyExistsError",
        "ChildFailed",
        "Failure",
        "Fatal",
        "InvalidInputError",
        "JoinError",
        "NotFoundError",
        "RaceError",
        "ResultTimeout",
        "RetryAfter",
        "Rollback",
        "RunCancelled",
        "RunFailed",
        "RunPaused",
        "StepFailed",
        "StepwellError",
        "WaitTimeout",
    ],
    "stepwell.model.business_hours": ["BusinessHours"],
    "stepwell.model.retries": ["Retry"],
    "stepwell.model.schedules": ["at", "cron", "every"],
    "stepwell.model.topics": ["Event"],
    "stepwell.model.transactions": ["Transaction"],
    "stepwell.replay.budgets": ["Budget"],
    "stepwell.replay.context": ["Context"],
    "stepwell.replay.operations": ["ChildOperation", "Operation", "Outcome"],
    "stepwell.replay.primitives.loop": ["Break", "Continue"],
    "stepwell.replay.primitives.observe": ["Absent"],
    "stepwell.replay.primitives.race": ["Winner"],
    "stepwell.replay.primitives.receive": ["Message"],
    "stepwell.replay.primitives.sleep": ["Slept"],
    "stepwell.replay.primitives.step": ["Tried"],
    "stepwell.replay.primitives.topic": ["topic"],
    "stepwell.replay.primitives.wait_any": ["Arrived", "done", "signal", "timer"],
    "stepwell.replay.signals": ["Cancel", "Request", "Signal"],
    "stepwell.replay.step_context": ["StepContext"],
    "stepwell.replay.steps": ["Step", "step"],
    "stepwell.replay.sync_context": ["SyncContext"],
    "stepwell.replay.workflows": ["Workflow", "workflow"],
    "stepwell.sync": ["SyncEngine", "SyncHandle"],
    "stepwell.wiring": ["Engine"],
}

if not TYPE_CHECKING:  # a type checker knows exactly the names above
    from stepwell.lazy import lazy_names

    __getattr__ = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
