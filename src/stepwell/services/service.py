"""The protocol of a service."""

from __future__ import annotations

from typing import Protocol

from stepwell.clock import Instant
from stepwell.engine.records import RecordKind


class Service(Protocol):
    """Acts on due records of some kinds. Every worker runs it, and the first change of a record wins: to a service, a
    record that another worker has changed is done.
    """

    @property
    def name(self) -> str:
        """How logs and `stepwell doctor` call it."""
        ...

    @property
    def kinds(self) -> tuple[RecordKind, ...]:
        """The kinds of records whose due times wake it."""
        ...

    async def run_once(self, now: Instant) -> Instant | None:
        """Do what is due at this time of the store; returns when it wants to run again even if no record is due.

        What it has acted on is not due any more. What `due` returned is due by the clock of the database: the time here
        may be a little earlier. If it leaves due records, it runs again after a second, then less often.
        """
        ...
