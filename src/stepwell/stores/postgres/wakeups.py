"""Hints: our own after each commit, and those of other processes by LISTEN and NOTIFY."""

from __future__ import annotations

from stepwell.stores.base.wakeups import Hint, Hub


class PostgresWakeups(Hub):
    """A hub that also hears of other processes."""

    def tell_own(self, hint: Hint) -> None:
        """Something was committed here."""
        self.tell(hint)

    def open(self) -> None:
        """The store is open."""

    async def close(self) -> None:
        """Listen no more."""
