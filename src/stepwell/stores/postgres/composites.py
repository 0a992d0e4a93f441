"""Names for the fields of JSON arrays in SQL: `{Commit.children}` in a function's text becomes the index of that field.

Values travel as JSON arrays in the order of the model's fields, which is the cheapest form to write, send and read. The
names are replaced once, when the text is loaded, so they cost nothing in the database. An unknown name raises an error
then. A text may also use all fields at once:

    {Entry.*}           the columns, which have the names of the fields
    {Entry.* from e}    their values, from the JSON array `e`
    {Entry.* to json}   the arguments of `json_build_array` that build such an array from a row
"""

from __future__ import annotations

import re
from functools import cache
from types import UnionType
from typing import Any, Final, Literal, NewType, Union, get_args, get_origin, get_type_hints

from stepwell.model.amendments import Amendment, Dropped, Fork
from stepwell.model.attributes import Attribute, Description
from stepwell.model.commits import BeginRollback, Commit, End, Park, Pause
from stepwell.model.entries import Attempt, Cursor, Entry, Progress
from stepwell.model.events import NewEvent
from stepwell.model.holds import Hold, HoldAct, WorkflowHold
from stepwell.model.ledger import Act, ChainHead, Reservation
from stepwell.model.live import Append, Published
from stepwell.model.outbox import Announce, Emit, Owed, Settled, Unsent
from stepwell.model.records import (
    NewRecord,
    NewRecordEvent,
    Record,
    RecordChange,
    RecordClosing,
    RecordEvent,
    RecordFilter,
    RecordOpening,
    RecordsSeen,
)
from stepwell.model.retention import Ended, Tree
from stepwell.model.runs import Created, History, NewRun, Parent, Previous, Run
from stepwell.model.signals import Delivered, NewSignal, Redelivery, Refusal, Reply
from stepwell.model.waits import Wait
from stepwell.model.workers import Claimant, Fence, NewWorker
from stepwell.stores.base.filters import Condition, Order
from stepwell.stores.base.packed_items import (
    HighestNumbers,
    OpenWait,
    PackedBlob,
    PackedChunk,
    PackedEvent,
    PackedReceipt,
    PackedRecordEvent,
    PackedReply,
    PackedRun,
    PackedSignal,
    TransferBatch,
)
from stepwell.stores.base.views import Audit, RunFilter

_MODELS: Final[tuple[Any, ...]] = (
    *(
        Act,
        Amendment,
        Announce,
        Append,
        Attempt,
        Attribute,
        Audit,
        ChainHead,
        Claimant,
        Commit,
        Condition,
        Created,
        Cursor,
    ),
    *(
        Description,
        Dropped,
        Emit,
        Entry,
        Fence,
        Fork,
        HighestNumbers,
        History,
        Hold,
        HoldAct,
        NewEvent,
        NewRun,
        NewSignal,
        NewWorker,
    ),
    *(OpenWait, Order, Owed, PackedBlob, PackedChunk, PackedEvent, PackedReceipt, PackedReply, PackedRun),
    *(PackedSignal, TransferBatch, Parent, Previous, Progress, Published, Redelivery, Refusal, Reply, Reservation, Run),
    *(RunFilter, Settled, Unsent, Wait, WorkflowHold),
    *(Delivered, NewRecord, NewRecordEvent, PackedRecordEvent, Record, RecordChange, RecordClosing, RecordEvent),
    *(RecordFilter, RecordOpening, RecordsSeen),
    *(Ended, Tree),
)
_MOVES: Final[tuple[Any, ...]] = (BeginRollback, End, Park, Pause)

_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    **{model.__name__: model._fields for model in _MODELS},
    # A move starts with its kind; see `calls.commit_out`.
    "Move": ("kind",),
    **{move.__name__: ("kind", *move._fields) for move in _MOVES},
    "Child": (*NewRun._fields, "failure"),  # in a commit; see `calls.commit_out`
    # Pairs without a name in the model.
    "Trim": ("low", "high"),
    "AttemptKey": ("location", "number"),
    "Tag": ("name", "value"),
    "Comparison": ("relation", "number"),
    # Values that functions pass to each other.
    "Answer": ("now", "result", "hints"),
    "DeliverResult": ("delivered", "claimed"),
    "Written": ("run_id", "revision"),
    "StoredWait": ("location", "token", "due_at", "names", "facets", "since", "limit_at", "topic", "armed"),
    "ChunkMark": ("run", "stream", "number"),
    "LineMark": ("record", "number"),
    "RequestMark": ("scope", "key"),
}

_ROWS: Final[dict[str, Any]] = {
    model.__name__: model
    for model in (Act, Attempt, Cursor, Entry, PackedEvent, Progress, Published, RecordEvent, Reservation)
}

# A run is stored in several tables. These fields are not columns of its row in `runs` (r):
_ELSEWHERE: Final = {
    "workflow": "d.workflow",
    "version": "d.version",
    "priority": "d.priority",
    "owner": "w.incarnation",
    "revision": "h.revision",
    "last_seq": "h.last_seq",
    "stalls": "h.stalls",
    "input": "{f}.b64(p.input)",
    "output": "{f}.b64(p.output)",
    "failure": "{f}.b64(p.failure)",
    "tags": "p.tags",
    "title": "p.title",
    "started_by": "p.started_by",
    "headers": "{f}.b64(p.headers)",
    "retry": "p.retry",
    "attributes": "coalesce((select json_agg(json_build_array(a.name, a.value, a.shown) order by a.name)"
    " from {t}.attributes as a where a.run = r.id), '[]')",
    "parent": "case when r.parent is not null"
    " then json_build_array(r.parent, {f}.b64(r.parent_location), r.detached, r.tied) end",
    "previous": "case when r.previous is not null"
    " then json_build_array(r.previous, r.previous_started_at, r.previous_finished_at) end",
}

_FIELD: Final = re.compile(r"\{([A-Z]\w+)\.(\w+)\}")
_ROW: Final = re.compile(r"\{([A-Z]\w+)\.\*(?: from (\w+)| (to) json)?\}")


def resolve(text: str) -> str:
    """The text of functions with indexes instead of names. Raises `KeyError` or `ValueError` for an unknown name."""
    text = _ROW.sub(lambda found: ", ".join(_row(found[1], found[2], is_json=found[3] is not None)), text)
    return _FIELD.sub(lambda found: str(_FIELDS[found[1]].index(found[2])), text)


def _row(composite: str, source: str | None, *, is_json: bool) -> list[str]:
    is_run = composite == Run.__name__
    model = Run if is_run else _ROWS[composite]
    hints = _hints(model)
    if is_json:
        return [_ELSEWHERE.get(name, f"r.{name}") if is_run else _to_json(name, hints[name]) for name in model._fields]
    fields = [name for name in model._fields if not is_run or name not in _ELSEWHERE]
    return fields if source is None else [_from_json(composite, name, hints[name], source) for name in fields]


@cache
def _hints(model: Any) -> dict[str, Any]:
    return get_type_hints(model)


def _to_json(name: str, hint: Any) -> str:
    return f"{{f}}.b64({name})" if _plain(hint) is bytes else name


def _from_json(composite: str, name: str, hint: Any, source: str) -> str:
    text, value = f"{source}->>{{{composite}.{name}}}", f"{source}->{{{composite}.{name}}}"
    kind = _plain(hint)
    if kind is bytes:
        return f"{{f}}.unb64({text})"
    if kind is bool:
        return f"({text})::boolean"
    if kind is int:
        return f"({text})::bigint"
    if kind is str:
        return text
    return f"{{f}}.texts({value})" if kind == tuple[str, ...] else f"nullif({value}, 'null')::json"


def _plain(hint: Any) -> Any:
    """The type of a field in JSON terms: bytes, bool, int, str, or a tuple."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (one for one in get_args(hint) if one is not type(None))
    while isinstance(hint, NewType):
        hint = hint.__supertype__
    if get_origin(hint) is Literal or (isinstance(hint, type) and issubclass(hint, str)):
        return str
    return hint
