"""Creating runs."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.clock import Instant, Span
from stepwell.ids import Incarnation, RunId
from stepwell.model.runs import Claimed, Created, Debounced, Inbox, NewRun, Previous, Run
from stepwell.model.starts import check_replaceable, refused_ids, replaced_by
from stepwell.model.states import RunStatus
from stepwell.model.workers import Claimant
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.sqlite.histories import read_signals
from stepwell.stores.sqlite.rows import encode_tags, encode_texts, to_status
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Row, Transaction
from stepwell.stores.sqlite.transitions.attributes import set_attributes
from stepwell.stores.sqlite.transitions.claims import Quota
from stepwell.stores.sqlite.transitions.ends import cancel_family

_FIND_INPUT = SQL["runs.find_input"]
_INSERT = SQL["runs.insert"]
_INSERT_PAYLOAD = SQL["payloads.insert"]


def create(tx: Transaction, runs: Sequence[NewRun], claimant: Claimant | None) -> list[Created]:
    """Start runs, or find existing ones by id or key."""
    if len(runs) > 1 and len({new.priority for new in runs}) > 1:
        claimant = None  # a later run may be more urgent; the next claim sorts them
    if len(runs) > 1:
        ids = encode_texts([new.run_id for new in runs])
        refused = refused_ids(runs, {run_id: given for run_id, given in tx.rows("runs.list_inputs", ids=ids)})
        if refused is not None:
            return refused
    quota, together = Quota(tx, claimant), {new.run_id for new in runs}
    return [_create_one(tx, new, quota, claimant, together) for new in runs]


def create_some(tx: Transaction, runs: Sequence[NewRun], quota: Quota, claimant: Claimant | None) -> list[Created]:
    """Start the runs whose id and key are free. Returns those that were started."""
    if len({new.priority for new in runs}) > 1:
        quota, claimant = Quota(tx, None), None  # as in `create`
    together, started = {new.run_id for new in runs}, list[Created]()
    for new in runs:
        is_known = tx.execute(_FIND_INPUT, (new.run_id,)).fetchone() is not None
        created = None if is_known else _create_one(tx, new, quota, claimant, together)
        if created is not None and created.run_id == new.run_id:
            started.append(created)
    return started


def _create_one(tx: Transaction, new: NewRun, quota: Quota, claimant: Claimant | None, together: set[RunId]) -> Created:
    known = tx.execute(_FIND_INPUT, (new.run_id,)).fetchone()
    if known is not None:
        return Created(new.run_id, new.own_id, known[0] == new.input, is_duplicate_id=not new.own_id)
    met = None if new.key is None else _find_by_key(tx, new)
    if met is not None and (new.on_conflict == "get" or met[0] in together):
        same = tx.execute(_FIND_INPUT, (met[0],)).fetchone()
        return Created(met[0], False, same is not None and same[0] == new.input)
    replaced = None if met is None else _replace(tx, met, new)
    return Created(new.run_id, True, claimed=insert(tx, new, quota, claimant), replaced=replaced)


def _find_by_key(tx: Transaction, new: NewRun) -> Row | None:
    """The existing run for this key: the active run, or the run that ended last within the window."""
    active = tx.find("runs.find_active_of_key", key=new.key)
    if active is not None or new.dedup <= 0 or new.on_conflict == "replace":
        return active
    return tx.find("runs.find_ended_of_key", key=new.key, since=tx.now - new.dedup)


def _replace(tx: Transaction, met: Row, new: NewRun) -> RunId:
    """Take the key from the run that has it, and cancel that run."""
    old = tx.find("runs.find_for_cancel", run_id=met[0])
    assert old is not None
    check_replaceable(new, met[0], to_status(old[2]))
    cancel_family(tx, old, compensate=True, reason=replaced_by(new.run_id), announce=new.announce)
    tx.run("runs.replace", id=old[0], successor=new.run_id)
    return RunId(met[0])


def debounce(tx: Transaction, new: NewRun, quiet: Span, max_wait: Span) -> Debounced:
    """Plan a run, or change the input of a planned run."""
    planned = tx.find("runs.find_debounced", key=new.key)
    if planned is None:
        known = tx.execute(_FIND_INPUT, (new.run_id,)).fetchone()
        if known is not None:
            return Debounced(new.run_id, False, is_stale=known[0] != new.input)
        until = Instant(tx.now + max_wait)
        insert(tx, new._replace(delay=Span(min(quiet, max_wait))), Quota(tx, None), None, debounced_until=until)
        return Debounced(new.run_id, True)
    run_id, run, until = planned
    if run_id != new.run_id:
        return Debounced(run_id, False, is_stale=True)
    number = tx.definition(new.workflow, new.version, new.priority)
    tx.run("runs.debounce", id=run, definition=number, wake_at=min(tx.now + quiet, until))
    tx.run("payloads.change_input", run=run, input=new.input)
    tx.hint(HintKind.READY, run_id)
    return Debounced(run_id, False)


def insert(
    tx: Transaction,
    new: NewRun,
    quota: Quota,
    claimant: Claimant | None,
    *,
    generation: int = 1,
    previous: Previous | None = None,
    debounced_until: Instant | None = None,
) -> Claimed | None:
    """Add a run, which takes over what is held for its key, and claim it if possible."""
    owner = quota.reserve(new.definition, new.priority) if new.delay <= 0 else None
    wake_at = Instant(tx.now + new.delay) if owner is None else None
    if wake_at is not None and new.deadline_at is not None:
        wake_at = min(wake_at, new.deadline_at)
    status = RunStatus.PENDING if owner is None else RunStatus.RUNNING
    epoch, started_at = (0, None) if owner is None else (1, tx.now)
    state = (epoch, owner, wake_at, started_at, None, new.key, generation, debounced_until)
    run = _insert_row(tx, new, status, state, previous)
    has_key = new.key is not None and debounced_until is None
    has_mail = has_key and tx.find("signals.find_held", key=new.key) is not None
    if has_mail:
        tx.run("signals.take_over_held", run=run, key=new.key)
    if owner is None or claimant is None:
        tx.hint(HintKind.READY, new.run_id)
        return None
    tx.remember(new.run_id, run, 0)
    row = _fresh(tx, new, claimant.incarnation, generation, previous)
    return Claimed(row, Inbox(read_signals(tx.connection, run)) if has_mail else Inbox(), is_fresh=True)


def insert_failed(tx: Transaction, new: NewRun, failure: bytes) -> int:
    """Add a run that could not be started: it has ended already and has no key. Returns its number."""
    run = _insert_row(tx, new, RunStatus.FAILED, (0, None, None, None, tx.now, None, 1, None), None, failure)
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
    epoch, owner, wake_at, started_at, ended_at, key, generation, debounced_until = state
    parent = (None, None, 0, 0) if new.parent is None else new.parent
    definition = tx.definition(new.workflow, new.version, new.priority)
    times = (wake_at, tx.now, started_at, ended_at)
    before = (None, None, None) if previous is None else previous
    # In the order in which the statement first names its parameters.
    dedup = 0 if key is None else new.dedup  # a run that was refused has no key, whatever was asked for
    limits = (new.deadline_at, new.max_suspend, debounced_until, dedup)
    values = (new.run_id, definition, status.value, epoch, owner, *times, key, generation, *parent, *before, *limits)
    row = tx.execute(_INSERT, values).fetchone()
    assert row is not None
    about = (encode_tags(new.tags), new.title, new.started_by, new.headers, new.retry)
    tx.write(_INSERT_PAYLOAD, (row[0], new.input, failure, *about))
    if new.attributes:
        set_attributes(tx, row[0], new.run_id, new.attributes)
    if new.discards:
        tx.run("signals.plan_discard", run=row[0])
    return int(row[0])


def _fresh(tx: Transaction, new: NewRun, owner: Incarnation, generation: int, previous: Previous | None) -> Run:
    """The row that was just inserted and claimed, without reading it."""
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
        priority=new.priority,
        tags=new.tags,
        deadline_at=new.deadline_at,
        max_suspend=new.max_suspend,
        title=new.title,
        started_by=new.started_by,
        headers=new.headers,
        retry=new.retry,
        attributes=new.attributes,
        dedup=Span(0) if new.key is None else new.dedup,
    )
