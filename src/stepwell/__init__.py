"""stepwell: durable workflows for Python. A workflow is an ordinary function whose every step is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepwell.clock import Duration
    from stepwell.codec.blobs import FolderBlobs
    from stepwell.codec.encryption import Encrypted, Keys
    from stepwell.codec.json_codec import JsonCodec
    from stepwell.codec.offload import Offloaded
    from stepwell.codec.secret import Secret
    from stepwell.config import WorkerSettings
    from stepwell.engine.explain import Explanation
    from stepwell.engine.facade import Recovered
    from stepwell.engine.handles import Handle
    from stepwell.engine.starts import Start
    from stepwell.engine.views import AttemptView, EntryView, ProgressView, RunView, WaitView
    from stepwell.errors import (
        AlreadyExistsError,
        ChildFailed,
        Failure,
        Fatal,
        HistoryDivergedError,
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
        StepFailed,
        StepwellError,
        TransactionError,
        TransactionsUnsupportedError,
        UnserialisableError,
        WaitTimeout,
    )
    from stepwell.model.failures import FailureRecord
    from stepwell.model.retries import Retry
    from stepwell.replay.budgets import Budget
    from stepwell.replay.context import Context, Tried
    from stepwell.replay.definition import Step, Workflow, step, workflow
    from stepwell.replay.operations import ChildOperation, Operation, Outcome
    from stepwell.replay.primitives.loop import Break, Continue
    from stepwell.replay.primitives.race import Winner
    from stepwell.replay.primitives.receive import Message
    from stepwell.replay.primitives.sleep import Slept
    from stepwell.replay.primitives.wait_any import Arrived, signal, timer
    from stepwell.replay.step_context import StepContext
    from stepwell.stores.base.transactions import Transaction
    from stepwell.sync import SyncEngine, SyncHandle
    from stepwell.wiring import Engine

__all__ = [
    "AlreadyExistsError",
    "Arrived",
    "AttemptView",
    "Break",
    "Budget",
    "ChildFailed",
    "ChildOperation",
    "Context",
    "Continue",
    "Duration",
    "Encrypted",
    "Engine",
    "EntryView",
    "Explanation",
    "Failure",
    "FailureRecord",
    "Fatal",
    "FolderBlobs",
    "Handle",
    "HistoryDivergedError",
    "InvalidInputError",
    "JoinError",
    "JsonCodec",
    "Keys",
    "Message",
    "NotFoundError",
    "Offloaded",
    "Operation",
    "Outcome",
    "OutsideStepError",
    "ProgressView",
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
    "Secret",
    "Slept",
    "Start",
    "Step",
    "StepContext",
    "StepFailed",
    "StepwellError",
    "SyncEngine",
    "SyncHandle",
    "Transaction",
    "TransactionError",
    "TransactionsUnsupportedError",
    "Tried",
    "UnserialisableError",
    "WaitTimeout",
    "WaitView",
    "Winner",
    "WorkerSettings",
    "Workflow",
    "signal",
    "step",
    "timer",
    "workflow",
]

# Loaded at first use (PEP 562): `stepwell --help` and a mere `import stepwell` need not wait for the engine.
_HOMES = {
    "stepwell.codec.encryption": ["Encrypted", "Keys"],
    "stepwell.codec.offload": ["Offloaded"],
    "stepwell.codec.blobs": ["FolderBlobs"],
    "stepwell.codec.secret": ["Secret"],
    "stepwell.codec.json_codec": ["JsonCodec"],
    "stepwell.sync": ["SyncEngine", "SyncHandle"],
    "stepwell.replay.operations": ["ChildOperation", "Operation", "Outcome"],
    "stepwell.replay.primitives.wait_any": ["Arrived", "signal", "timer"],
    "stepwell.clock": ["Duration"],
    "stepwell.config": ["WorkerSettings"],
    "stepwell.engine.explain": ["Explanation"],
    "stepwell.engine.facade": ["Recovered"],
    "stepwell.engine.starts": ["Start"],
    "stepwell.engine.handles": ["Handle"],
    "stepwell.engine.views": ["AttemptView", "EntryView", "ProgressView", "RunView", "WaitView"],
    "stepwell.errors": [
        "AlreadyExistsError",
        "ChildFailed",
        "Failure",
        "Fatal",
        "HistoryDivergedError",
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
        "StepFailed",
        "StepwellError",
        "TransactionError",
        "TransactionsUnsupportedError",
        "UnserialisableError",
        "WaitTimeout",
    ],
    "stepwell.model.failures": ["FailureRecord"],
    "stepwell.model.retries": ["Retry"],
    "stepwell.replay.budgets": ["Budget"],
    "stepwell.replay.context": ["Context", "Tried"],
    "stepwell.replay.definition": ["Step", "Workflow", "step", "workflow"],
    "stepwell.replay.primitives.loop": ["Break", "Continue"],
    "stepwell.replay.primitives.race": ["Winner"],
    "stepwell.replay.primitives.receive": ["Message"],
    "stepwell.replay.primitives.sleep": ["Slept"],
    "stepwell.replay.step_context": ["StepContext"],
    "stepwell.stores.base.transactions": ["Transaction"],
    "stepwell.wiring": ["Engine"],
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
