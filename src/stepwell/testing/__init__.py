"""The test kit: the real engine on a virtual clock, faults and crashes on demand, and a fixture for pytest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepwell.testing.contexts import UnitContext, unit_context
    from stepwell.testing.databases import StoreKind
    from stepwell.testing.errors import CrashFound, Diverged, KitClosedError, Stuck
    from stepwell.testing.factories import WorkflowTestCase, kit, kit_options
    from stepwell.testing.faults import InjectedFailure, recorded_error
    from stepwell.testing.kits import Kit
    from stepwell.testing.runs import KitRun
    from stepwell.testing.scripts import advance, cancel, publish, send
    from stepwell.testing.sweeps import CrashReport, Finding
    from stepwell.testing.sync import SyncKit, SyncRun

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
    "recorded_error",
    "send",
    "unit_context",
]

# Loaded at first use (PEP 562): pytest imports the plugin of this package in every session, even without workflows.
_HOMES = {
    "contexts": ["UnitContext", "unit_context"],
    "databases": ["StoreKind"],
    "errors": ["CrashFound", "Diverged", "KitClosedError", "Stuck"],
    "faults": ["InjectedFailure", "recorded_error"],
    "kits": ["Kit"],
    "factories": ["WorkflowTestCase", "kit", "kit_options"],
    "runs": ["KitRun"],
    "scripts": ["advance", "cancel", "publish", "send"],
    "sweeps": ["CrashReport", "Finding"],
    "sync": ["SyncKit", "SyncRun"],
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
