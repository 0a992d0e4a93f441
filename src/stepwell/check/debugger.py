"""Debugging: a recorded run is replayed under pdb with its recorded results. No body runs, and nothing is written."""

from __future__ import annotations

import pdb
import sys
import sysconfig
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import IO, Any, Final

from stepwell.check.dry import FILES_CODEC, describe
from stepwell.check.histories import Recording
from stepwell.codec.base import Codec
from stepwell.environment import LockstepThreads
from stepwell.errors import NotFoundError
from stepwell.model.entries import Entry
from stepwell.model.locations import Location
from stepwell.model.runs import Inbox
from stepwell.model.states import EntryKind, RunStatus
from stepwell.nearest import nearest
from stepwell.replay.driver import begin_forward
from stepwell.replay.journal import Journal
from stepwell.replay.rehearsals import BEFORE_DEADLINES
from stepwell.replay.suspend import Suspend
from stepwell.replay.turn import Turn
from stepwell.replay.workflows import Workflow

# Their lines are not shown: a step leads from one line of the author's code to the next.
_SKIPPED: Final = ("stepwell", "stepwell.*")
_STANDARD: Final = (sysconfig.get_paths()["stdlib"], "<frozen", "<string>")  # where Python's own code comes from


@dataclass(frozen=True, slots=True)
class Debugged:
    """How far a replay under the debugger came: one line of words for a person."""

    words: str


def debug(
    workflow: Workflow[Any, Any],
    recording: Recording,
    *,
    path: str | None = None,
    codec: Codec | None = None,
    stdin: IO[str] | None = None,
    stdout: IO[str] | None = None,
) -> Debugged:
    """Replay a recorded run under pdb: from the first line of its code, or from the line that calls the operation at
    `path`. Every operation returns what is recorded. The replay ends where the record ends.

    A run that was rolled back is replayed up to its failure, without the rollback. Raises `NotFoundError` if the code
    does not reach `path`.
    """
    run, forward = recording.run, _forward(recording)
    debugger = _Debugger(stdin, stdout)
    journal = _Watched(run.run_id, forward.history, run.last_seq)
    wanted = None if path is None else path.strip().strip("/")
    has_stopped = False

    def reach(location: Location) -> None:
        nonlocal has_stopped
        reached = journal.names.text(location)
        journal.reached[reached] = None
        if debugger.has_quit:
            raise Suspend
        if not has_stopped and reached == wanted:
            has_stopped = True
            debugger.stop_at(_authors_frame(sys._getframe()))

    journal.on_reach = reach
    threads = LockstepThreads()
    now_running = run._replace(status=RunStatus.RUNNING)
    turn = begin_forward(workflow, now_running, journal, Inbox(), codec or FILES_CODEC, threads)
    try:
        if wanted is None:
            debugger.step_into(lambda: turn.rehearse(BEFORE_DEADLINES))
        else:
            turn.rehearse(BEFORE_DEADLINES)
        debugger.end()
        if wanted is not None and not has_stopped:
            raise NotFoundError("place", wanted, near=nearest(wanted, [*journal.reached]), fix="name a recorded path")
        return Debugged(_words(turn, workflow, recording, has_quit=debugger.has_quit))
    finally:
        debugger.end()
        turn.close()
        threads.close()


def _forward(recording: Recording) -> Recording:
    """The record of the forward code alone."""
    run, history = recording.run, recording.history
    journal = Journal(run.run_id, history, run.last_seq).forward()
    entries = tuple(one._replace(undo=None) for one in journal.entries.values() if one.kind is not EntryKind.UNDO)
    return recording._replace(history=history._replace(entries=entries))


def _words(turn: Turn, workflow: Workflow[Any, Any], recording: Recording, *, has_quit: bool) -> str:
    """Where the replay ended, and why."""
    if has_quit:
        return "The debugger was left. Nothing was executed or written."
    if turn.problem is not None:
        return f"The code does not fit the record:\n{describe(workflow, recording.run, turn.problem).words}"
    text = turn.journal.names.text
    asked = [text(body.location) for body in (*turn.bodies.asked, *turn.bodies.transactions)]
    if asked:
        return f"The record ends here: a worker would run {', '.join(asked)} next."
    if turn.is_ended:
        error = turn.error
        return "The code has returned." if error is None else f"The code has raised {type(error).__name__}: {error}"
    waits = ", ".join(text(wait.location) for wait in turn.waits.all)
    return f"The record ends here: the run waits at {waits}."


class _Watched(Journal):
    """A journal that tells which operation the code calls."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.reached: dict[str, None] = {}
        self.on_reach: Callable[[Location], None] | None = None

    def recall(self, location: Location) -> Entry | None:
        """The recorded entry of an operation that the code visits now."""
        if self.on_reach is not None:
            self.on_reach(location)
        return super().recall(location)


class _Debugger(pdb.Pdb):
    """pdb, which shows only the author's code, and can be left without an exception in that code."""

    def __init__(self, stdin: IO[str] | None, stdout: IO[str] | None) -> None:
        super().__init__(stdin=stdin, stdout=stdout, skip=_SKIPPED, nosigint=True)
        if stdin is not None:
            self.use_rawinput = False
        self.has_quit = False

    def stop_at(self, frame: FrameType) -> None:
        """Let the person look around at this frame, and step on from there."""
        self.reset()
        each: FrameType | None = frame
        while each is not None:
            each.f_trace = self.trace_dispatch
            self.botframe = each
            each = each.f_back
        self.interaction(frame, None)
        if self.has_quit:
            raise Suspend
        sys.settrace(self.trace_dispatch)

    def step_into(self, work: Callable[[], None]) -> None:
        """Stop at the first line of the author's code that this executes, also in another thread."""
        self.reset()
        threading.settrace(self.trace_dispatch)
        sys.settrace(self.trace_dispatch)
        work()

    def end(self) -> None:
        """Trace nothing any more."""
        sys.settrace(None)
        threading.settrace(None)

    def stop_here(self, frame: FrameType) -> bool:
        """Whether to stop at a line. Not inside Python's own library."""
        file = frame.f_code.co_filename
        is_own = file.startswith(_STANDARD) and "site-packages" not in file
        return not is_own and super().stop_here(frame)

    def set_quit(self) -> None:
        """The person leaves: the code ends at its next operation, and not with an exception at its current line."""
        self.has_quit = True
        self.set_continue()


def _authors_frame(frame: FrameType) -> FrameType:
    """The innermost frame of the author's code."""
    each: FrameType | None = frame
    while each is not None:
        if str(each.f_globals.get("__name__", "")).partition(".")[0] not in ("stepwell", "asyncio"):
            return each
        each = each.f_back
    return frame
