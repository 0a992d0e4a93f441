"""Code that blocks the event loop: the step or workflow is named, with its run, its path and its stack."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from stepwell.environment import LoopWatch
from stepwell.errors import BlockedLoopError
from stepwell.logs import FIELDS
from stepwell.redaction import redact
from stepwell.replay.turn import Turn
from stepwell.worker.invocations import run_body

BLOCKED_SECONDS: Final = 1.0
_LINES_MAX: Final = 12  # of a stack: the innermost ones
_LOG: Final = logging.getLogger("stepwell.worker")


class Blocker(NamedTuple):
    """What runs on the loop at the moment, and where."""

    what: str  # "step charge", "workflow order"
    place: tuple[str, str | None, str, str | None, int | None]  # run, key, workflow, path, attempt
    stack: str  # the author's lines, innermost last


def find_blocker(frame: FrameType | None) -> Blocker | None:
    """The body or the workflow code that a thread executes; None if it executes neither."""
    frames: list[FrameType] = []
    while frame is not None:
        found = _FINDERS.get(frame.f_code)
        if found is not None:
            what, place = found(frame)
            return Blocker(what, place, _stack(frames))
        frames.append(frame)
        frame = frame.f_back
    return None


def _of_body(frame: FrameType) -> tuple[str, Any]:
    place = frame.f_locals["body"].place
    return f"step {place[3]}", place


def _of_turn(frame: FrameType) -> tuple[str, Any]:
    run = frame.f_locals["self"].run
    return f"workflow {run.workflow}", (run.run_id, run.key, run.workflow, None, None)


_FINDERS: Final[dict[CodeType, Callable[[FrameType], tuple[str, Any]]]] = {
    run_body.__code__: _of_body,
    Turn.advance.__code__: _of_turn,
}


def _stack(frames: list[FrameType]) -> str:
    """The frames above the engine's own, without those of the engine in between."""
    own = [one for one in frames if not str(one.f_globals.get("__name__", "")).startswith("stepwell.")]
    summary = traceback.StackSummary.extract((one, one.f_lineno) for one in reversed(own[:_LINES_MAX]))
    return redact("".join(summary.format())).rstrip()


def report(blocker: Blocker, seconds: float) -> None:
    """Log what blocks the loop, with its place as fields."""
    error = BlockedLoopError(
        f"{blocker.what} of run {blocker.place[0]} has blocked the event loop for {seconds:.1f} s",
        where=" ".join(str(part) for part in (blocker.place[2], blocker.place[3]) if part),
        why="no other run of this worker continues meanwhile, and its lease may expire",
        fix="write the step as `def`, which runs in a thread; or: await asyncio.to_thread(blocking_call, ...)"
        if blocker.what.startswith("step")
        else "move the call into a step: await ctx.step(fn, ...)",
    )
    fields: dict[str, object] = dict(zip(FIELDS, blocker.place, strict=True))
    _LOG.warning("%s\n%s", error, blocker.stack, extra=fields)


def watch_loop(is_needed: Callable[[], bool]) -> LoopWatch:
    """Watch the running loop as long as something executes on it."""

    def blocked(frame: FrameType | None, seconds: float) -> bool:
        blocker = find_blocker(frame)
        if blocker is not None:
            report(blocker, seconds)
        return blocker is not None

    return LoopWatch(BLOCKED_SECONDS, is_needed, blocked)
