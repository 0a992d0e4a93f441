"""Owning runs, and letting them go."""

from __future__ import annotations

from typing import Any

from stepwell.errors import LeaseLostError
from stepwell.ids import Incarnation, RunId
from stepwell.model.runs import Claimed, Inbox
from stepwell.model.states import RunStatus
from stepwell.model.workers import Claimant
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.sqlite.histories import read_inbox, read_signals
from stepwell.stores.sqlite.rows import to_run
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Transaction

_FIND_LIVE = SQL["workers.find_live"]
_CLAIM = SQL["runs.claim"]
_READ = SQL["runs.read"]
_PARKED = frozenset({RunStatus.WAITING.value, RunStatus.COMPENSATING.value})


class Quota:
    """How much a claimant may still take within one transition."""

    def __init__(self, tx: Transaction, claimant: Claimant | None) -> None:
        self._tx = tx
        self._owner = None if claimant is None else find_live(tx, claimant.incarnation)
        self._left = 0 if claimant is None or self._owner is None else claimant.limit
        self._definitions = () if claimant is None else claimant.definitions

    def reserve(self, definition: str) -> int | None:
        """The worker's number, if it may take another run of this definition."""
        if self._left <= 0 or definition not in self._definitions:
            return None
        self._left -= 1
        return self._owner

    def take(self, run: int) -> Claimed | None:
        """Claim a run that is due, if it is served and the limit allows."""
        if self._left <= 0:
            return None
        row = self._tx.execute(_READ, (run,)).fetchone()
        assert row is not None
        owner = self.reserve(to_run(row).definition)
        return None if owner is None else own(self._tx, run, owner)


def find_live(tx: Transaction, incarnation: Incarnation) -> int | None:
    """The number of a worker with a live lease."""
    row = tx.execute(_FIND_LIVE, (incarnation, tx.now)).fetchone()
    return None if row is None else int(row[0])


def claim(tx: Transaction, claimant: Claimant) -> list[Claimed]:
    """Own what has been due longest."""
    owner = find_live(tx, claimant.incarnation)
    if owner is None:
        raise lease_lost(claimant.incarnation)
    due: list[tuple[Any, ...]] = []
    if claimant.limit > 0:
        for definition in set(claimant.definitions):
            due += _list_due(tx, definition, claimant.limit)
    return [own(tx, run, owner) for _, run in sorted(due)[: claimant.limit]]


def _list_due(tx: Transaction, definition: str, limit: int) -> list[tuple[Any, ...]]:
    number = find_definition(tx, definition)
    return [] if number is None else tx.rows("runs.list_due", definition=number, now=tx.now, limit=limit)


def find_definition(tx: Transaction, definition: str) -> int | None:
    """The number of "name@version", if any run has ever named it."""
    workflow, _, version = definition.rpartition("@")
    if not version.isdecimal():
        return None
    row = tx.find("definitions.find", workflow=workflow, version=int(version))
    return None if row is None else int(row[0])


def own(tx: Transaction, run: int, owner: int) -> Claimed:
    """Give a run to a worker under a new epoch."""
    tx.execute(_CLAIM, (owner, tx.now, run))
    row = tx.execute(_READ, (run,)).fetchone()
    assert row is not None
    claimed = to_run(row)
    # Without an applied commit there can be no waits, so no child to hear of either,
    # and no event but what a predecessor left.
    is_fresh = claimed.revision == 0
    if is_fresh and claimed.previous is None:
        inbox = Inbox(read_signals(tx.connection, run))
    else:
        inbox = read_inbox(tx.connection, run, claimed.run_id)
    return Claimed(claimed, inbox, is_fresh)


def free(tx: Transaction, run: int, run_id: RunId, stalls: int) -> None:
    """Take a run from its owner; anybody may claim it at once."""
    tx.run("runs.free", id=run, now=tx.now, stalls=stalls)
    tx.hint(HintKind.READY, run_id)


def is_parked(status: str, owner: int | None) -> bool:
    """Whether a run stands still until one of its waits is satisfied."""
    return owner is None and status in _PARKED


def wake(tx: Transaction, run: int, run_id: RunId) -> None:
    """Make a run due now; one that is due already keeps its place."""
    tx.run("runs.wake", id=run, now=tx.now)
    tx.hint(HintKind.READY, run_id)


def lease_lost(incarnation: Incarnation) -> LeaseLostError:
    """A worker without a live lease."""
    return LeaseLostError(
        f"the lease of worker {incarnation} is over",
        why="it was not renewed in time, so others may own its runs",
        fix="start a new worker; a lost lease is never revived",
    )
