"""Recordings as runs of a store: what was exported elsewhere, or was lost here, comes back."""

from __future__ import annotations

from typing import Final

from stepwell.check.histories import Recording
from stepwell.check.payloads import rewrite_all
from stepwell.clock import Instant
from stepwell.codec.base import JSON_V1
from stepwell.errors import AlreadyExistsError, CorruptRecordError, HistoryFileError
from stepwell.ids import RunId
from stepwell.model.entries import Entry
from stepwell.model.locations import format_path
from stepwell.model.runs import History, Run
from stepwell.model.states import TERMINAL, RunStatus, WaitKind
from stepwell.stores.base.packed_items import PackedRun
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import Audit

# They are replayed up to where they were, and wait again for what they waited for.
_BEGIN_AGAIN: Final = frozenset({RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING})
_NEED_A_PERSON: Final = frozenset({RunStatus.PAUSED, RunStatus.COMPENSATION_FAILED})


async def import_run(store: Store, recording: Recording, *, run_id: RunId | None = None, by: str = "") -> Run:
    """Add a recorded run to a store, under its own id or another, in one transaction.

    One that has ended is there as it ended. Any other goes on where it was: a worker replays it. It has no parent, its
    mailbox is empty, and its deadlines are what they were.

    Raises `HistoryFileError` for what is damaged or could not go on, `AlreadyExistsError` if its id, or an active run
    with its key, is there already.
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
            f"run {run.run_id} cannot be imported: it is there already, or an active run has its key",
            where=run.run_id,
            why="a run that went on twice would do everything twice",
            fix="stepwell import FILE --new-id adds an ended one under another id; --no-key leaves its key out",
        )
    return run


def _arriving(run: Run, run_id: RunId, now: Instant) -> Run:
    status = RunStatus.PENDING if run.status in _BEGIN_AGAIN else run.status
    goes_on = status not in TERMINAL and status not in _NEED_A_PERSON
    return run._replace(
        run_id=run_id,
        status=status,
        epoch=1,  # it has been executed before, so nothing that began then counts as its first time
        revision=1,  # a run of revision 0 has no history to load: a worker would begin it anew
        wake_at=now if goes_on else None,
        parent=None,
        successor=None,
    )


# --- what is refused ---


def _check(recording: Recording) -> None:
    """Refuse what is no whole recording, or what could not go on."""
    run, history = recording.run, recording.history
    if (run.status in TERMINAL) != (run.ended_at is not None):
        raise _damaged(run, f"it is {run.status.value}, and its end is {run.ended_at}")
    if max((entry.seq for entry in history.entries), default=0) > run.last_seq:
        raise _damaged(run, f"it has entries behind its last, {run.last_seq}")
    _check_entries(run, history)
    if run.status in TERMINAL:
        return
    if recording.is_redacted:
        raise HistoryFileError(
            f"run {run.run_id} cannot go on: it was exported without its texts",
            where=run.run_id,
            why="its code would be given other values than it got before",
            fix="export it again, without --redact",
        )
    if any(wait.kind is WaitKind.CHILD for wait in history.waits):
        raise HistoryFileError(
            f"run {run.run_id} cannot go on: it waits for a child",
            where=run.run_id,
            why="a file has one run, and what it waits for would never come",
            fix="stepwell move takes everything along",
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


def _check_movable(recording: Recording) -> None:
    """Refuse another id for what can only be read, or only goes on, under its own."""
    if recording.run.status not in TERMINAL:
        raise HistoryFileError(
            f"run {recording.run.run_id} cannot go on under another id",
            where=recording.run.run_id,
            why="ids, random numbers and keys of its steps are made of the id that it has",
            fix="import it under its own id",
        )

    def plain(path: str, payload: bytes) -> bytes:
        if not payload.startswith((JSON_V1, b"{")):
            raise HistoryFileError(
                f"run {recording.run.run_id} cannot have another id",
                where=path,
                why="its values are encrypted for the id that it has, and could not be opened under another",
                fix="import it under its own id",
            )
        return payload

    rewrite_all(recording, plain)


def _damaged(run: Run, why: str) -> HistoryFileError:
    return HistoryFileError(
        f"what is recorded of run {run.run_id} is damaged", where=run.run_id, why=why, fix="export it again"
    )
