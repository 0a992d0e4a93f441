"""The records of servers: idempotency keys and the audit. Each method is one atomic transition, or one read."""

from __future__ import annotations

from typing import Protocol

from stepwell.model.ledger import ACT_LAST, Act, ChainHead, NewAct, Reservation, Reserved


class LedgerStore(Protocol):
    """Keys of requests that must not happen twice, and the audit. Any number of servers may write concurrently."""

    async def reserve(self, reservation: Reservation) -> Reserved:
        """Reserve a key. Returns what is stored under it: this reservation, or an earlier one if it is still kept.

        Reservations are deleted when their `kept_until` has come.
        """
        ...

    async def settle(self, scope: str, key: str, answer: str) -> None:
        """Store the answer to a reserved request. Does nothing if the reservation is gone. Repeating it is harmless."""
        ...

    async def note(self, act: NewAct) -> Act:
        """Append a line to the audit, with the next number, the store's time, and a hash that includes the hash of the
        previous line.

        Repeating it with the same request and outcome returns the line that exists.
        """
        ...

    async def list_acts(self, *, limit: int, below: int = ACT_LAST) -> list[Act]:
        """Lines with numbers below `below`, newest first."""
        ...

    async def head(self) -> ChainHead:
        """The last appended line, which the store records separately from the lines."""
        ...
