"""The commits of one claim: at most one is in flight; the next one carries what the run does meanwhile."""

from __future__ import annotations

from stepwell.model.commits import Commit, End, Move, Pause
from stepwell.model.states import KEEPS_CURSORS
from stepwell.model.waits import Wait
from stepwell.replay.journal import Journal
from stepwell.sinks.routes import Routes
from stepwell.worker.answers import Answer
from stepwell.worker.claim_state import ClaimState
from stepwell.worker.committer import Committer


class Commits:
    """Makes and numbers the commits of one claim, and knows the commit in flight.

    It keeps no reference to its execution: each call passes the callback for the answer. So a run that has ended is
    freed at once, without the garbage collector.
    """

    __slots__ = ("_claim", "_committer", "_journal", "_routes", "sent")

    def __init__(self, claim: ClaimState, journal: Journal, committer: Committer, routes: Routes) -> None:
        self._claim = claim
        self._journal = journal
        self._committer = committer
        self._routes = routes
        self.sent: Commit | None = None  # the commit in flight

    def take(self, move: Move | None, waits: tuple[Wait, ...] | None) -> Commit:
        """Everything that is not committed yet, as the next commit. The caller sends it."""
        claim, routes = self._claim, self._routes
        number = claim.number + 1
        commit = self._journal.take(claim.fence, number, waits, move)
        if commit.emits or routes.announce is not None:
            commit = routes.address(commit)
        claim.number = number  # not earlier: numbers must have no gaps, even if making the commit fails
        return commit

    def submit(self, answer: Answer, move: Move | None, waits: tuple[Wait, ...] | None = None) -> None:
        """Commit everything that is not committed yet."""
        self.send(self.take(move, waits), answer)

    def send(self, commit: Commit, answer: Answer) -> None:
        """Send a commit that has its number already."""
        left = self._journal.progress
        if left and isinstance(commit.move, End) and commit.move.status not in KEEPS_CURSORS:
            commit = commit._replace(progress=(), ended_progress=(*commit.ended_progress, *left))
        self.sent = commit
        self._committer.submit(commit, answer)

    def send_again(self, commit: Commit, move: Move, answer: Answer) -> None:
        """The store wrote nothing of this commit: send it again with another move, and without waits."""
        self.send(commit._replace(move=move, waits=None), answer)

    def pause(self, pause: Pause, answer: Answer) -> None:
        """Pause the run, without what it did since the last commit."""
        claim = self._claim
        claim.number += 1
        self.sent = Commit(claim.run.run_id, claim.fence, claim.number, move=pause)
        self._committer.submit(self.sent, answer)
