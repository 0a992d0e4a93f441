"""Creating runs."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.clock import Instant
from stepwell.ids import Incarnation
from stepwell.model.runs import Claimed, Created, Inbox, NewRun, Previous, Run
from stepwell.model.states import RunStatus
from stepwell.model.workers import Claimant
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.sqlite.histories import read_signals
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Row, Transaction
from stepwell.stores.sqlite.transitions.claims import Quota

_FIND_INPUT = SQL["runs.find_input"]
_INSERT = SQL["runs.insert"]
_INSERT_PAYLOAD = SQL["payloads.insert"]


def create(tx: Transaction, runs: Sequence[NewRun], claimant: Claimant | None) -> list[Created]:
    """Start runs, each by its id or key if it exists already."""
    quota = Quota(tx, claimant)
    return [_create_one(tx, new, quota, claimant) for new in runs]


def _create_one(tx: Transaction, new: NewRun, quota: Quota, claimant: Claimant | None) -> Created:
    known = tx.execute(_FIND_INPUT, (new.run_id,)).fetchone()
    if known is not None:
        return Created(new.run_id, new.own_id, known[0] == new.input, is_duplicate_id=not new.own_id)
    met = _find_by_key(tx, new)
    if met is not None:
        same = tx.execute(_FIND_INPUT, (met[0],)).fetchone()
        return Created(met[0], False, same is not None and same[0] == new.input)
    return Created(new.run_id, True, claimed=insert(tx, new, quota, claimant))


def _find_by_key(tx: Transaction, new: NewRun) -> Row | None:
    """The run that answers for the key: an active one, or the one that ended last within the window."""
    if new.key is None:
        return None
    active = tx.find("runs.find_active_of_key", key=new.key)
    if active is not None or new.dedup <= 0:
        return active
    return tx.find("runs.find_ended_of_key", key=new.key, since=tx.now - new.dedup)


def insert(
    tx: Transaction,
    new: NewRun,
    quota: Quota,
    claimant: Claimant | None,
    *,
    generation: int = 1,
    previous: Previous | None = None,
) -> Claimed | None:
    """Add a run, which takes over what was held for its key, and claim it if that is possible."""
    owner = quota.reserve(new.definition) if new.delay <= 0 else None
    wake_at = Instant(tx.now + new.delay) if owner is None else None
    status = RunStatus.PENDING if owner is None else RunStatus.RUNNING
    epoch, started_at = (0, None) if owner is None else (1, tx.now)
    run = _insert_row(tx, new, status, (epoch, owner, wake_at, started_at, None, new.key, generation), previous)
    has_mail = new.key is not None and tx.find("signals.find_held", key=new.key) is not None
    if has_mail:
        tx.run("signals.take_over_held", run=run, key=new.key)
    if owner is None or claimant is None:
        tx.hint(HintKind.READY, new.run_id)
        return None
    row = _fresh(tx, new, claimant.incarnation, generation, previous)
    return Claimed(row, Inbox(read_signals(tx.connection, run)) if has_mail else Inbox(), is_fresh=True)


def insert_failed(tx: Transaction, new: NewRun, failure: bytes) -> int:
    """Add a run that could not be started: it has ended already, and has no key. Its number."""
    run = _insert_row(tx, new, RunStatus.FAILED, (0, None, None, None, tx.now, None, 1), None, failure)
    tx.hint(HintKind.ENDED, new.run_id)
    return run


def _insert_row(
    tx: Transaction,
    new: NewRun,
    status: RunStatus,
    state: tuple[object, ...],
    previous: Previous | None,
    failure: bytes | None = None,
) -> int:
    epoch, owner, wake_at, started_at, ended_at, key, generation = state
    parent = (None, None, 0) if new.parent is None else new.parent
    definition = tx.definition(new.workflow, new.version)
    times = (wake_at, tx.now, started_at, ended_at)
    before = (None, None, None) if previous is None else previous
    # In the order in which the statement first names its parameters.
    values = (new.run_id, definition, status.value, epoch, owner, *times, key, generation, *parent, *before)
    row = tx.execute(_INSERT, values).fetchone()
    assert row is not None
    tx.execute(_INSERT_PAYLOAD, (row[0], new.input, failure))
    return int(row[0])


def _fresh(tx: Transaction, new: NewRun, owner: Incarnation, generation: int, previous: Previous | None) -> Run:
    """The row just inserted and claimed, without reading it again."""
    return Run(
        new.run_id,
        new.workflow,
        new.version,
        RunStatus.RUNNING,
        new.key,
        1,
        owner,
        0,
        0,
        tx.now,
        tx.now,
        None,
        None,
        new.input,
        generation,
        new.parent,
        previous,
    )
