"""What an engine returns when you look at runs: frozen records of what the store holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwell.engine.bulks import BulkItem, BulkView
    from stepwell.engine.causes import Cause
    from stepwell.engine.explanations import Explanation
    from stepwell.engine.live import StreamItem, StreamReset
    from stepwell.engine.outbox import OwedEvent
    from stepwell.engine.repair_plans import RepairPlan
    from stepwell.engine.reschedules import Rescheduled
    from stepwell.engine.saved_views import SavedView
    from stepwell.engine.service_failures import ServiceFailureView
    from stepwell.engine.triggers import TriggerActView, TriggerFailureView, TriggerView
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
    from stepwell.errors.records import FailureRecord

__all__ = [
    "AttemptView",
    "BulkItem",
    "BulkView",
    "Cause",
    "EntryView",
    "Explanation",
    "FailureRecord",
    "HoldActView",
    "HoldView",
    "OwedEvent",
    "ProgressView",
    "Recovered",
    "RepairPlan",
    "Rescheduled",
    "RunView",
    "SavedView",
    "ServiceFailureView",
    "SignalView",
    "StreamItem",
    "StreamReset",
    "TriggerActView",
    "TriggerFailureView",
    "TriggerView",
    "WaitView",
]

_HOMES = {
    "stepwell.engine.bulks": ["BulkItem", "BulkView"],
    "stepwell.engine.causes": ["Cause"],
    "stepwell.engine.explanations": ["Explanation"],
    "stepwell.engine.live": ["StreamItem", "StreamReset"],
    "stepwell.engine.outbox": ["OwedEvent"],
    "stepwell.engine.repair_plans": ["RepairPlan"],
    "stepwell.engine.reschedules": ["Rescheduled"],
    "stepwell.engine.saved_views": ["SavedView"],
    "stepwell.engine.service_failures": ["ServiceFailureView"],
    "stepwell.engine.triggers": ["TriggerActView", "TriggerFailureView", "TriggerView"],
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
    "stepwell.engine.workers": ["Recovered"],
    "stepwell.errors.records": ["FailureRecord"],
}

if not TYPE_CHECKING:  # a type checker knows exactly the names above
    from stepwell.lazy import lazy_names

    __getattr__ = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
