"""The test kit: the real engine on a virtual clock, faults and crashes on demand, and a fixture for pytest."""

from __future__ import annotations

from stepwell.testing.contexts import UnitContext, unit_context
from stepwell.testing.databases import StoreKind
from stepwell.testing.errors import CrashFound, Diverged, KitClosedError, Stuck
from stepwell.testing.faults import InjectedFailure
from stepwell.testing.kit import Kit
from stepwell.testing.making import WorkflowTestCase, kit, kit_options
from stepwell.testing.runs import KitRun, SyncRun
from stepwell.testing.scripts import advance, cancel, publish, send
from stepwell.testing.sweeps import CrashReport, Finding
from stepwell.testing.sync import SyncKit

__all__ = [
    "CrashFound",
    "CrashReport",
    "Diverged",
    "Finding",
    "InjectedFailure",
    "Kit",
    "KitClosedError",
    "KitRun",
    "StoreKind",
    "Stuck",
    "SyncKit",
    "SyncRun",
    "UnitContext",
    "WorkflowTestCase",
    "advance",
    "cancel",
    "kit",
    "kit_options",
    "publish",
    "send",
    "unit_context",
]
