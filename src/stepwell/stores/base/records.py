"""Records: changes with their consequences, and what is due."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from stepwell.clock import Instant, Span
from stepwell.model.records import Changed, Record, RecordChange, RecordEvent, RecordFilter
from stepwell.model.workers import Claimant


class RecordStore(Protocol):
    """Transitions and listings of records. Commits open and close them too (`Commit.opened`, `Commit.closed`)."""

    async def change(self, changes: Sequence[RecordChange], claimant: Claimant | None = None) -> list[Changed]:
        """Apply each change completely or not at all, in order, in one transaction; a stale one does not affect others.

        A change whose `change_id` is known answers CHANGED with the version that it made, and writes nothing. Otherwise
        it is STALE unless the record has the version `expected`, open or closed. An applied change replaces the record,
        except its run and location; sets its version to `expected` + 1; keeps `created_at`, sets `updated_at` to now;
        drops the due time of a closed record; and appends the events.
        Its runs are created as by `RunStore.create`: a start whose id or key is taken creates nothing, without an
        effect on the others and on the change. Then its signals are delivered as by `SignalStore.deliver`, except that
        none is lost: see `RecordChange.signals`. Both may claim runs for the claimant, all changes together at most its
        limit.
        Raises `ValueError` for a change that `model.records.check_change` rejects, and `AlreadyExistsError` as `create`
        does; nothing of the call is written then.
        A change that makes a due time earlier, or adds one, sends a hint (`DUE`).
        """
        ...

    async def due(self, kinds: Collection[str], *, limit: int) -> list[Record]:
        """The open records of these kinds whose due time has come, longest due first (of equals, the lowest number).
        One index look-up for each kind; writes nothing. A row that cannot be read is a `DamagedRecord`.
        """
        ...

    async def next_due(self, kinds: Collection[str]) -> Instant | None:
        """The earliest due time of an open record of these kinds. One index look-up for each kind; writes nothing."""
        ...

    async def prune(self, kind: str, *, older_than: Span, limit: int) -> int:
        """Delete at most `limit` records of a kind that are closed and were last changed longer ago than this, with
        their events, oldest first. Returns how many.
        """
        ...

    # --- reads; a text that no store can hold finds nothing ---

    async def find(self, kind: str, record_id: str) -> Record | None:
        """The record, open or closed. Raises `CorruptRecordError` if it cannot be read."""
        ...

    async def list_records(self, where: RecordFilter, *, limit: int, after: Record | None = None) -> list[Record]:
        """At most `limit` records in the filter's order, after the record `after` of an earlier page, which may have
        changed since. In the order "due", an `after` without a due time gives an empty list. A row that cannot be read
        is a `DamagedRecord`. The first page of one label costs what its rows cost, however many records there are.
        """
        ...

    async def count(self, where: RecordFilter, *, limit: int) -> int:
        """How many records match; the count stops at `limit`."""
        ...

    async def list_events(
        self, kind: str, record_id: str, *, limit: int, before: int | None = None
    ) -> list[RecordEvent]:
        """The last events of a record, newest first, with numbers below `before`."""
        ...
