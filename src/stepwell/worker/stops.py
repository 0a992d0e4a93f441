"""How the forward code of one claim is stopped: by a cancel, or because the run is late."""

from __future__ import annotations

from typing import Protocol

from stepwell.errors.records import FailureRecord
from stepwell.model.commits import Applied, Commit, Verdict
from stepwell.replay.bodies import Attempted, Body
from stepwell.replay.journal import Journal
from stepwell.worker.bodies import Bodies
from stepwell.worker.claim_state import ClaimState
from stepwell.worker.code import Code
from stepwell.worker.commits import Commits
from stepwell.worker.moves import stop_move
from stepwell.worker.transactions import Transactions


class StopOwner(Protocol):
    """What stopping needs from its execution."""

    def answered(self, applied: Applied) -> None: ...
    def body_ended(self, body: Body, attempted: Attempted | None) -> None: ...


class Stop:
    """Stops the forward code: the results of running bodies are recorded, and the run ends or rolls back.

    Like `Commits`, it gets its execution with each call and keeps no reference to it.
    """

    __slots__ = ("_bodies", "_claim", "_code", "_commits", "_failure", "_journal", "_transactions")

    def __init__(
        self,
        claim: ClaimState,
        journal: Journal,
        code: Code,
        commits: Commits,
        bodies: Bodies,
        transactions: Transactions,
    ) -> None:
        self._claim = claim
        self._journal = journal
        self._code = code
        self._commits = commits
        self._bodies = bodies
        self._transactions = transactions
        self._failure: FailureRecord | None = None  # why, unless it is a cancel

    def begin(self, owner: StopOwner, failure: FailureRecord | None = None) -> None:
        """Start no further body, and wait for bodies that cannot be stopped. `failure` is for a run that is late."""
        self._failure = failure
        self._claim.is_stopping = True
        self._bodies.held.clear()
        self._transactions.due.clear()
        self._bodies.stop(owner.body_ended, but=self._transactions.running)
        if not self._bodies.running:
            self.finish(owner)

    def finish(self, owner: StopOwner) -> None:
        """No body runs: record the results, and leave the forward code."""
        if self._commits.sent is not None:
            return  # its answer calls this again
        self._code.close()
        self._commits.submit(owner.answered, stop_move(self._journal, self._failure))

    def send_again(self, commit: Commit, verdict: Verdict, owner: StopOwner) -> None:
        """The store wrote nothing of this commit, because a cancel or the deadline came first.

        The same commit is sent again with the move of the cancel, or with the failure of code that ended too late.
        """
        self._claim.is_stopping = True
        self._failure = None if verdict is Verdict.CANCELLING else self._code.expire(self._claim.run)
        self._code.close()
        self._commits.send_again(commit, stop_move(self._journal, self._failure), owner.answered)

    def forget(self) -> None:
        """The run was claimed again, or rolls back now."""
        self._failure = None
