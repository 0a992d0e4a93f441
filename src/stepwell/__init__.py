"""stepwell: durable workflows for Python. A workflow is an ordinary function whose every step is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepwell.app import App
    from stepwell.clock import Duration
    from stepwell.codec.blobs import FolderBlobs
    from stepwell.codec.encryption import Encrypted, Keys
    from stepwell.codec.json_codec import JsonCodec
    from stepwell.codec.offload import Offloaded
    from stepwell.codec.secret import Secret
    from stepwell.config import WorkerSettings
    from stepwell.engine.bulks import BulkItem, BulkView
    from stepwell.engine.causes import Cause
    from stepwell.engine.explanations import Explanation
    from stepwell.engine.handles import Handle
    from stepwell.engine.live import StreamItem, StreamReset
    from stepwell.engine.outbox import OwedEvent
    from stepwell.engine.repair_plans import RepairPlan
    from stepwell.engine.starts import Start
    from stepwell.engine.views import (
        AttemptView,
        EntryView,
        HoldActView,
        HoldView,
        ProgressView,
        RunView,
        SignalView,
        WaitView,
    )
    from stepwell.engine.workers import Recovered
    from stepwell.errors import (
        AlreadyExistsError,
        AskRefused,
        ChildFailed,
        DeadlineExceeded,
        Failure,
        Fatal,
        HistoryDivergedError,
        HistoryFileError,
        InvalidInputError,
        JoinError,
        NotFoundError,
        OutsideStepError,
        RaceError,
        ResultTimeout,
        RetryAfter,
        Rollback,
        RollbackIncomplete,
        RunCancelled,
        RunFailed,
        RunPaused,
        SignatureError,
        StepFailed,
        StepwellError,
        TopicFullError,
        TransactionError,
        TransactionsUnsupportedError,
        Unanswered,
        UnknownTopicError,
        UnserialisableError,
        WaitedTooLong,
        WaitTimeout,
    )
    from stepwell.errors.records import FailureRecord
    from stepwell.model.retries import Retry
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
    from stepwell.sinks.base import EmittedEvent, Sink
    from stepwell.sinks.handlers import handler
    from stepwell.sinks.signatures import verify_signature
    from stepwell.sinks.topics import TopicSink
    from stepwell.sinks.webhooks import Webhook
    from stepwell.sync import SyncEngine, SyncHandle
    from stepwell.wiring import Engine
    from stepwell.worker.metrics import Metrics
    from stepwell.worker.observers import Observer
    from stepwell.worker.traces import Traces

__all__ = [
    "Absent",
    "AlreadyExistsError",
    "App",
    "Arrived",
    "AskRefused",
    "AttemptView",
    "Break",
    "Budget",
    "BulkItem",
    "BulkView",
    "Cancel",
    "Cause",
    "ChildFailed",
    "ChildOperation",
    "Context",
    "Continue",
    "DeadlineExceeded",
    "Duration",
    "EmittedEvent",
    "Encrypted",
    "Engine",
    "EntryView",
    "Event",
    "Explanation",
    "Failure",
    "FailureRecord",
    "Fatal",
    "FolderBlobs",
    "Handle",
    "HistoryDivergedError",
    "HistoryFileError",
    "HoldActView",
    "HoldView",
    "InvalidInputError",
    "JoinError",
    "JsonCodec",
    "Keys",
    "Message",
    "Metrics",
    "NotFoundError",
    "Observer",
    "Offloaded",
    "Operation",
    "Outcome",
    "OutsideStepError",
    "OwedEvent",
    "ProgressView",
    "RaceError",
    "Recovered",
    "RepairPlan",
    "Request",
    "ResultTimeout",
    "Retry",
    "RetryAfter",
    "Rollback",
    "RollbackIncomplete",
    "RunCancelled",
    "RunFailed",
    "RunPaused",
    "RunView",
    "Secret",
    "Signal",
    "SignalView",
    "SignatureError",
    "Sink",
    "Slept",
    "Start",
    "Step",
    "StepContext",
    "StepFailed",
    "StepwellError",
    "StreamItem",
    "StreamReset",
    "SyncContext",
    "SyncEngine",
    "SyncHandle",
    "TopicFullError",
    "TopicSink",
    "Traces",
    "Transaction",
    "TransactionError",
    "TransactionsUnsupportedError",
    "Tried",
    "Unanswered",
    "UnknownTopicError",
    "UnserialisableError",
    "WaitTimeout",
    "WaitView",
    "WaitedTooLong",
    "Webhook",
    "Winner",
    "WorkerSettings",
    "Workflow",
    "done",
    "handler",
    "signal",
    "step",
    "timer",
    "topic",
    "verify_signature",
    "workflow",
]

# Loaded at first use (PEP 562): `stepwell --help` and a mere `import stepwell` need not wait for the engine.
_HOMES = {
    "stepwell.app": ["App"],
    "stepwell.codec.encryption": ["Encrypted", "Keys"],
    "stepwell.codec.offload": ["Offloaded"],
    "stepwell.codec.blobs": ["FolderBlobs"],
    "stepwell.codec.secret": ["Secret"],
    "stepwell.codec.json_codec": ["JsonCodec"],
    "stepwell.sync": ["SyncEngine", "SyncHandle"],
    "stepwell.replay.operations": ["ChildOperation", "Operation", "Outcome"],
    "stepwell.replay.primitives.wait_any": ["Arrived", "done", "signal", "timer"],
    "stepwell.replay.primitives.topic": ["topic"],
    "stepwell.model.topics": ["Event"],
    "stepwell.clock": ["Duration"],
    "stepwell.config": ["WorkerSettings"],
    "stepwell.engine.causes": ["Cause"],
    "stepwell.engine.explanations": ["Explanation"],
    "stepwell.engine.workers": ["Recovered"],
    "stepwell.engine.repair_plans": ["RepairPlan"],
    "stepwell.engine.starts": ["Start"],
    "stepwell.engine.handles": ["Handle"],
    "stepwell.engine.live": ["StreamItem", "StreamReset"],
    "stepwell.engine.bulks": ["BulkItem", "BulkView"],
    "stepwell.engine.outbox": ["OwedEvent"],
    "stepwell.engine.views": [
        "AttemptView",
        "EntryView",
        "HoldActView",
        "HoldView",
        "ProgressView",
        "RunView",
        "SignalView",
        "WaitView",
    ],
    "stepwell.errors": [
        "AlreadyExistsError",
        "AskRefused",
        "ChildFailed",
        "DeadlineExceeded",
        "Failure",
        "Fatal",
        "HistoryDivergedError",
        "HistoryFileError",
        "InvalidInputError",
        "JoinError",
        "NotFoundError",
        "OutsideStepError",
        "RaceError",
        "ResultTimeout",
        "RetryAfter",
        "Rollback",
        "RollbackIncomplete",
        "RunCancelled",
        "RunFailed",
        "RunPaused",
        "SignatureError",
        "StepFailed",
        "StepwellError",
        "TopicFullError",
        "UnknownTopicError",
        "Unanswered",
        "TransactionError",
        "TransactionsUnsupportedError",
        "UnserialisableError",
        "WaitTimeout",
        "WaitedTooLong",
    ],
    "stepwell.errors.records": ["FailureRecord"],
    "stepwell.model.retries": ["Retry"],
    "stepwell.replay.budgets": ["Budget"],
    "stepwell.replay.context": ["Context"],
    "stepwell.replay.primitives.step": ["Tried"],
    "stepwell.replay.steps": ["Step", "step"],
    "stepwell.replay.workflows": ["Workflow", "workflow"],
    "stepwell.replay.primitives.loop": ["Break", "Continue"],
    "stepwell.replay.primitives.race": ["Winner"],
    "stepwell.replay.primitives.observe": ["Absent"],
    "stepwell.replay.primitives.receive": ["Message"],
    "stepwell.replay.signals": ["Cancel", "Request", "Signal"],
    "stepwell.replay.primitives.sleep": ["Slept"],
    "stepwell.replay.step_context": ["StepContext"],
    "stepwell.replay.sync_context": ["SyncContext"],
    "stepwell.sinks.base": ["EmittedEvent", "Sink"],
    "stepwell.sinks.handlers": ["handler"],
    "stepwell.sinks.signatures": ["verify_signature"],
    "stepwell.sinks.topics": ["TopicSink"],
    "stepwell.sinks.webhooks": ["Webhook"],
    "stepwell.model.transactions": ["Transaction"],
    "stepwell.wiring": ["Engine"],
    "stepwell.worker.metrics": ["Metrics"],
    "stepwell.worker.observers": ["Observer"],
    "stepwell.worker.traces": ["Traces"],
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
