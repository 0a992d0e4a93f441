"""Defects: an internal error in one run pauses that run, and stops no loop of the worker."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from stepwell.model.commits import Applied, Commit, Move, Pause, Verdict
from stepwell.model.failures import encode_failure, record_failure, words_of
from stepwell.replay.bodies import Attempted, Body
from stepwell.worker.claim_state import ClaimState
from stepwell.worker.commits import Commits
from stepwell.worker.moves import defect_of
from stepwell.worker.run_logs import fields_of
from stepwell.worker.stops import Stop

_LOG = logging.getLogger("stepwell.worker")

P = ParamSpec("P")


class DefectOwner(Protocol):
    """What a defect needs from its execution."""

    def answered(self, applied: Applied) -> None: ...
    def body_ended(self, body: Body, attempted: Attempted | None) -> None: ...
    def abandon(self) -> None: ...
    def end(self, move: Move) -> None: ...


class Breakable(Protocol):
    """An object that handles a defect of its own."""

    def break_off(self, error: BaseException) -> None: ...


B = TypeVar("B", bound=Breakable)


def contained(method: Callable[Concatenate[B, P], None]) -> Callable[Concatenate[B, P], None]:
    """Decorates every entry point of an execution: an error of one run affects only that run."""

    @functools.wraps(method)
    def call(self: B, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  see above
            self.break_off(error)

    return call


class Defect:
    """The first defect of a claim. The run is paused with the reason."""

    __slots__ = ("_claim", "_commits", "_stop", "pause")

    def __init__(self, claim: ClaimState, commits: Commits, stop: Stop) -> None:
        self._claim = claim
        self._commits = commits
        self._stop = stop
        self.pause: Pause | None = None  # the next and last commit

    def pause_run(self, error: BaseException, owner: DefectOwner) -> bool:
        """Stop everything and pause the run. False if that failed, too: then the claim counts as lost."""
        claim, commits = self._claim, self._commits
        is_first = self.pause is None
        extra, words = fields_of(claim.run), f"{type(error).__name__}: {words_of(error)}"
        _LOG.error("run %s: internal error; it will be paused: %s", claim.run.run_id, words, extra=extra)
        try:
            self.pause = Pause(encode_failure(record_failure(defect_of(error))))
            claim.is_stopping = True
            owner.abandon()
            if not is_first:
                raise RuntimeError("pausing the run failed, too")
            if commits.sent is None:
                commits.pause(self.pause, owner.answered)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001  released like an unknown claim
            _LOG.exception("run %s could not be paused", claim.run.run_id, extra=extra)
            claim.is_over = True
            return False
        return True

    def answered(self, commit: Commit, applied: Applied, owner: DefectOwner) -> None:
        """The store has answered the last commit before the defect, or the pause. The claim is not lost."""
        assert self.pause is not None
        if applied.verdict is not Verdict.APPLIED:
            self.pause = None  # the run was cancelled or is late, which has priority
            self._stop.send_again(commit, applied.verdict, owner)
        elif commit.move is None:
            self._commits.pause(self.pause, owner.answered)
        else:
            owner.end(commit.move)
