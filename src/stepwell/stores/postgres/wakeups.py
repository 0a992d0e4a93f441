"""Hints: our own after each commit, and those of other processes by LISTEN and NOTIFY."""

from __future__ import annotations

from stepwell.stores.base.wakeups import Hub


class PostgresWakeups(Hub):
    """A hub that also hears of other processes."""

    def open(self) -> None:
        """The store is open."""

    async def close(self) -> None:
        """Listen no more."""
