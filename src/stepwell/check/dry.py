"""Dry replay: what a recorded run would do with the current code. No step body runs, and nothing is written."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from stepwell.check.causes import find_cause
from stepwell.check.histories import Recording
from stepwell.codec.base import Codec
from stepwell.codec.json_codec import JsonCodec
from stepwell.codec.offload import OFFLOADED_BYTES_MAX
from stepwell.environment import LockstepThreads
from stepwell.errors import HistoryDivergedError, ReplayError
from stepwell.model.runs import Run
from stepwell.model.states import TERMINAL
from stepwell.replay.rehearsals import Rehearsal, describe_break, perform
from stepwell.replay.workflows import Workflow

# A payload that a file holds inline may have been offloaded in the store that it comes from.
FILES_CODEC: Final = JsonCodec().limited_to(OFFLOADED_BYTES_MAX)


class Fits(NamedTuple):
    """The run continues with this code: it runs these steps next, or waits at these paths, or ends."""

    asks: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    is_ended: bool = False
    unable: tuple[str, ...] = ()  # the paths of steps that it could not undo in a rollback

    @property
    def words(self) -> str:
        """Where it would continue, in one line."""
        if self.asks:
            return f"continues with {', '.join(self.asks)}"
        return f"waits at {', '.join(self.waits)}" if self.waits else "ends"


class Divergence(NamedTuple):
    """The run cannot continue with this code: the record and what the code does now, side by side."""

    code: str  # of the error that a worker would pause it with
    title: str
    path: str
    recorded: str
    now: str
    cause: str  # the most likely one
    fixes: tuple[str, ...]

    @property
    def words(self) -> str:
        """Both sides, the likely cause and the fixes, one per line."""
        lines = [f"{self.code}  {self.title}"]
        for label, text in (
            ("where", self.path),
            ("recorded", self.recorded),
            ("now", self.now),
            ("likely", self.cause),
        ):
            if text:
                lines.append(f"  {label:<9}{text}")
        for number, fix in enumerate(self.fixes):
            lines.append(f"  {'or' if number else 'fix':<9}{fix}")
        return "\n".join(lines)


def replay(
    workflow: Workflow[Any, Any],
    recording: Recording,
    *,
    codec: Codec | None = None,
    threads: LockstepThreads | None = None,
) -> Fits | Divergence:
    """Replay a recording against a workflow, as a worker that claims the run would, up to the first new operation.

    The whole history of an ended run is replayed: the code must pass the recorded paths, and may continue to new ones.
    Encrypted recordings need `codec`. With `threads`, many replays of plain functions share their threads.
    """
    try:
        rehearsal = perform(workflow, recording.run, recording.history, codec or FILES_CODEC, threads, recording.inbox)
    except Exception as error:  # noqa: BLE001  any error means that this run would not continue
        rehearsal = Rehearsal(describe_break(error))
    if rehearsal.problem is None:
        unable = tuple(error.where for error in rehearsal.unable)
        return Fits(rehearsal.asks, rehearsal.waits, rehearsal.is_ended, unable)
    return describe(workflow, recording.run, rehearsal.problem)


def describe(workflow: Workflow[Any, Any], run: Run, problem: ReplayError) -> Divergence:
    """A problem that stops a run, with its likely cause and the fixes."""
    recorded, now = problem.why, ""
    if isinstance(problem, HistoryDivergedError) and problem.recorded:
        recorded, now = problem.recorded, problem.now
    cause, fixes = find_cause(workflow, problem)
    if not fixes:
        fixes = (problem.fix,) if problem.fix else ()
    if run.status not in TERMINAL and isinstance(problem, HistoryDivergedError):
        fixes = (
            *fixes,
            f"keep {run.definition} for this run: leave the old function as it is, and write for the new one: "
            f"@workflow(name={run.workflow!r}, version={run.version + 1})",
        )
    return Divergence(problem.code, problem.title, problem.where, recorded, now, cause, fixes)
