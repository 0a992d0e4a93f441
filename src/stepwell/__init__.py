"""stepwell: durable workflows for Python. A workflow is an ordinary function whose every step is recorded."""

from stepwell.config import WorkerSettings
from stepwell.engine.explain import Explanation
from stepwell.engine.facade import Recovered, Start
from stepwell.engine.handles import Handle
from stepwell.engine.views import AttemptView, EntryView, RunView, WaitView
from stepwell.errors import (
    AlreadyExistsError,
    ChildFailed,
    Failure,
    Fatal,
    HistoryDivergedError,
    InvalidInputError,
    JoinError,
    NotFoundError,
    RaceError,
    ResultTimeout,
    RetryAfter,
    Rollback,
    RollbackIncomplete,
    RunCancelled,
    RunFailed,
    RunPaused,
    StepFailed,
    StepwellError,
    UnserialisableError,
    WaitTimeout,
)
from stepwell.model.failures import FailureRecord
from stepwell.model.retries import Retry
from stepwell.replay.context import Context, Tried
from stepwell.replay.definition import Step, Workflow, step, workflow
from stepwell.replay.primitives.loop import Break, Continue
from stepwell.replay.primitives.race import Winner
from stepwell.replay.primitives.receive import Message
from stepwell.replay.primitives.sleep import Slept
from stepwell.replay.step_context import StepContext
from stepwell.wiring import Engine

__all__ = [
    "AlreadyExistsError",
    "AttemptView",
    "Break",
    "ChildFailed",
    "Context",
    "Continue",
    "Engine",
    "EntryView",
    "Explanation",
    "Failure",
    "FailureRecord",
    "Fatal",
    "Handle",
    "HistoryDivergedError",
    "InvalidInputError",
    "JoinError",
    "Message",
    "NotFoundError",
    "RaceError",
    "Recovered",
    "ResultTimeout",
    "Retry",
    "RetryAfter",
    "Rollback",
    "RollbackIncomplete",
    "RunCancelled",
    "RunFailed",
    "RunPaused",
    "RunView",
    "Slept",
    "Start",
    "Step",
    "StepContext",
    "StepFailed",
    "StepwellError",
    "Tried",
    "UnserialisableError",
    "WaitTimeout",
    "WaitView",
    "Winner",
    "WorkerSettings",
    "Workflow",
    "step",
    "workflow",
]
