"""Work that a workflow asks for and that happens outside of it: step bodies, and what came of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stepwell.clock import Span
from stepwell.model.locations import Location, Names
from stepwell.model.runs import Run
from stepwell.replay.step_context import StepContext


@dataclass(slots=True, eq=False)
class Body:
    """One attempt at a step, to be run once everything before it is durable."""

    run: Run
    names: Names
    location: Location
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_async: bool
    takes_context: bool
    timeout: Span | None
    attempt: int
    is_final_attempt: bool
    settled: asyncio.Future[Attempted] = field(repr=False)
    is_unwanted: bool = False  # its branch lost or was cancelled: the result is thrown away
    is_stopping: bool = False  # it was asked to stop; what it gives all the same is recorded

    @property
    def info(self) -> StepContext:
        """What the body may know about itself."""
        run_id, path = self.run.run_id, self.names.text(self.location)
        return StepContext(run_id, self.run.workflow, path, self.attempt, self.is_final_attempt, f"{run_id}:{path}")


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
