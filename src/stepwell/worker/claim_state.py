"""The state of one claim: its run, its fence, its commits, and whether it is ending."""

from __future__ import annotations

from stepwell.clock import Instant
from stepwell.ids import Incarnation
from stepwell.model.runs import Claimed, Run
from stepwell.model.states import RunStatus
from stepwell.model.workers import Fence


class ClaimState:
    """The state that the parts of an execution share. It makes no decisions."""

    __slots__ = ("acknowledged", "fence", "is_leaving", "is_over", "is_stopping", "number", "run")

    def __init__(self, claimed: Claimed, incarnation: Incarnation) -> None:
        self.renew(claimed, incarnation)

    def renew(self, claimed: Claimed, incarnation: Incarnation) -> None:
        """The run was claimed, for the first time or again: commit numbers restart."""
        self.run: Run = claimed.run
        self.fence = Fence(incarnation, claimed.run.epoch)
        self.number = 0  # of the last commit sent
        self.acknowledged = 0  # the number of the last commit known to be durable
        self.is_stopping = claimed.run.status is RunStatus.CANCELLING  # the forward code does not continue
        self.is_leaving = False  # release the run between two steps
        self.is_over = False  # the claim has ended

    def is_past_deadline(self, now: Instant) -> bool:
        """Whether the deadline of the run has passed. A rollback has no deadline."""
        deadline = self.end_at
        return deadline is not None and deadline <= now

    @property
    def end_at(self) -> Instant | None:
        """The deadline of the whole run; None during a rollback."""
        run = self.run
        return None if run.status is RunStatus.COMPENSATING else run.deadline_at
