"""The code of one claim: its turn, and the messages that arrived while no code could receive them."""

from __future__ import annotations

import logging
from typing import Any

from stepwell.errors.records import FailureRecord
from stepwell.model.commits import Move
from stepwell.model.deadlines import deadline_exceeded
from stepwell.model.runs import Inbox, Run
from stepwell.model.states import RunStatus
from stepwell.replay.driver import begin_forward, begin_rollback, conclude
from stepwell.replay.journal import Journal
from stepwell.replay.mailbox import Mailbox
from stepwell.replay.turn import Turn
from stepwell.replay.workflows import Workflow
from stepwell.worker.moves import defect_of
from stepwell.worker.resources import Resources
from stepwell.worker.run_logs import fields_of

_LOG = logging.getLogger("stepwell.worker")


class Code:
    """Begins and tears down the turns of an owned run, and passes the inbox from one turn to the next."""

    __slots__ = ("_came", "_journal", "_left", "_resources", "inbox", "turn", "workflow")

    def __init__(self, workflow: Workflow[Any, Any], journal: Journal, inbox: Inbox, resources: Resources) -> None:
        self.workflow = workflow
        self._journal = journal
        self._resources = resources
        self.inbox = inbox  # of the next turn
        self._came: Inbox | None = None  # arrived while no code could receive it
        self._left: Mailbox | None = None  # not received by the code that was torn down
        self.turn: Turn | None = None

    def begin(self, run: Run) -> None:
        """Run the forward code or the rollback from the beginning, over the recorded history."""
        resources = self._resources
        codec, threads = resources.codec, resources.environment.executor.lockstep_threads
        if run.status is RunStatus.COMPENSATING:
            now = resources.now()
            self.turn = begin_rollback(self.workflow, run, self._journal, self.inbox, codec, now, threads)
        else:
            self.turn = begin_forward(self.workflow, run, self._journal, self.inbox, codec, threads)
        self.turn.registry = resources.registry

    def begin_rollback(self, run: Run) -> None:
        """Begin the rollback, with the messages that the forward code left, and with later ones."""
        left, came = self._left, self._came
        self._left = self._came = None
        if left is not None:
            if came is not None:
                left.receive(came)
            self.inbox = left.inbox
        elif came is not None:
            self.inbox = came
        self._journal.waits = {}
        self.begin(run)

    def resume(self, run: Run, inbox: Inbox) -> None:
        """The run was claimed again; its code is still where it was, unless it was torn down."""
        self.inbox, self._came = inbox, None
        if self.turn is not None:
            self.turn.resume(run, inbox)

    def keep(self, inbox: Inbox) -> None:
        """Keep messages for the rollback: the forward code receives nothing more."""
        self._came = inbox

    def diverge(self, turn: Turn, error: BaseException) -> None:
        """Pause this run after an internal error. Other runs continue."""
        run = turn.run
        _LOG.error("run %s: internal error; it will be paused", run.run_id, exc_info=error, extra=fields_of(run))
        turn.diverge(defect_of(error))

    def conclude(self, turn: Turn) -> Move:
        """The move to commit for code that has ended."""
        try:
            return conclude(turn, self.workflow)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  the result of the code cannot be recorded
            self.diverge(turn, error)
            return conclude(turn, self.workflow)

    def close(self) -> None:
        """Tear the code down."""
        turn, self.turn = self.turn, None
        if turn is not None:
            self._left = turn.mailbox
            try:
                turn.close()
            except KeyboardInterrupt:
                raise
            except BaseException:  # noqa: BLE001  nothing depends on the clean-up of the code
                run = turn.run
                _LOG.warning("run %s: its code raised in its clean-up", run.run_id, exc_info=True, extra=fields_of(run))

    def expire(self, run: Run) -> FailureRecord:
        """The failure of a run that missed its deadline, with the path where the code waits."""
        assert run.deadline_at is not None
        waits = [*self._journal.waits.values()] if self.turn is None else self.turn.waits.all
        return deadline_exceeded(run.deadline_at, self._journal.names.text(waits[0].location) if waits else "")
