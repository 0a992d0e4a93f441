"""History files: what is recorded of one run, as JSON that people can read and compare.

A file names its format (`stepwell.history-file/1`). Within a format fields are only ever added, and a reader passes
over those that it does not know; another number means that older readers must refuse the file.

Every stored value is one text. Bytes that are no UTF-8 are written as `base64:` and their Base64, and so is a text that
happens to begin like that.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from glob import glob
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from stepwell.clock import Instant, Span
from stepwell.errors import HistoryFileError
from stepwell.ids import RunId
from stepwell.model.entries import Attempt, Cursor, Entry, Progress
from stepwell.model.locations import Location, format_path
from stepwell.model.runs import History, Inbox, Parent, Previous, Run
from stepwell.model.states import EntryKind, EntryStatus, RunStatus, WaitKind
from stepwell.model.waits import Since, Wait
from stepwell.printable import escape_json

KIND: Final = "stepwell.history-file"
FORMAT: Final = 1
_BASE64: Final = "base64:"


class Recording(NamedTuple):
    """One run with everything that is recorded of it: what a replay reads."""

    run: Run
    history: History
    is_redacted: bool = False
    written_by: str = ""  # the release of stepwell that wrote the file
    inbox: Inbox = Inbox()  # what has come for it and is not recorded yet; not in files


# --- the file, field by field; the names are the format ---


class _Entry(msgspec.Struct, omit_defaults=True):
    seq: int
    path: str  # for people; `at` is what counts
    at: str  # the location, in hexadecimal
    kind: str
    status: str
    value: str
    ended_at: int
    took: int = 0
    attempts: int = 0
    undo: str | None = None


class _Attempt(msgspec.Struct, omit_defaults=True):
    at: str
    number: int
    tried_at: int
    failure: str | None = None
    next_at: int | None = None


class _Cursor(msgspec.Struct):
    at: str
    iteration: int
    trimmed: int
    state: str


class _Wait(msgspec.Struct, omit_defaults=True):
    path: str
    at: str
    kind: str
    token: int
    due_at: int | None = None
    names: list[str] = []
    where: list[str] = []
    since: Since = "wait"
    limit_at: int | None = None


class _Progress(msgspec.Struct, omit_defaults=True):
    at: str
    said_at: int
    state: str | None = None
    done: int | None = None
    total: int | None = None
    unit: str = ""
    note: str = ""
    turns: int = 0


class _Run(msgspec.Struct, omit_defaults=True):
    run_id: str
    workflow: str
    version: int
    status: str
    last_seq: int
    created_at: int
    input: str
    key: str | None = None
    started_at: int | None = None
    ended_at: int | None = None
    generation: int = 1
    parent: tuple[str, str, bool, bool] | None = None
    previous: tuple[str, int, int] | None = None
    cause: str | None = None
    reason: str = ""
    undo_floor: int = 0
    retried_at: int | None = None
    loose: tuple[tuple[int, int], ...] = ()
    failure: str | None = None
    output: str | None = None
    priority: int = 0
    tags: dict[str, str] = {}
    deadline_at: int | None = None
    max_suspend: int | None = None


class _File(msgspec.Struct):
    schema: str
    stepwell: str
    redacted: bool
    run: _Run
    names: list[str]
    entries: list[_Entry] = []
    attempts: list[_Attempt] = []
    cursors: list[_Cursor] = []
    waits: list[_Wait] = []
    progress: list[_Progress] = []


class _Head(msgspec.Struct):
    schema: str = ""


# --- writing ---


def write(recording: Recording, path: str | Path) -> None:
    """Write a history file; one that is there is replaced."""
    Path(path).write_bytes(dump(recording))


def dump(recording: Recording) -> bytes:
    """The content of a history file. Equal recordings give equal bytes."""
    run, history = recording.run, recording.history
    file = _File(
        schema=f"{KIND}/{FORMAT}",
        stepwell=recording.written_by or version("stepwell"),
        redacted=recording.is_redacted,
        run=_dump_run(run),
        names=list(history.names),
        entries=[_dump_entry(entry, history.names) for entry in history.entries],
        attempts=[
            _Attempt(one.location.hex(), one.number, one.at, _text_or_none(one.failure), one.next_at)
            for one in history.attempts
        ],
        cursors=[_Cursor(one.location.hex(), one.iteration, one.trimmed, _text(one.state)) for one in history.cursors],
        waits=[_dump_wait(wait, history.names) for wait in history.waits],
        progress=[
            _Progress(
                one.location.hex(), one.at, _text_or_none(one.state), one.done, one.total, one.unit, one.note, one.turns
            )
            for one in history.progress
        ],
    )
    text = msgspec.json.format(msgspec.json.encode(file), indent=1).decode()
    return escape_json(text).encode() + b"\n"  # it is printed, too


def _dump_run(run: Run) -> _Run:
    parent, previous = run.parent, run.previous
    return _Run(
        run_id=run.run_id,
        workflow=run.workflow,
        version=run.version,
        status=run.status.value,
        last_seq=run.last_seq,
        created_at=run.created_at,
        input=_text(run.input),
        key=run.key,
        started_at=run.started_at,
        ended_at=run.ended_at,
        generation=run.generation,
        parent=None if parent is None else (parent.run_id, parent.location.hex(), parent.detached, parent.tied),
        previous=None if previous is None else (previous.run_id, previous.started_at, previous.finished_at),
        cause=run.cause,
        reason=run.reason,
        undo_floor=run.undo_floor,
        retried_at=run.retried_at,
        loose=run.loose,
        failure=_text_or_none(run.failure),
        output=_text_or_none(run.output),
        priority=run.priority,
        tags=dict(run.tags),
        deadline_at=run.deadline_at,
        max_suspend=run.max_suspend,
    )


def _dump_entry(entry: Entry, names: tuple[str, ...]) -> _Entry:
    return _Entry(
        entry.seq,
        format_path(entry.location, names),
        entry.location.hex(),
        entry.kind.word,
        entry.status.name.lower(),
        _text(entry.value),
        entry.at,
        entry.took,
        entry.attempts,
        _text_or_none(entry.undo),
    )


def _dump_wait(wait: Wait, names: tuple[str, ...]) -> _Wait:
    return _Wait(
        format_path(wait.location, names),
        wait.location.hex(),
        wait.kind.value,
        wait.token,
        wait.due_at,
        list(wait.names),
        list(wait.where),
        wait.since,
        wait.limit_at,
    )


def _text(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = _BASE64
    return _BASE64 + base64.b64encode(value).decode() if text.startswith(_BASE64) else text


def _text_or_none(value: bytes | None) -> str | None:
    return None if value is None else _text(value)


# --- reading ---


def find(pattern: str) -> Iterator[tuple[str, Recording]]:
    """Every history file that a pattern such as `histories/*.json` names, with its name, in order.

    Raises `HistoryFileError` if there is none: a check of nothing would always pass.
    """
    names = sorted(glob(pattern, recursive=True))  # noqa: PTH207  a pattern as people write it, absolute or not
    if not names:
        raise HistoryFileError(
            f"no history file is called {pattern}", fix="stepwell export RUN -o histories/NAME.json writes one"
        )
    for name in names:
        yield name, read(name)


def read(path: str | Path) -> Recording:
    """The recording in a history file. Raises `HistoryFileError` if it is none that this release can read."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise HistoryFileError(
            f"{path} cannot be read", where=str(path), why=error.strerror or str(error), fix="name a history file"
        ) from error
    return load(content, where=str(path))


def load(content: bytes, *, where: str = "") -> Recording:
    """The recording that `dump` wrote."""
    try:
        schema = msgspec.json.decode(content, type=_Head).schema
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _refuse(where, f"it is not JSON of ours: {error}") from error
    kind, _, number = schema.partition("/")
    if kind != KIND or number != str(FORMAT):
        raise _refuse(where, f"its schema is {schema!r}; this release reads {KIND}/{FORMAT}")
    try:
        return _load(msgspec.json.decode(content, type=_File))
    except (msgspec.MsgspecError, ValueError, KeyError) as error:
        raise _refuse(where, str(error)) from error


def _refuse(where: str, why: str) -> HistoryFileError:
    return HistoryFileError(
        f"{where or 'this'} is not a history file that this release can read",
        where=where,
        why=why,
        fix="write it again with `stepwell export RUN`, or read it with the release that wrote it",
    )


def _load(file: _File) -> Recording:
    history = History(
        tuple(file.names),
        tuple(_load_entry(one) for one in file.entries),
        tuple(
            Attempt(_at(one.at), one.number, Instant(one.tried_at), _bytes_or_none(one.failure), _instant(one.next_at))
            for one in file.attempts
        ),
        tuple(Cursor(_at(one.at), one.iteration, one.trimmed, _bytes(one.state)) for one in file.cursors),
        tuple(_load_wait(one) for one in file.waits),
        tuple(
            Progress(
                _at(one.at),
                Instant(one.said_at),
                _bytes_or_none(one.state),
                one.done,
                one.total,
                one.unit,
                one.note,
                one.turns,
            )
            for one in file.progress
        ),
    )
    return Recording(_load_run(file.run), history, file.redacted, file.stepwell)


def _load_run(run: _Run) -> Run:
    parent = run.parent and Parent(RunId(run.parent[0]), _at(run.parent[1]), run.parent[2], run.parent[3])
    previous = run.previous and Previous(RunId(run.previous[0]), Instant(run.previous[1]), Instant(run.previous[2]))
    return Run(
        run_id=RunId(run.run_id),
        workflow=run.workflow,
        version=run.version,
        status=RunStatus(run.status),
        key=run.key,
        epoch=0,
        owner=None,
        revision=0,
        last_seq=run.last_seq,
        created_at=Instant(run.created_at),
        started_at=_instant(run.started_at),
        ended_at=_instant(run.ended_at),
        wake_at=None,
        input=_bytes(run.input),
        generation=run.generation,
        parent=parent,
        previous=previous,
        cause=run.cause,
        reason=run.reason,
        undo_floor=run.undo_floor,
        retried_at=_instant(run.retried_at),
        loose=run.loose,
        failure=_bytes_or_none(run.failure),
        output=_bytes_or_none(run.output),
        priority=run.priority,
        tags=tuple(sorted(run.tags.items())),
        deadline_at=_instant(run.deadline_at),
        max_suspend=None if run.max_suspend is None else Span(run.max_suspend),
    )


def _load_entry(entry: _Entry) -> Entry:
    return Entry(
        entry.seq,
        _at(entry.at),
        EntryKind[entry.kind.upper()],
        EntryStatus[entry.status.upper()],
        _bytes(entry.value),
        Instant(entry.ended_at),
        entry.took,
        entry.attempts,
        _bytes_or_none(entry.undo),
    )


def _load_wait(wait: _Wait) -> Wait:
    return Wait(
        _at(wait.at),
        WaitKind(wait.kind),
        wait.token,
        _instant(wait.due_at),
        tuple(wait.names),
        tuple(wait.where),
        wait.since,
        _instant(wait.limit_at),
    )


def _at(text: str) -> Location:
    return Location(bytes.fromhex(text))


def _instant(value: int | None) -> Instant | None:
    return None if value is None else Instant(value)


def _bytes(text: str) -> bytes:
    return base64.b64decode(text.removeprefix(_BASE64)) if text.startswith(_BASE64) else text.encode()


def _bytes_or_none(text: Any) -> bytes | None:
    return None if text is None else _bytes(text)
