"""Forks: the record of one run, renumbered and bound to the rows of another run."""

from __future__ import annotations

from stepwell.codec.base import Codec, Payload, Place, Row
from stepwell.codec.carried import headers_place
from stepwell.engine.repair_drafts import Draft
from stepwell.errors import InvalidMoveError
from stepwell.ids import RunId
from stepwell.model.amendments import Fork
from stepwell.model.attributes import read_person
from stepwell.model.entries import Cursor, Entry
from stepwell.model.locations import Location, is_former, named, prefixes
from stepwell.model.run_retries import first_attempt
from stepwell.model.runs import NewRun, Run
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.headers import pack, unpack


def make_fork(draft: Draft, fork_id: RunId, key: str | None, codec: Codec, by: str, reason: str) -> Fork:
    """The fork of a draft. Raises `InvalidMoveError` if the copied part has children that still run."""
    _check_children(draft)
    run, copy = draft.run, Copy(draft, fork_id, codec)
    source = Place(run.workflow, "", "the input", row=Row(run.run_id, "", "input"))
    target = source._replace(row=Row(fork_id, "", "input"))
    given = run.input if draft.input is None else draft.input
    new = NewRun(
        fork_id,
        run.workflow,
        run.version if draft.version is None else draft.version,
        codec.rebind(given, place=source, to=target) if codec.conceals else given,
        key,
        priority=run.priority,
        tags=run.tags,
        max_suspend=run.max_suspend,
        on_conflict="raise",
        title=run.title,
        started_by=read_person(by, run.workflow) if by else run.started_by,
        attributes=run.attributes,
        headers=_headers(run, fork_id, codec),
        retry=first_attempt(run.retry),
    )
    entries = tuple(copy.entry(seq, entry) for seq, entry in enumerate(draft.kept, 1))
    cursors = tuple(copy.cursor(one) for one in draft.history().cursors)
    names = draft.detail.history.names
    loose = tuple(
        (numbers[0] - 1, numbers[-1])
        for low, high in draft.loose
        if (numbers := [seq for seq, entry in enumerate(draft.kept, 1) if low < entry.seq <= high])
    )
    return Fork(new, run.run_id, run.epoch, run.revision, names, entries, cursors, by, reason, loose)


def _headers(run: Run, fork_id: RunId, codec: Codec) -> bytes | None:
    if run.headers is None:
        return None
    source = headers_place(run.workflow, run.run_id)
    return codec.rebind(run.headers, place=source, to=headers_place(run.workflow, fork_id))


def _check_children(draft: Draft) -> None:
    kept, dropped = {entry.location: entry for entry in draft.kept}, {one.run_id for one in draft.children}
    for child in draft.detail.children:
        if child.parent is None or child.run_id in dropped or is_former(child.parent.location):
            continue
        at = child.parent.location
        holder = next((one for one in prefixes(at) if one in kept), None)
        is_awaited = holder is not None and kept[holder].kind is not EntryKind.SPAWN
        if not is_awaited and (holder is not None or child.ended_at is None):
            path = draft.path(at)
            raise InvalidMoveError(
                f"the child {child.run_id} at {path} cannot be copied",
                where=path,
                why="it belongs to the run that started it; a fork would wait for it or start it again",
                fix=f"fork from {path} or before it",
            )


class Copy:
    """Copies entries of one run to another. Payloads encrypted for their row are encrypted for the new row."""

    def __init__(self, draft: Draft, fork_id: RunId, codec: Codec) -> None:
        self._draft = draft
        self._fork_id = fork_id
        self._codec = codec

    def entry(self, seq: int, entry: Entry) -> Entry:
        """An entry with its new number."""
        if not self._codec.conceals:
            return entry._replace(seq=seq)
        value = self._value(entry) if entry.status is EntryStatus.DONE else entry.value
        return entry._replace(seq=seq, value=value, undo=self._undo(entry))

    def cursor(self, cursor: Cursor) -> Cursor:
        """The position of a loop."""
        if not self._codec.conceals:
            return cursor
        header, state = unpack(cursor.state)
        return cursor._replace(state=pack(header, self._rebind(cursor.location, "state", state)))

    def _undo(self, entry: Entry) -> bytes | None:
        if entry.undo is None:
            return None
        header, arguments = unpack(entry.undo)
        return pack(header, self._rebind(entry.location, "undo", arguments))

    def _value(self, entry: Entry) -> bytes:
        at, value = entry.location, entry.value
        match entry.kind:
            case EntryKind.STEP | EntryKind.ONCE | EntryKind.ITEM | EntryKind.LOOP | EntryKind.CHECKPOINT:
                return self._rebind(at, "value", value)
            case EntryKind.CHILD:
                header, payload = unpack(value)
                return pack(header, self._rebind(at, "value", payload))
            case EntryKind.TOPIC:
                return self._event(at, value)
            case EntryKind.RECEIVE | EntryKind.RECEIVE_MANY | EntryKind.RECORD:
                return self._messages(at, value)
            case EntryKind.OBSERVE:
                header, messages = unpack(value)
                return pack(header, self._messages(at, messages))
            case EntryKind.JOIN:
                return self._branches(at, value)
            case EntryKind.RACE:
                header, payload = unpack(value)
                return pack(header, self._rebind(self._branch(at, header[0]), "value", payload))
            case EntryKind.WAIT_ANY:
                return self._first(at, value)
            case _:
                return value  # nothing in it is encrypted

    def _event(self, at: Location, value: bytes) -> bytes:
        header, payload = unpack(value)
        return pack(header, self._rebind(at, "event", payload))

    def _messages(self, at: Location, value: bytes) -> bytes:
        header, payloads = unpack(value)
        copied, offset = [], 0
        for number, item in enumerate(header):
            copied.append(self._rebind(at, f"signal {number}", payloads[offset : offset + item[-1]]))
            offset += item[-1]
        sized = [[*item[:-1], len(payload)] for item, payload in zip(header, copied, strict=True)]
        return pack(sized, b"".join(copied))

    def _branches(self, at: Location, value: bytes) -> bytes:
        header, payloads = unpack(value)
        copied, offset = [], 0
        for name, size in header:
            copied.append(self._rebind(self._branch(at, name), "value", payloads[offset : offset + size]))
            offset += size
        sized = [[name, len(payload)] for (name, _), payload in zip(header, copied, strict=True)]
        return pack(sized, b"".join(copied))

    def _branch(self, at: Location, name: str) -> Location:
        return named(at, self._draft.detail.history.names.index(name))

    def _first(self, at: Location, value: bytes) -> bytes:
        """What came first in a combined wait: a signal, an event, a child's outcome, or nothing."""
        label, inner = unpack(value)
        header, payload = unpack(inner)
        if header and isinstance(header[0], list):
            inner = self._messages(at, inner)
        elif payload and header[1:] == ["completed"]:
            inner = pack(header, self._rebind(at, "value", payload))
        elif len(header) == 2 and payload[:1] != b"{":
            inner = self._event(at, inner)
        return pack(label, inner)

    def _rebind(self, at: Location, field: str, payload: Payload) -> Payload:
        if not payload:
            return payload
        run, path = self._draft.run, self._draft.path(at)
        place = Place(run.workflow, path, "the recorded value", row=Row(run.run_id, path, field))
        return self._codec.rebind(payload, place=place, to=place._replace(row=Row(self._fork_id, path, field)))
