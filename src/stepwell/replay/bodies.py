"""Work that a workflow asks for and that happens outside of it: step bodies, and what came of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stepwell.clock import Instant, Span
from stepwell.model.locations import Location
from stepwell.replay.step_context import StepContext


@dataclass(slots=True, eq=False)
class Body:
    """One attempt at a step, to be run once everything before it is durable."""

    location: Location
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    timeout: Span | None
    info: StepContext
    takes_context: bool
    settled: asyncio.Future[Attempted] = field(repr=False)
    started_at: Instant = Instant(0)
    is_cancelled: bool = False  # nobody wants the result any more


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The body returned."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """The body raised."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The body was still running at its timeout and was asked to stop."""

    after: Span


Attempted = Succeeded | Raised | TimedOut
