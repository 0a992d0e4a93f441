"""Reads what a database holds, as packed items."""

from __future__ import annotations

from collections.abc import Iterator

import apsw
import msgspec

from stepwell.ids import RunId
from stepwell.model.holds import HoldAct, WorkflowHold
from stepwell.model.ledger import Act, ChainHead, Reservation
from stepwell.model.live import ChunkKind, Published
from stepwell.model.locations import Location
from stepwell.model.outbox import Owed
from stepwell.model.records import Record, RecordEvent
from stepwell.model.signals import ReplyStatus
from stepwell.stores.base.packed_items import (
    HighestNumbers,
    MarkedItems,
    OpenWait,
    PackedBlob,
    PackedChunk,
    PackedEvent,
    PackedReceipt,
    PackedRecordEvent,
    PackedReply,
    PackedRun,
    PackedSignal,
)
from stepwell.stores.base.transfers import Manifest
from stepwell.stores.base.views import Audit
from stepwell.stores.sqlite.histories import read_history
from stepwell.stores.sqlite.records import read_record
from stepwell.stores.sqlite.rows import decode_texts, to_owed, to_run
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Row, row_of, rows_of
from stepwell.stores.sqlite.transitions.holds import list_acts, list_holds
from stepwell.stores.sqlite.transitions.ledger import read_head


def manifest(connection: apsw.Connection) -> Manifest:
    """How much the database holds."""
    row = row_of(connection, "transfers.count")
    assert row is not None
    return Manifest(*row)


class Packer:
    """Packs a sealed database, row by row."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    @property
    def highest(self) -> HighestNumbers:
        """The highest numbers that were assigned."""
        row = row_of(self._connection, "transfers.find_highest")
        assert row is not None
        return HighestNumbers._make(row)

    @property
    def holds(self) -> tuple[WorkflowHold, ...]:
        """The paused workflows."""
        return tuple(list_holds(self._connection))

    @property
    def hold_acts(self) -> tuple[HoldAct, ...]:
        """The acts that paused and resumed workflows."""
        return tuple(reversed(list_acts(self._connection, -1)))

    @property
    def head(self) -> ChainHead:
        """The last line of the audit."""
        return read_head(self._connection)

    def list_items(self, kind: str, key: str) -> MarkedItems:
        """The items of one kind after a key."""
        match kind:
            case "blobs":
                for hashed, content in self._rows("list_blobs", after=bytes.fromhex(key)):
                    yield hashed.hex(), PackedBlob(hashed.hex(), content)
            case "events":
                for row in self._rows("list_events", after=int(key or 0)):
                    yield str(row[0]), to_packed_event(row)
            case "runs":
                for (run,) in self._rows("list_runs", after=int(key or 0)):
                    yield str(run), self.run(run)
            case "chunks":
                run, stream, offset = msgspec.json.decode(key or '[0,"",0]', type=tuple[int, str, int])
                for row in self._rows("list_chunks", run=run, stream=stream, offset=offset):
                    yield msgspec.json.encode((row[7], row[1], row[2])).decode(), to_packed_chunk(row[:7])
            case "signals":
                for row in self._rows("list_signals", after=int(key or 0)):
                    yield str(row[0]), to_packed_signal(row)
            case "owed":
                for row in self._rows("list_owed", after=int(key or 0)):
                    yield str(row[0]), to_owed(row)
            case "records":
                for (number,) in self._rows("list_records", after=int(key or 0)):
                    yield str(number), self.find_record(number)
            case "record_events":
                record, number = msgspec.json.decode(key or "[0,0]", type=tuple[int, int])
                for row in self._rows("list_record_events", record=record, number=number):
                    yield msgspec.json.encode(row[:2]).decode(), to_packed_record_event(row)
            case "requests":
                scope, of = msgspec.json.decode(key, type=tuple[str, str]) if key else ("", "")
                for row in self._rows("list_requests", scope=scope, key=of):
                    yield msgspec.json.encode(row[:2]).decode(), Reservation._make(row)
            case _:
                for row in self._rows("list_acts", after=int(key or 0)):
                    yield str(row[0]), Act._make(row)

    def _rows(self, statement: str, **parameters: object) -> Iterator[Row]:
        cursor = self._connection.execute(SQL[f"transfers.{statement}"], parameters)
        try:
            yield from cursor
        finally:
            cursor.close()

    def run(self, run: int) -> PackedRun:
        """A run by its number."""
        connection = self._connection
        row = row_of(connection, "runs.read", id=run)
        rest = row_of(connection, "transfers.read_run", run=run)
        assert row is not None
        assert rest is not None
        packed = to_run(row)
        receipts = rows_of(connection, "transfers.list_receipts", run=run)
        published = rows_of(connection, "live.list_published", run_id=packed.run_id)
        return PackedRun(
            packed,
            rest[0],
            bool(rest[1]),
            read_history(connection, run),
            tuple(OpenWait._make(one) for one in rows_of(connection, "transfers.list_open_waits", run=run)),
            tuple(
                PackedReceipt(number, event_id, decode_locations(places), bool(is_read))
                for number, event_id, places, is_read in receipts
            ),
            tuple(Published._make(one) for one in published),
            tuple(Audit._make(one) for one in rows_of(connection, "audit.list", run_id=packed.run_id)),
        )

    def find_run(self, run_id: RunId) -> PackedRun | None:
        """A run by its id."""
        row = row_of(self._connection, "transfers.find_run", run_id=run_id)
        return None if row is None else self.run(row[0])

    def find_event(self, event_id: str) -> PackedEvent | None:
        """An event by its id."""
        row = row_of(self._connection, "transfers.find_event", event_id=event_id)
        return None if row is None else to_packed_event(row)

    def find_signal(self, signal_id: str) -> PackedSignal | None:
        """A signal by its id."""
        row = row_of(self._connection, "transfers.find_signal", signal_id=signal_id)
        return None if row is None else to_packed_signal(row)

    def find_chunk(self, run_id: RunId, stream: str, offset: int) -> PackedChunk | None:
        """A line of a stream."""
        row = row_of(self._connection, "transfers.find_chunk", run_id=run_id, stream=stream, offset=offset)
        return None if row is None else to_packed_chunk(row)

    def find_owed(self, number: int) -> Owed | None:
        """The outbox row with a number."""
        row = row_of(self._connection, "transfers.find_owed", number=number)
        return None if row is None else to_owed(row)

    def find_record(self, number: int) -> Record | None:
        """The record with a number."""
        return read_record(self._connection, number)

    def find_record_event(self, record: int, number: int) -> PackedRecordEvent | None:
        """A line of the history of a record."""
        row = row_of(self._connection, "transfers.find_record_event", record=record, number=number)
        return None if row is None else to_packed_record_event(row)

    def find_request(self, scope: str, key: str) -> Reservation | None:
        """The reservation of an idempotency key."""
        row = row_of(self._connection, "transfers.find_request", scope=scope, key=key)
        return None if row is None else Reservation._make(row)

    def find_act(self, number: int) -> Act | None:
        """A line of the audit."""
        row = row_of(self._connection, "transfers.find_act", number=number)
        return None if row is None else Act._make(row)


def decode_locations(stored: str) -> tuple[Location, ...]:
    """A list of locations from JSON."""
    return tuple(Location(bytes.fromhex(place)) for place in decode_texts(stored))


def to_packed_event(row: Row) -> PackedEvent:
    """An event from its row."""
    number, event_id, topic, payload, facets, deliver, published_at, kept_until, is_taken, reached, forget_at = row
    times = (published_at, kept_until, bool(is_taken), reached, forget_at)
    return PackedEvent(number, event_id, topic, payload, decode_texts(facets), deliver, *times)


def to_packed_signal(row: Row) -> PackedSignal:
    """A signal from its row, with the reply if there is one."""
    number, signal_id, run_id, key, name, dedup_key, payload, sent_at, asks, refused, by, status, value, at = row
    reply = None if status is None else PackedReply(ReplyStatus(status), value, at)
    what = (name, dedup_key, payload, sent_at, bool(asks), refused, by)
    return PackedSignal(number, signal_id, run_id, key, *what, reply)


def to_packed_record_event(row: Row) -> PackedRecordEvent:
    """A line of the history of a record from its row."""
    record, *event, change_id = row
    return PackedRecordEvent(record, RecordEvent._make(event), change_id)


def to_packed_chunk(row: Row) -> PackedChunk:
    """A line of a stream from its row."""
    run_id, stream, offset, kind, source, part, value = row
    return PackedChunk(run_id, stream, offset, ChunkKind(kind), source, part, value)
