"""What was sent to an owned run while none of its code could take it."""

from __future__ import annotations

from stepwell.model.runs import Inbox
from stepwell.replay.turn import Turn


class Mailbox:
    """The inbox of one claim, and what has come since."""

    __slots__ = ("_came", "_left", "claimed")

    def __init__(self, claimed: Inbox) -> None:
        self.claimed = claimed  # as it was when the run was claimed
        self._came: Inbox | None = None  # came while no code could get it
        self._left: Turn | None = None  # the forward code, torn down: it knows what is left

    def renew(self, claimed: Inbox) -> None:
        """The run was claimed again."""
        self.claimed, self._came = claimed, None

    def keep(self, inbox: Inbox) -> None:
        """The forward code gets nothing any more; a compensation may."""
        self._came = inbox

    def leave(self, turn: Turn) -> None:
        """The code of this turn was torn down."""
        self._left = turn

    def take(self) -> Inbox:
        """The inbox as the code left it, with what has come since. It is for the code that comes next."""
        left, came = self._left, self._came
        self._left = self._came = None
        if left is None:
            return self.claimed if came is None else came
        if came is not None:
            left.mailbox.receive(came)
        return left.mailbox.inbox
