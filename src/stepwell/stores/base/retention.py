"""Deleting what nobody needs any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from stepwell.clock import Instant
from stepwell.ids import RunId
from stepwell.model.retention import Ended, RunFacts, Swept, Tree

Part = Literal["events", "signals"]


class RetentionStore(Protocol):
    """Transitions that delete, and the reads that they are planned from."""

    async def list_ended(self, *, before: Instant, limit: int, after: Ended | None = None) -> list[RunFacts]:
        """At most `limit` runs that ended before an instant, the longest ended first, after one of an earlier page."""
        ...

    async def list_relatives(self, run_ids: Sequence[RunId], parents: Sequence[RunId]) -> list[RunFacts]:
        """The runs with these ids, and the children of these parents. Ids without a run are left out."""
        ...

    async def prune(
        self, trees: Sequence[Tree], *, is_erasure: bool = False, by: str = "", reason: str = ""
    ) -> list[bool]:
        """Delete trees with everything that belongs to their runs, each completely or not at all, in one transaction.
        Returns which were deleted.

        A tree is left as it is if one of its runs, or a witness, has another end than named, or none; or if a sink is
        owed an event of a run, a run refused a signal that is kept, or has an open record. An erasure also deletes
        such events, signals and records, and leaves a line for each run in the acts on its workflow, without a value.
        """
        ...

    async def sweep(self, part: Part, *, before: Instant, after: int, limit: int) -> Swept:
        """Look at `limit` rows of a table with numbers above `after`, and delete what is not needed any more.

        "events": events that no topic keeps, no inbox holds, and whose ids need not be known any more; `before` has no
        effect. "signals": signals without a dedup key that their runs consumed, and that were sent before then.
        """
        ...

    async def has_old_blobs(self, *, before: Instant) -> bool:
        """Whether a payload that is stored by its hash was stored (or put again) before then."""
        ...

    async def sweep_blobs(self, *, before: Instant, slack: int) -> int:
        """Delete the payloads stored by hash that no row refers to, and that were last put before `before`, and
        `slack` microseconds before the start of every run that a worker has now. Returns how many.

        One read of all rows. A run that a worker has may be about to write a reference; what it put, or found known, is
        newer than its start less `slack`.
        """
        ...
