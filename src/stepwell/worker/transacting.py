"""Steps that run inside the commit of their result."""

from __future__ import annotations

from stepwell.logs import DOING
from stepwell.model.commits import Commit, Verdict
from stepwell.replay.bodies import Body, Raised, Recorded
from stepwell.replay.turn import Turn
from stepwell.stores.base.transactions import Performed
from stepwell.worker.keeping import Keeping
from stepwell.worker.owning import contained
from stepwell.worker.transactions import transact


class Transacting(Keeping):
    """Runs transactional steps, one at a time; the code stands still meanwhile."""

    def _begin_transaction(self, turn: Turn) -> bool:
        """Begin the step that is due first. Its commit takes along what is before it, so it has nothing to wait for."""
        self._due = [body for body in self._due if not body.is_unwanted]
        if not self._due or self._is_leaving or not self._host.lease.is_live():
            return False
        body = self._due.pop(0)
        self._number += 1
        self._sent = commit = self._addressed(self._journal.take(self._fence, self._number, turn.take_waits(), None))
        self._transacting = body
        self._running[body] = self._host.spawn_body(self._transact(body, commit))
        return True

    async def _transact(self, body: Body, commit: Commit) -> None:
        performed, recorded = await self._attempt_transaction(body, commit)
        self._transacting = None
        if not self._is_over:
            self._transacted(body, commit, performed, recorded)

    async def _attempt_transaction(self, body: Body, commit: Commit) -> tuple[Performed, Recorded | None]:
        observers, came = self._host.observers, None
        doing = DOING.set(body)
        marks = None if observers is None else observers.body(body)
        try:
            performed, recorded = await transact(self._host.transactions, body, commit, self._host.doubt)
            came = recorded if performed.error is None else Raised(performed.error)
            return performed, recorded
        finally:
            if observers is not None and marks is not None:
                observers.body_ended(body, marks, came)
            DOING.reset(doing)

    @contained
    def _transacted(self, body: Body, commit: Commit, performed: Performed, recorded: Recorded | None) -> None:
        applied = performed.applied
        if applied is None:
            # Nothing was written: what was to go along goes now.
            assert performed.error is not None
            self._send(commit)
            self._body_ended(body, Raised(performed.error))
        elif applied.verdict is Verdict.FENCED:
            self._answered(applied)
        elif applied.verdict is Verdict.CANCELLING:
            # A cancel came first, and the body was not run; the answer to this commit says so again.
            self._running.pop(body, None)
            self._send(commit)
        else:
            assert recorded is not None
            self._sent = None
            self._acknowledge()
            self._is_leaving |= applied.held
            self._journal.adopt(recorded.entry)
            if applied.cancelling and not self._is_stopping:
                self._begin_stop()
            self._body_ended(body, recorded)
