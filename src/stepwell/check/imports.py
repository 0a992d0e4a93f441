"""Recordings as runs of a store: restores runs that were exported elsewhere or lost here."""

from __future__ import annotations

from typing import Final

from stepwell.check.histories import Recording
from stepwell.check.payloads import rewrite_all
from stepwell.clock import Instant
from stepwell.codec.base import JSON_V1
from stepwell.errors import AlreadyExistsError, CorruptRecordError, HistoryFileError, InvalidOptionError
from stepwell.ids import RunId
from stepwell.model.attributes import read_attributes, read_title, read_value
from stepwell.model.entries import Entry
from stepwell.model.locations import format_path
from stepwell.model.runs import History, Run
from stepwell.model.states import TERMINAL, RunStatus, WaitKind
from stepwell.stores.base.packed_items import PackedRun
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import Audit

# A worker replays these up to where they were, and they wait again.
_BEGIN_AGAIN: Final = frozenset({RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING})
_NEED_A_PERSON: Final = frozenset({RunStatus.PAUSED, RunStatus.COMPENSATION_FAILED})


async def import_run(store: Store, recording: Recording, *, run_id: RunId | None = None, by: str = "") -> Run:
    """Add a recorded run to a store, under its own id or another, in one transaction.

    An ended run is stored as it ended. A worker replays any other run and continues it. The imported run has no parent,
    its mailbox is empty, and its deadlines are unchanged.

    Raises `HistoryFileError` for a run that is damaged or could not continue, and `AlreadyExistsError` if the store has
    this id, or an active run with this key.
    """
    _check(recording)
    if run_id is not None and run_id != recording.run.run_id:
        _check_movable(recording)
    now = store.now()
    run = _arriving(recording.run, run_id or recording.run.run_id, now)
    history = recording.history._replace(waits=())
    act = Audit(now, run.run_id, "import", by, recording.run.status.value, run.status.value, "")
    packed = PackedRun(run, history=history, audit=(act,))
    if not await store.transfers.restore(packed):
        raise AlreadyExistsError(
            f"run {run.run_id} cannot be imported: the store has it already, or an active run has its key",
            where=run.run_id,
            why="a run that is executed twice would do everything twice",
            fix="type: stepwell import FILE --new-id (for an ended run), or stepwell import FILE --no-key",
        )
    return run


def _arriving(run: Run, run_id: RunId, now: Instant) -> Run:
    status = RunStatus.PENDING if run.status in _BEGIN_AGAIN else run.status
    continues = status not in TERMINAL and status not in _NEED_A_PERSON
    return run._replace(
        run_id=run_id,
        status=status,
        epoch=1,  # it was executed before, so its next claim is not its first
        revision=1,  # a worker starts a run of revision 0 from the beginning, without loading its history
        wake_at=now if continues else None,
        parent=None,
        successor=None,
    )


# --- what is rejected ---


def _check(recording: Recording) -> None:
    """Reject an incomplete recording, and a run that could not continue."""
    run, history = recording.run, recording.history
    if (run.status in TERMINAL) != (run.ended_at is not None):
        raise _damaged(run, f"its status is {run.status.value}, but its end is {run.ended_at}")
    if max((entry.seq for entry in history.entries), default=0) > run.last_seq:
        raise _damaged(run, f"it has entries after its last one, {run.last_seq}")
    _check_entries(run, history)
    _check_description(run)
    if run.status in TERMINAL:
        return
    if recording.is_redacted:
        raise HistoryFileError(
            f"run {run.run_id} cannot continue: it was exported without its texts",
            where=run.run_id,
            why="its code would get other values than it got before",
            fix="type: stepwell export RUN, without --redact",
        )
    if any(wait.kind is WaitKind.CHILD for wait in history.waits):
        raise HistoryFileError(
            f"run {run.run_id} cannot continue: it waits for a child",
            where=run.run_id,
            why="a file holds one run, so the result of the child would never arrive",
            fix="use stepwell move, which moves all runs",
        )


def _check_entries(run: Run, history: History) -> None:
    seen: dict[bytes, Entry] = {}
    last = 0
    for entry in history.entries:
        if entry.seq <= last:
            raise _damaged(run, f"entry {entry.seq} comes after entry {last}")
        last = entry.seq
        try:
            path = format_path(entry.location, history.names)
        except CorruptRecordError as error:
            raise _damaged(run, f"the place of entry {entry.seq} cannot be read: {error.why}") from error
        if seen.setdefault(entry.location, entry) is not entry:
            raise _damaged(run, f"{path} is recorded twice")


def _check_description(run: Run) -> None:
    try:
        attributes = read_attributes({one.name: read_value(one) for one in run.attributes}, run.run_id, may_be_own=True)
        for line in (run.title, run.started_by):
            if line is not None:
                read_title(line, run.run_id)
    except (ValueError, LookupError, OverflowError, InvalidOptionError) as error:
        raise _damaged(run, f"its title or its attributes cannot be read: {error}") from error
    if attributes != run.attributes:
        raise _damaged(run, "its attributes are not in the form in which runs have them")


def _check_movable(recording: Recording) -> None:
    """Reject another id for a run that can only be read or continued under its own."""
    if recording.run.status not in TERMINAL:
        raise HistoryFileError(
            f"run {recording.run.run_id} cannot continue under another id",
            where=recording.run.run_id,
            why="ids, random numbers and idempotency keys of its steps are derived from its id",
            fix="import it under its own id",
        )

    def plain(path: str, payload: bytes) -> bytes:
        if not payload.startswith((JSON_V1, b"{")):
            raise HistoryFileError(
                f"run {recording.run.run_id} cannot have another id",
                where=path,
                why="its values are encrypted for its id, and could not be decrypted under another",
                fix="import it under its own id",
            )
        return payload

    rewrite_all(recording, plain)


def _damaged(run: Run, why: str) -> HistoryFileError:
    return HistoryFileError(
        f"the record of run {run.run_id} is damaged", where=run.run_id, why=why, fix="export it again"
    )
