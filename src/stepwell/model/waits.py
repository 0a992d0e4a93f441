"""What a suspended run waits for."""

from __future__ import annotations

from typing import NamedTuple

from stepwell.clock import Instant
from stepwell.model.locations import Location
from stepwell.model.states import WaitKind


class Wait(NamedTuple):
    """One reason to wake. The token is fresh each time the wait is armed, so a stale wake can be told apart."""

    location: Location
    kind: WaitKind
    token: int
    due_at: Instant | None = None
    names: tuple[str, ...] = ()  # of signals; empty means any
    limit_at: Instant | None = None  # a run that still waits here then has waited too long, and fails
