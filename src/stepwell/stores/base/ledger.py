"""What servers remember beside the runs: each method is one atomic transition, or one read."""

from __future__ import annotations

from typing import Protocol

from stepwell.model.ledger import ACT_LAST, Act, ChainHead, NewAct, Reservation, Reserved


class LedgerStore(Protocol):
    """Keys of requests that must not happen twice, and the audit. Any number of servers may write at once."""

    async def reserve(self, reservation: Reservation) -> Reserved:
        """What stands under the key from now on: this, or what was reserved before and is still kept.

        Reservations whose `kept_until` has come are gone.
        """
        ...

    async def settle(self, scope: str, key: str, answer: str) -> None:
        """What was reserved is done, and this is its answer. Nothing if it is gone. Repeating it is harmless."""
        ...

    async def note(self, act: NewAct) -> Act:
        """Append a line to the audit: the number after the last one, the store's time, and the hash that follows from
        the line before.

        Repeating it, with the same request and outcome, answers with the line that is there.
        """
        ...

    async def list_acts(self, *, limit: int, below: int = ACT_LAST) -> list[Act]:
        """Lines with numbers below this, newest first."""
        ...

    async def head(self) -> ChainHead:
        """What was appended last, as the store remembers it apart from the lines."""
        ...
