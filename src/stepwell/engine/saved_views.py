"""Saved views: named filters with columns and an order, of one person or shared by all."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from stepwell.clock import to_datetime
from stepwell.engine.backend import Backend
from stepwell.engine.filters import parse_filter
from stepwell.engine.records import PAGE, Document, Draft, NewLine, RecordKind, Records
from stepwell.engine.terms import read_terms
from stepwell.errors import InvalidOptionError, NotFoundError
from stepwell.model.attributes import is_attribute_name
from stepwell.model.locations import check_name
from stepwell.model.states import SavedViewState
from stepwell.nearest import nearest
from stepwell.stores.base.filters import SortKey

COLUMNS: Final = (
    "key",
    "run",
    "workflow",
    "status",
    "where",
    "why",
    "created",
    "took",
    "started",
    "ended",
    "title",
    "tags",
    "parent",
    "started_by",
    "attributes",
)
"""What a listing can show of a run, besides `attr.NAME`. Without columns, a view shows what the listing shows by
default.
"""

COLUMNS_MAX: Final = 50
OWNER_MAX: Final = 150
_SHARED: Final = "shared"
_ATTRIBUTE: Final = "attr."


class SavedViewBody(msgspec.Struct, frozen=True):
    """What is stored of a view."""

    name: str
    owner: str | None
    filter: str
    columns: list[str]
    sort: str
    by: str


@dataclass(frozen=True, slots=True)
class SavedView:
    """A named filter. `owner` is the person who has it; None: it is shared by all. `unreadable` is why its content
    cannot be read, if so: then its name is not known either, and `name` is its id.
    """

    name: str
    owner: str | None
    filter: str
    columns: tuple[str, ...]
    sort: str  # such as "-took"; empty: newest first
    by: str  # who saved it last
    saved_at: datetime
    unreadable: str = ""

    @property
    def where(self) -> str:
        """Filter and order in one line of the filter language."""
        return f"{self.filter} sort:{self.sort}".strip() if self.sort else self.filter

    def narrowed(self, text: str) -> str:
        """The runs of this view that match a filter too, in one line. An order in that filter replaces the view's."""
        has_order = any(term.field == "sort" for term in read_terms(text))
        return f"{self.filter if has_order else self.where} {text}".strip()


class SavedViews:
    """`engine.saved_views`: named filters for listings of runs, of one person or shared by all."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._records = Records(backend, RecordKind.VIEW, SavedViewBody)

    async def save(
        self,
        name: str,
        filter: str = "",
        *,
        columns: Sequence[str] = (),
        sort: str = "",
        owner: str | None = None,
        by: str = "",
    ) -> SavedView:
        """Save a view under a name, in place of a view that has it. Without an `owner` all people share it.

        `columns` are names of `COLUMNS`, and attributes such as "attr.amount". `sort` is a field of a run or an
        attribute, such as "took", or "-took" for the greatest first. Raises `FilterError` for a filter that cannot be
        parsed, and `InvalidOptionError` for a column that no listing has.
        """
        check_name(name, what="view name")
        _check_owner(owner)
        body = SavedViewBody(name, owner, filter.strip(), _check_columns(columns), _check_sort(sort), by)
        parse_filter(_where(body), self._backend.opened.now())
        draft = Draft(
            state=SavedViewState.SAVED,
            body=body,
            lines=(NewLine("saved", by),),
            labels=(_label(owner),),
        )
        await self._records.change(_id(name, owner), lambda it: None if _is_saved(it, body) else draft)
        return await self.get(name, owner=owner)

    async def find(self, name: str, *, owner: str | None = None) -> SavedView | None:
        """The owner's view of that name, or else the shared one; None if there is neither."""
        for whose in dict.fromkeys((owner, None)):
            found = await self._records.find(_id(name, whose))
            if found is not None and found.record.is_open:
                return _view(found)
        return None

    async def get(self, name: str, *, owner: str | None = None) -> SavedView:
        """The owner's view of that name, or else the shared one. Raises `NotFoundError`."""
        found = await self.find(name, owner=owner)
        if found is None:
            raise await self._missing(name, owner)
        return found

    async def delete(self, name: str, *, owner: str | None = None, by: str = "") -> None:
        """Delete the owner's view of that name; without an owner, the shared one. Raises `NotFoundError`."""

        def decide(it: Document[SavedViewBody] | None) -> Draft[SavedViewBody] | None:
            if it is None or not it.record.is_open:
                return None
            return Draft(state=SavedViewState.DELETED, lines=(NewLine("deleted", by),))

        if not await self._records.change(_id(name, owner), decide):
            raise await self._missing(name, owner)

    async def _missing(self, name: str, owner: str | None) -> NotFoundError:
        known = [view.name for view in await self.list(owner=owner) if not view.unreadable]
        return NotFoundError("view", name, near=nearest(name, known), fix="stepwell view ls")

    # Last, because below it `list` is this method.
    async def list(self, *, owner: str | None = None) -> list[SavedView]:
        """The views that this person can use, by name: their own, and the shared ones."""
        found: list[SavedView] = []
        for whose in dict.fromkeys((owner, None)):
            page = await self._records.list(labels=(_label(whose),), limit=PAGE)
            found += [_listed(one, whose) for one in page]
            while len(page) == PAGE:
                page = await self._records.list(labels=(_label(whose),), limit=PAGE, after=page[-1].record.record_id)
                found += [_listed(one, whose) for one in page]
        return sorted(found, key=lambda view: (view.name, view.owner is None))


def _where(body: SavedViewBody) -> str:
    return f"{body.filter} sort:{body.sort}" if body.sort else body.filter


def _is_saved(it: Document[SavedViewBody] | None, body: SavedViewBody) -> bool:
    """Whether the view is saved exactly like that already."""
    return it is not None and it.record.is_open and it.content == body


def _id(name: str, owner: str | None) -> str:
    """The id of a view: a digest, because names and owners may be as long as an id."""
    whose = _label(owner)
    return hashlib.blake2b(f"{whose}\x1f{name}".encode(), digest_size=16).hexdigest()


def _label(owner: str | None) -> str:
    return _SHARED if owner is None else f"of {owner}"


def _check_owner(owner: Any) -> None:
    if owner is not None and (not isinstance(owner, str) or not 0 < len(owner) <= OWNER_MAX):
        raise InvalidOptionError(f"owner is {owner!r:.60}", fix=f"a name of 1 to {OWNER_MAX} characters, or None")


def _check_columns(columns: Sequence[str]) -> list[str]:
    if isinstance(columns, str):
        raise InvalidOptionError(f"columns is {columns!r:.60}", fix='a list: columns=["key", "status"]')
    for column in columns:
        if column not in COLUMNS and not _is_attribute(column):
            raise InvalidOptionError(f"there is no column {column!r:.60}", fix=_choices(column, COLUMNS))
    if len(columns) > COLUMNS_MAX:
        raise InvalidOptionError(f"a view has at most {COLUMNS_MAX} columns", fix="leave some out")
    return list(dict.fromkeys(columns))


def _check_sort(sort: str) -> str:
    field = str(sort).removeprefix("-")
    if sort and field not in list(SortKey) and not _is_attribute(field):
        raise InvalidOptionError(f"runs cannot be sorted by {sort!r:.60}", fix=_choices(field, list(SortKey)))
    return sort


def _is_attribute(field: Any) -> bool:
    """Whether it names an attribute of runs, as in attr.amount."""
    is_one = isinstance(field, str) and field.startswith(_ATTRIBUTE)
    return is_one and is_attribute_name(field.removeprefix(_ATTRIBUTE))


def _choices(field: Any, known: Sequence[str]) -> str:
    near = nearest(str(field), known)
    return f"did you mean {near[0]!r}?" if near else f"one of {', '.join(known)}, or {_ATTRIBUTE}NAME"


def _listed(one: Document[SavedViewBody], owner: str | None) -> SavedView:
    """A view in a list, which shows the others too."""
    if one.problem is None:
        return _view(one)
    saved_at = to_datetime(one.record.updated_at)
    return SavedView(one.record.record_id, owner, "", (), "", "", saved_at, unreadable=one.problem.title)


def _view(one: Document[SavedViewBody]) -> SavedView:
    body = one.body
    return SavedView(
        body.name,
        body.owner,
        body.filter,
        tuple(body.columns),
        body.sort,
        body.by,
        to_datetime(one.record.updated_at),
    )
