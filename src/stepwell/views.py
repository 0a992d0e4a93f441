"""What an engine returns when you look at runs: frozen records of what the store holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwell.engine.alerts import AlertActView, AlertView
    from stepwell.engine.bulks import BulkItem, BulkView
    from stepwell.engine.causes import Cause
    from stepwell.engine.dead_letters import HandledLetter, Letter, LettersActed
    from stepwell.engine.explanations import Explanation
    from stepwell.engine.footprint import Footprint, TableFootprint, WorkflowFootprint
    from stepwell.engine.live import StreamItem, StreamReset
    from stepwell.engine.outbox import OwedEvent
    from stepwell.engine.repair_plans import RepairPlan
    from stepwell.engine.reschedules import Rescheduled
    from stepwell.engine.retention import EraseReport, PruneAhead, PruneReport, PruneRound
    from stepwell.engine.saved_views import SavedView
    from stepwell.engine.schedule_views import (
        BackfilledTickView,
        BackfillView,
        PreviewedTickView,
        ScheduleActView,
        ScheduleDifferenceView,
        ScheduleOutcomeView,
        ScheduleProblemView,
        ScheduleView,
        TickView,
        TriggeredView,
    )
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
    from stepwell.model.schedules import Schedule, Scheduled

__all__ = [
    "AlertActView",
    "AlertView",
    "AttemptView",
    "BackfillView",
    "BackfilledTickView",
    "BulkItem",
    "BulkView",
    "Cause",
    "EntryView",
    "EraseReport",
    "Explanation",
    "FailureRecord",
    "Footprint",
    "HandledLetter",
    "HoldActView",
    "HoldView",
    "Letter",
    "LettersActed",
    "OwedEvent",
    "PreviewedTickView",
    "ProgressView",
    "PruneAhead",
    "PruneReport",
    "PruneRound",
    "Recovered",
    "RepairPlan",
    "Rescheduled",
    "RunView",
    "SavedView",
    "Schedule",
    "ScheduleActView",
    "ScheduleDifferenceView",
    "ScheduleOutcomeView",
    "ScheduleProblemView",
    "ScheduleView",
    "Scheduled",
    "ServiceFailureView",
    "SignalView",
    "StreamItem",
    "StreamReset",
    "TableFootprint",
    "TickView",
    "TriggerActView",
    "TriggerFailureView",
    "TriggerView",
    "TriggeredView",
    "WaitView",
    "WorkflowFootprint",
]

_HOMES = {
    "stepwell.engine.alerts": ["AlertActView", "AlertView"],
    "stepwell.engine.bulks": ["BulkItem", "BulkView"],
    "stepwell.engine.causes": ["Cause"],
    "stepwell.engine.dead_letters": ["HandledLetter", "Letter", "LettersActed"],
    "stepwell.engine.explanations": ["Explanation"],
    "stepwell.engine.footprint": ["Footprint", "TableFootprint", "WorkflowFootprint"],
    "stepwell.engine.live": ["StreamItem", "StreamReset"],
    "stepwell.engine.outbox": ["OwedEvent"],
    "stepwell.engine.repair_plans": ["RepairPlan"],
    "stepwell.engine.reschedules": ["Rescheduled"],
    "stepwell.engine.retention": ["EraseReport", "PruneAhead", "PruneReport", "PruneRound"],
    "stepwell.engine.saved_views": ["SavedView"],
    "stepwell.engine.schedule_views": [
        "BackfillView",
        "BackfilledTickView",
        "PreviewedTickView",
        "ScheduleActView",
        "ScheduleDifferenceView",
        "ScheduleOutcomeView",
        "ScheduleProblemView",
        "ScheduleView",
        "TickView",
        "TriggeredView",
    ],
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
    "stepwell.model.schedules": ["Schedule", "Scheduled"],
}

if not TYPE_CHECKING:  # a type checker knows exactly the names above
    from stepwell.lazy import lazy_names

    __getattr__ = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
