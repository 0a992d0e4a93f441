"""One transition: it keeps the indexes, remembers how to undo itself, and collects hints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from heapq import heappush
from typing import Any, TypeVar

from stepwell.clock import Instant
from stepwell.ids import RunId
from stepwell.model.states import TERMINAL, RunStatus, WaitKind, check_move
from stepwell.model.waits import Wait
from stepwell.stores.base.wakeups import Hint, HintKind
from stepwell.stores.memory.database import EventRow, MemoryDatabase, OpenWait, ReceiptRow, RunRow, SignalRow

K = TypeVar("K")
V = TypeVar("V")

_STOPPED = TERMINAL | {RunStatus.PAUSED, RunStatus.COMPENSATION_FAILED}


class Transaction:
    """Every write to the database goes through here, so a transition that raises leaves no trace."""

    def __init__(self, database: MemoryDatabase, now: Instant) -> None:
        self.db = database
        self.now = now
        self._undo: list[Callable[[], object]] = []
        self._hints: dict[HintKind, dict[RunId, None]] = {}

    def put(self, table: dict[K, V], key: K, value: V) -> None:
        """Insert or replace."""
        if key in table:
            self._undo.append(partial(table.__setitem__, key, table[key]))
        else:
            self._undo.append(partial(table.pop, key))
        table[key] = value

    def drop(self, table: dict[K, V], key: K) -> None:
        """Delete, if it is there."""
        if key in table:
            self._undo.append(partial(table.__setitem__, key, table.pop(key)))

    def drop_all(self, table: dict[K, V], keys: Iterable[K]) -> None:
        """Delete several."""
        for key in tuple(keys):
            self.drop(table, key)

    def change(self, row: RunRow, **fields: Any) -> None:
        """Set fields of a run, keep the indexes, and note whom it concerns."""
        if "status" in fields:
            check_move(row.status, fields["status"])
        self._index_key(row, fields)
        if "owner" in fields:
            self._index_owner(row, fields)
        if "waits" in fields:
            self._index_topics(row, fields["waits"])
        self._assign(row, fields)
        if fields.get("wake_at") is not None:
            self.make_ready(row)
        if fields.get("status") in _STOPPED:
            self.hint(HintKind.ENDED, row)

    def move_signal(self, row: SignalRow, mailbox: tuple[str, str]) -> None:
        """Put a pending signal into another mailbox."""
        self.drop(self.db.mailboxes[row.mailbox], row.number)
        if row.dedup_key is not None:
            self.drop(self.db.dedup, (row.mailbox, row.name, row.dedup_key))
            self.put(self.db.dedup, (mailbox, row.name, row.dedup_key), row)
        self._assign(row, {"mailbox": mailbox})
        self.put(self.db.mailboxes[mailbox], row.number, row)

    def put_receipt(self, receipt: ReceiptRow) -> None:
        """A run gets an event."""
        self.put(self.db.receipts[receipt.run_id], receipt.event.number, receipt)
        self.put(self.db.receivers[receipt.event.number], receipt.run_id, receipt)

    def drop_receipt(self, receipt: ReceiptRow) -> None:
        """A run has an event no more."""
        self.drop(self.db.receipts[receipt.run_id], receipt.event.number)
        self.drop(self.db.receivers[receipt.event.number], receipt.run_id)

    def assign(self, row: EventRow | ReceiptRow | SignalRow, **fields: Any) -> None:
        """Set fields of an event, a receipt or a signal."""
        self._assign(row, fields)

    def make_ready(self, row: RunRow) -> None:
        """List a run under its `wake_at`."""
        if row.wake_at is not None:
            heappush(self.db.ready[row.definition].setdefault(row.priority, []), (row.wake_at, row.run_id))
            self.hint(HintKind.READY, row)

    def hint(self, kind: HintKind, row: RunRow) -> None:
        """Note what to tell when this is done."""
        self._hints.setdefault(kind, {})[row.run_id] = None

    def unhint(self, kind: HintKind, run_id: RunId) -> None:
        """What was to be told of a run is no news any more."""
        runs = self._hints.get(kind, {})
        runs.pop(run_id, None)
        if not runs:
            self._hints.pop(kind, None)

    def hints(self) -> list[Hint]:
        """What to tell."""
        return [Hint(kind, tuple(runs)) for kind, runs in self._hints.items()]

    def roll_back(self) -> None:
        """Undo everything, last first."""
        while self._undo:
            self._undo.pop()()

    def _assign(self, row: RunRow | SignalRow | EventRow | ReceiptRow, fields: dict[str, Any]) -> None:
        if isinstance(row, RunRow):
            # Runs last when undone: the heap may have dropped the item as outdated in the meantime.
            self._undo.append(partial(self.make_ready, row))
        for name, value in fields.items():
            self._undo.append(partial(setattr, row, name, getattr(row, name)))
            setattr(row, name, value)

    def _index_key(self, row: RunRow, fields: dict[str, Any]) -> None:
        """Whether the run holds its key from now on, or is a debounced start of it."""
        if row.key is None:
            return
        is_active = fields.get("status", row.status) not in TERMINAL
        is_debounced = fields.get("debounced_until", row.debounced_until) is not None
        is_holder = is_active and not is_debounced and fields.get("replaced_by", row.replaced_by) is None
        for table, belongs in ((self.db.active_keys, is_holder), (self.db.debounced, is_active and is_debounced)):
            if not belongs:
                if table.get(row.key) is row:
                    self.drop(table, row.key)
            elif row.key not in table:
                self.put(table, row.key, row)

    def _index_topics(self, row: RunRow, waits: tuple[Wait, ...]) -> None:
        """A wait that stays is open or not as it was; what goes is closed, and what comes is open."""
        for wait in row.waits:
            if wait.kind is WaitKind.TOPIC and wait not in waits:
                self.drop(self.db.open_waits[wait.names[0]], (row.run_id, wait.location))
        for wait in waits:
            if wait.kind is WaitKind.TOPIC and wait not in row.waits:
                self.db.waits_opened += 1
                opened = OpenWait(self.db.waits_opened, row, wait)
                self.put(self.db.open_waits[wait.names[0]], (row.run_id, wait.location), opened)

    def _index_owner(self, row: RunRow, fields: dict[str, Any]) -> None:
        if row.owner is not None:
            self.drop(self.db.owned[row.owner], row.run_id)
        if fields["owner"] is not None:
            self.put(self.db.owned[fields["owner"]], row.run_id, row)
