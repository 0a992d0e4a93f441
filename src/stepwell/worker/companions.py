"""Companions: loops that run beside a worker, as long as it lives, and know nothing of its parts."""

from __future__ import annotations

from typing import Protocol


class Companion(Protocol):
    """A loop that the worker supervises."""

    @property
    def name(self) -> str:
        """How the log calls it."""
        ...

    def wake(self) -> None:
        """A record may be due earlier than before, or anything may have changed."""
        ...

    async def serve(self) -> None:
        """Work until it is cancelled."""
        ...
