"""Claiming runs, and freeing them."""

from __future__ import annotations

from stepwell.clock import Span
from stepwell.errors import CorruptRecordError
from stepwell.ids import Incarnation, RunId
from stepwell.model.runs import Claimed, Inbox
from stepwell.model.starts import postponed_to
from stepwell.model.states import RunStatus
from stepwell.model.workers import Claimant
from stepwell.stores.base.damage import salvage_claimed
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.base.workers import lease_lost
from stepwell.stores.sqlite.histories import read_arrived_outcomes, read_events, read_signals
from stepwell.stores.sqlite.rows import encode_texts, readable_values, to_run
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Row, Transaction
from stepwell.stores.sqlite.transitions.holds import served

_FIND_LIVE = SQL["workers.find_live"]
_CLAIM = SQL["runs.claim"]
_READ = SQL["runs.read"]
_READ_CLAIMED = SQL["runs.read_claimed"]
_PARKED = frozenset({RunStatus.WAITING.value, RunStatus.COMPENSATING.value})


class Quota:
    """How many runs a claimant may still take within one transition."""

    def __init__(self, tx: Transaction, claimant: Claimant | None) -> None:
        self._tx = tx
        found: Row | None = None
        if claimant is not None:
            found = tx.execute(_FIND_LIVE, (claimant.incarnation, tx.now)).fetchone()
        self._owner: int | None = None if found is None else found[0]
        self._has_priorities = found is not None and bool(found[1])
        self._left = 0 if claimant is None or self._owner is None else claimant.limit
        self._definitions = () if claimant is None else claimant.definitions
        if found is not None and found[2]:
            self._definitions = served(tx.connection, self._definitions)

    def reserve(self, definition: str, priority: int) -> int | None:
        """The worker's number, if it may take another run of this definition and none that is more urgent is due."""
        if self._left <= 0 or definition not in self._definitions:
            return None
        if (self._has_priorities or priority) and self._is_overtaking(priority):
            return None
        self._left -= 1
        return self._owner

    def _is_overtaking(self, priority: int) -> bool:
        served = encode_texts(self._definitions)
        found = self._tx.find("definitions.find_more_urgent", priority=priority, definitions=served, now=self._tx.now)
        return found is not None

    def take(self, run: int) -> Claimed | None:
        """Claim a run that was made due, if it is still due, the claimant serves it and the limit allows."""
        if self._left <= 0:
            return None
        try:
            row = self._tx.execute(_READ, (run,)).fetchone()
            assert row is not None
            found = to_run(row)
        except (CorruptRecordError, UnicodeDecodeError):
            return None  # it stays due; the worker that claims it pauses it
        if found.wake_at is None or found.wake_at > self._tx.now:
            return None  # a later part of the same transition ended it
        owner = self.reserve(found.definition, found.priority)
        if owner is None:
            return None
        self._tx.unhint(HintKind.READY, found.run_id)  # no worker need look for it
        return claim_run(self._tx, run, owner)


def begin(tx: Transaction, run: int) -> bool:
    """Give a debounced run its key. False if another run has the key; the end of that run wakes this one."""
    found = tx.find("runs.find_key", id=run)
    assert found is not None
    key, until = found
    if tx.find("runs.find_active_of_key", key=key) is not None:
        tx.run("runs.postpone", id=run, wake_at=postponed_to(tx.now, until))
        return False
    tx.run("runs.begin_debounced", id=run)
    tx.run("signals.drop_held_duplicates", run=run, key=key)
    tx.run("signals.take_over_held", run=run, key=key)
    return True


def find_live(tx: Transaction, incarnation: Incarnation) -> int | None:
    """The number of a worker with a live lease."""
    row = tx.execute(_FIND_LIVE, (incarnation, tx.now)).fetchone()
    return None if row is None else int(row[0])


def claim(tx: Transaction, claimant: Claimant) -> list[Claimed]:
    """Claim the most urgent runs; among equals, the runs that have been due longest."""
    found = tx.execute(_FIND_LIVE, (claimant.incarnation, tx.now)).fetchone()
    if found is None:
        raise lease_lost(claimant.incarnation)
    owner, _, are_any_held = found
    if are_any_held:
        claimant = claimant._replace(definitions=served(tx.connection, claimant.definitions))
    claimed: list[Claimed] = []
    lanes = _find_lanes(tx, claimant)
    for priority in sorted({one for one, _ in lanes}, reverse=True):
        if len(claimed) < claimant.limit:
            numbers = [number for one, number in lanes if one == priority]
            claimed += _claim_due(tx, numbers, owner, claimant.limit - len(claimed))
    if claimant.ahead and len(claimed) < claimant.limit:
        claimed += _claim_soon(tx, lanes, owner, claimant.limit - len(claimed), claimant.ahead)
    return claimed


def _find_lanes(tx: Transaction, claimant: Claimant) -> list[tuple[int, int]]:
    """The definitions that a claimant serves, as pairs of priority and number."""
    lanes: list[tuple[int, int]] = []
    for definition in set(claimant.definitions):
        workflow, _, version = definition.rpartition("@")
        if version.isdecimal():
            lanes += tx.rows("definitions.list_lanes", workflow=workflow, version=int(version))
    return lanes


def _claim_due(tx: Transaction, definitions: list[int], owner: int, limit: int) -> list[Claimed]:
    claimed: list[Claimed] = []
    is_complete = False
    while not is_complete:
        is_complete = True
        for _, run, debounced_until in _list_due(tx, definitions, limit - len(claimed)):
            if debounced_until is None or begin(tx, run):
                claimed.append(claim_run(tx, run, owner))
            else:
                is_complete = False  # it was not claimed, so another run of this priority may be
    return claimed


def _list_due(tx: Transaction, definitions: list[int], limit: int) -> list[Row]:
    due: list[Row] = []
    for definition in definitions:
        due += tx.rows("runs.list_due", definition=definition, now=tx.now, limit=limit)
    return sorted(due, key=_by_time)[:limit]


def _claim_soon(tx: Transaction, lanes: list[tuple[int, int]], owner: int, limit: int, ahead: Span) -> list[Claimed]:
    """Claim waiting runs that will be due soon, most urgent first."""
    soon: list[tuple[int, int, int]] = []
    for priority, definition in lanes:
        rows = tx.rows("runs.list_soon", definition=definition, now=tx.now, until=tx.now + ahead, limit=limit)
        soon += [(-priority, wake_at, run) for wake_at, run in rows]
    return [claim_run(tx, run, owner) for _, _, run in sorted(soon)[:limit]]


def _by_time(row: Row) -> Row:
    return row[:2]


def claim_run(tx: Transaction, run: int, owner: int) -> Claimed:
    """Make a worker the owner of a run, under a new epoch."""
    tx.write(_CLAIM, (owner, tx.now, run))
    try:
        row = tx.execute(_READ_CLAIMED, (run,)).fetchone()
        assert row is not None
        claimed = to_run(row)
    except (CorruptRecordError, UnicodeDecodeError) as error:
        return _claim_damaged(tx, run, error)
    tx.remember(claimed.run_id, run, claimed.revision)
    has_signals, has_children, has_events = row[-3:]
    inbox = Inbox(
        read_signals(tx.connection, run) if has_signals else (),
        read_arrived_outcomes(tx.connection, run, claimed.run_id) if has_children else (),
        read_events(tx.connection, run) if has_events else (),
    )
    return Claimed(claimed, inbox, claimed.revision == 0)


def _claim_damaged(tx: Transaction, run: int, error: Exception) -> Claimed:
    """Claim a run whose row cannot be read, so that it does not prevent claims of other runs."""
    sure, claim = tx.find("views.find_readable", id=run), tx.find("runs.find_claim", id=run)
    assert sure is not None
    assert claim is not None
    epoch, incarnation = claim
    return salvage_claimed(readable_values(sure), epoch, incarnation, error)


def free(tx: Transaction, run: int, run_id: RunId, stalls: int, *, is_held: bool) -> None:
    """Take a run from its owner. Any worker may claim it at once, unless it is paused."""
    tx.run("runs.free", id=run, now=tx.now, stalls=stalls)
    tx.hint(HintKind.ENDED if is_held else HintKind.READY, run_id)


def is_parked(status: str, owner: int | None) -> bool:
    """Whether a run has no owner and waits until one of its waits is satisfied."""
    return owner is None and status in _PARKED


def wake(tx: Transaction, run: int, run_id: RunId) -> None:
    """Make a run due now. A run that is due already keeps its place."""
    tx.run("runs.wake", id=run, now=tx.now)
    tx.hint(HintKind.READY, run_id)
