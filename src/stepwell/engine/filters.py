"""The filter language: one line of text that selects runs, the same in Python, on the command line and over HTTP.

    status:failed,paused workflow:order* error:"stock API" since:24h attr.amount:>100 -tag:test sort:-started

A run matches if it meets every term. Values separated by commas are alternatives. Prefix a term with `-` to exclude it.
`*` matches any text. Text in double quotes is literal; write `\\"` for a quote in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, NoReturn

from stepwell.clock import Instant, span, to_instant
from stepwell.engine.terms import Term, Value, fail, read_terms
from stepwell.errors import FilterError, InvalidKeyError, InvalidOptionError
from stepwell.ids import RunId
from stepwell.model.attributes import (
    Attribute,
    AttributeKind,
    is_attribute_name,
    read_attribute,
    show,
    write_time,
)
from stepwell.model.runs import normal_key
from stepwell.model.states import ACTIVE, TERMINAL, RunStatus, WaitKind
from stepwell.nearest import nearest
from stepwell.stores.base.filters import (
    ASCII_LOWER,
    AttributeTest,
    Condition,
    Field,
    Order,
    Pattern,
    Relation,
    SortKey,
)
from stepwell.stores.base.views import RunFilter, ViewStore

_STATUSES: Final[dict[str, frozenset[RunStatus]]] = {
    **{status.value: frozenset({status}) for status in RunStatus},
    "rollback_incomplete": frozenset({RunStatus.COMPENSATION_FAILED}),
    "active": ACTIVE,
    "ended": TERMINAL,
}
_FAILED: Final = frozenset(RunStatus) - {RunStatus.COMPLETED, RunStatus.CONTINUED}
_NOWHERE: Final = Condition(Field.ID, ())
_VERSION_MAX: Final = 2**53
_BEGINNING: Final = 0  # nothing was created before the epoch
_AGES: Final = 2**62
_ATTRIBUTE: Final = "attr."
_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?", re.ASCII)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_RELATIVE: Final = re.compile(r"now(?:([+-])(.+))?")
_BARE: Final = re.compile(r"true|false|null|-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")  # JSON without quotes


def parse_filter(text: str, now: Instant) -> RunFilter:
    """The filter that a text describes; times count back from `now`. Raises `FilterError` with place and cause."""
    draft = _Draft(text, now)
    for term in read_terms(text):
        draft.add(term)
    return draft.finish()


async def fitted(where: RunFilter, views: ViewStore) -> RunFilter:
    """A filter that compares attributes only with values of the types that they have in this store.

    Raises `FilterError` if an attribute has another type in every run.
    """
    if not any(one.field is Field.ATTRIBUTE for one in where.conditions):
        return where
    conditions = [
        one if one.field is not Field.ATTRIBUTE else _fit(one, await views.list_attribute_kinds(one.path))
        for one in where.conditions
    ]
    return where._replace(conditions=tuple(conditions))


def _fit(condition: Condition, kinds: list[AttributeKind]) -> Condition:
    fits = tuple(value for value in condition.values if _kind_of(value) in (None, *kinds))
    if fits or not kinds or not condition.values:
        return condition._replace(values=fits or condition.values)
    name, has = condition.path, " or ".join(kind.word for kind in kinds)
    test, *rest = condition.values[0]
    kind = _kind_of(condition.values[0])
    assert kind is not None
    given = "*".join(rest) if test == AttributeTest.LIKE else show(Attribute(name, rest[0]))
    sign = "" if test in (AttributeTest.IS, AttributeTest.LIKE) else test
    match kinds[0]:
        case AttributeKind.TEXT:
            example = f'{sign}"{given}"'
        case AttributeKind.NUMBER:
            example = f"{sign}100"
        case AttributeKind.TIME:
            example = f"{sign or '<'}2026-01-31"
        case AttributeKind.BOOLEAN:
            example = "true"
    raise FilterError(
        f"attribute {name!r} is {has}, and {given} is {kind.word}",
        where=f"attr.{name}",
        why="no run has such an attribute; values are compared only with values of the same type",
        fix=f"write attr.{name}:{example}",
    )


def _kind_of(value: Pattern) -> AttributeKind | None:
    """The type of attribute that meets a value of a condition; None for any type."""
    if value[0] == AttributeTest.ANY:
        return None
    return AttributeKind.TEXT if value[0] == AttributeTest.LIKE else AttributeKind(value[1][0])


class _Draft:
    """A filter that is being parsed. Terms that an index supports are kept separately."""

    def __init__(self, text: str, now: Instant) -> None:
        self._text = text
        self._now = now
        self._statuses = frozenset(RunStatus)
        self._exact: dict[str, str] = {}  # a field of `RunFilter` → its value
        self._order: Order | None = None
        self._conditions: list[Condition] = []

    def add(self, term: Term) -> None:
        """Add one term."""
        if term.field is None:
            self._conditions.append(Condition(Field.WORD, (_contained(term.values[0]),), term.negated))
            return
        field, _, path = term.field.partition(".")
        read = _FIELDS.get(field)
        if read is None or bool(path) != (field in _WITH_PATH):
            self._unknown(term)
        read(self, term)

    def finish(self) -> RunFilter:
        """The filter."""
        if not self._statuses:
            self._conditions.append(_NOWHERE)
        is_any = not self._statuses or len(self._statuses) == len(RunStatus)
        parent = self._exact.get("parent")
        return RunFilter(
            statuses=() if is_any else tuple(status for status in RunStatus if status in self._statuses),
            workflow=self._exact.get("workflow"),
            key=self._exact.get("key"),
            parent=None if parent is None else RunId(parent),
            conditions=tuple(self._conditions),
            order=self._order or Order(),
        )

    # --- one for each field ---

    def status(self, term: Term) -> None:
        """Runs in one of these statuses."""
        named: frozenset[RunStatus] = frozenset()
        for value in term.values:
            word = value.text.lower()
            if word not in _STATUSES:
                fix = _INSTEAD.get(word) or _choices(word, list(_STATUSES))
                fail(self._text, value.start, f"unknown status {value.text!r}", fix=fix)
            named |= _STATUSES[word]
        self._statuses &= frozenset(RunStatus) - named if term.negated else named

    def workflow(self, term: Term) -> None:
        """Runs of these workflows."""
        self._patterns(Field.WORKFLOW, term, lambda value: value.pieces)

    def key(self, term: Term) -> None:
        """Runs with such a key, in its normal spelling."""
        self._patterns(Field.KEY, term, self._key_pieces)

    def id(self, term: Term) -> None:
        """Runs with such an id; ids are in lower case."""
        self._patterns(Field.ID, term, lambda value: tuple(piece.lower() for piece in value.pieces))

    def parent(self, term: Term) -> None:
        """The children of one run."""
        first, *others = term.values
        if term.negated or others or "parent" in self._exact or len(first.pieces) > 1:
            fail(self._text, term.start, "parent: takes the id of one run", fix="write parent:ID")
        self._exact["parent"] = first.text.lower()

    def at(self, term: Term) -> None:
        """Runs whose failure is at such a path."""
        self._patterns(Field.AT, term, lambda value: value.pieces)
        self._only(_FAILED, term)

    def error(self, term: Term) -> None:
        """Runs whose error contains such a text."""
        self._patterns(Field.ERROR, term, _contained)
        self._only(_FAILED, term)

    def tag(self, term: Term) -> None:
        """Runs with a tag of this name, or of this name and value."""
        self._patterns(Field.TAG, term, _tag_pieces)

    def attr(self, term: Term) -> None:
        """Runs with an attribute that has one of these values, or is above or below one."""
        name = self._attribute_name((term.field or "").partition(".")[2], term.start)
        tests = tuple(dict.fromkeys(test for value in term.values for test in self._attribute_tests(name, value)))
        self._conditions.append(Condition(Field.ATTRIBUTE, tests, term.negated, name))

    def title(self, term: Term) -> None:
        """Runs whose title contains such a text."""
        self._patterns(Field.TITLE, term, _contained)

    def started_by(self, term: Term) -> None:
        """Runs that one of these people started."""
        self._patterns(Field.STARTED_BY, term, lambda value: value.pieces)

    def waiting(self, term: Term) -> None:
        """Runs with a wait of this kind, or of this kind and name."""
        self._patterns(Field.WAITING, term, self._wait_pieces)
        self._only(ACTIVE, term)

    def input(self, term: Term) -> None:
        """Runs whose input has one of these values at a path."""
        path = (term.field or "").partition(".")[2]
        texts = [(text,) for value in term.values for text in self._json_texts(value)]
        self._conditions.append(Condition(Field.INPUT, tuple(texts), term.negated, path))

    def since(self, term: Term) -> None:
        """Runs created after this time."""
        self._moment(term, Relation.FROM)

    def until(self, term: Term) -> None:
        """Runs created before this time."""
        self._moment(term, Relation.UP_TO)

    def version(self, term: Term) -> None:
        """Runs of such a version of their workflow."""
        self._numbers(Field.VERSION, term, self._version_number)

    def took(self, term: Term) -> None:
        """Ended runs that took so long."""
        self._numbers(Field.TOOK, term, self._took_number)

    def sort(self, term: Term) -> None:
        """The order of the runs."""
        value = term.values[0]
        name = value.text.removeprefix("-")
        if term.negated:
            fail(self._text, term.start, "an order cannot be excluded by -sort:", fix=f"write sort:-{name}")
        if self._order is not None or len(term.values) > 1:
            fail(self._text, term.start, "there can be only one order", fix="remove one sort:")
        if name.startswith(_ATTRIBUTE):
            named = self._attribute_name(name.removeprefix(_ATTRIBUTE), value.start)
            self._order = Order(descending=value.text.startswith("-"), attribute=named)
            return
        if name not in list(SortKey):
            fix = _choices(name, [*(by.value for by in SortKey), f"{_ATTRIBUTE}NAME"])
            fail(self._text, value.start, f"runs cannot be sorted by {name!r}", fix=fix)
        self._order = Order(SortKey(name), value.text.startswith("-"))

    # --- inside ---

    def _patterns(self, field: Field, term: Term, pieces: Callable[[Value], tuple[str, ...]]) -> None:
        values = tuple(pieces(value) for value in term.values)
        is_exact = len(values) == 1 and len(values[0]) == 1 and not term.negated
        if is_exact and field in (Field.WORKFLOW, Field.KEY) and field.value not in self._exact:
            self._exact[field.value] = values[0][0]
        else:
            self._conditions.append(Condition(field, values, term.negated))

    def _only(self, statuses: frozenset[RunStatus], term: Term) -> None:
        """Only runs in these statuses can match the term. Stating it lets the store use the index by status."""
        if not term.negated:
            self._statuses &= statuses

    def _key_pieces(self, value: Value) -> tuple[str, ...]:
        if len(value.pieces) > 1:
            return tuple(piece.casefold() for piece in value.pieces)
        try:
            return (normal_key(value.text),)
        except InvalidKeyError as error:
            fail(self._text, value.start, error.title, why=error.why)

    def _wait_pieces(self, value: Value) -> tuple[str, ...]:
        kind, colon, _ = value.pieces[0].partition(":")
        kinds = [kind.value for kind in WaitKind]
        if kind not in kinds or (len(value.pieces) > 1 and not colon):
            fix = _choices(kind, kinds) + "; and with a name: waiting:signal:NAME"
            fail(self._text, value.start, f"no run waits for {value.text!r}", fix=fix)
        return value.pieces if colon else (f"{kind}:", "")

    def _attribute_name(self, name: str, start: int) -> str:
        if is_attribute_name(name):
            return name
        fail(self._text, start, f"no attribute is named {name!r}", fix="write attr.NAME:VALUE, as in attr.region:eu")

    def _attribute_tests(self, name: str, value: Value) -> list[Pattern]:
        sign = next((sign for sign in ("<=", ">=", "<", ">", "=") if value.text.startswith(sign)), "")
        if len(value.pieces) > 1:
            if sign:
                fix = f"write attr.{name}:{value.text.removeprefix(sign)}, without {sign}"
                fail(self._text, value.start, "a text with * has no place in an order", fix=fix)
            return [
                (AttributeTest.ANY.value,) if value.pieces == ("", "") else (AttributeTest.LIKE.value, *value.pieces)
            ]
        text = value.text.removeprefix(sign)
        if sign and not text and not value.is_quoted:
            fail(self._text, value.start, f"attr.{name}:{sign} has no value", fix=f"write a value, as in {sign}100")
        found = [self._attribute_text(name, value, text)]
        if not value.is_quoted:
            found = self._attribute_values(name, value, text, may_be_relative=sign not in ("", "=")) or found
        if sign in ("", "="):
            if not value.is_quoted and found[0][0] != AttributeKind.TEXT.value:
                found.append(self._attribute_text(name, value, text))
            return [(AttributeTest.IS.value, one) for one in found]
        if found[0][0] == AttributeKind.BOOLEAN.value:
            fail(self._text, value.start, f"{text} has no place in an order", fix=f"write attr.{name}:{text}")
        return [(AttributeTest(sign).value, found[0])]

    def _attribute_text(self, name: str, value: Value, text: str) -> str:
        try:
            return read_attribute(name, text, "").value
        except InvalidOptionError as error:
            fail(
                self._text, value.start, error.title, why=error.why, fix="write a shorter text, or its beginning and *"
            )

    def _attribute_values(self, name: str, value: Value, text: str, *, may_be_relative: bool) -> list[str]:
        """What an unquoted text spells besides itself: a number, a boolean or a time."""
        if text in ("true", "false"):
            return [read_attribute(name, text == "true", "").value]
        if _NUMBER.fullmatch(text):
            try:
                return [read_attribute(name, Decimal(text), "").value]
            except InvalidOptionError as error:
                fail(self._text, value.start, error.title, why=error.why, fix="write a number with fewer digits")
        relative = _RELATIVE.fullmatch(text) if may_be_relative else None
        if relative is not None:
            return [write_time(self._relative(value, relative[1] or "+", relative[2] or "0s"))]
        if _DATE.match(text):
            try:
                when = datetime.fromisoformat(text)
                return [write_time(to_instant(when if when.tzinfo else when.replace(tzinfo=UTC)))]
            except (ValueError, OverflowError):
                return []
        return []

    def _relative(self, value: Value, sign: str, lasts: str) -> Instant:
        try:
            away = span(lasts)
        except (InvalidOptionError, OverflowError):
            fail(self._text, value.start, f"{value.text!r} is not a time", fix="write now, now-24h or now+7d")
        return Instant(self._now - away if sign == "-" else self._now + away)

    def _json_texts(self, value: Value) -> list[str]:
        if len(value.pieces) > 1:
            fail(self._text, value.start, "a value in the input is compared whole", fix='put a "*" into quotes')
        texts = [json.dumps(value.text, ensure_ascii=False)]
        if not value.is_quoted and _BARE.fullmatch(value.text):
            texts.append(value.text)
        return texts

    def _moment(self, term: Term, relation: Relation) -> None:
        value = term.values[0]
        if term.negated or len(term.values) > 1:
            fix = "since: and until: are opposites, and each takes one time"
            fail(self._text, term.start, f"{term.field}: takes one time and no -", fix=fix)
        self._conditions.append(Condition(Field.CREATED, ((relation.value, str(self._instant(value))),)))

    def _instant(self, value: Value) -> int:
        try:
            return max(self._now - span(value.text), _BEGINNING)
        except (InvalidOptionError, OverflowError):
            pass
        try:
            when = datetime.fromisoformat(value.text)
            return to_instant(when if when.tzinfo else when.replace(tzinfo=UTC))
        except (ValueError, OverflowError):
            fix = "write how long ago (30m, 24h, 7d), or when (2026-01-31, 2026-01-31T09:30); times are in UTC"
            fail(self._text, value.start, f"{value.text!r} is not a time", fix=fix)

    def _numbers(self, field: Field, term: Term, read: Callable[[Value, str, bool], int]) -> None:
        found: list[tuple[str, str]] = []
        for value in term.values:
            sign = next((sign for sign in ("<=", ">=", "<", ">", "=") if value.text.startswith(sign)), "")
            found.append((sign or "=", str(read(value, value.text.removeprefix(sign), bool(sign)))))
        self._conditions.append(Condition(field, tuple(found), term.negated))

    def _version_number(self, value: Value, text: str, _: bool) -> int:
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 17 else -1
        if not 0 <= number <= _VERSION_MAX:
            fail(self._text, value.start, f"{text!r} is not a version", fix="write version:7 or version:<7")
        return number

    def _took_number(self, value: Value, text: str, has_sign: bool) -> int:
        fix = "write took:>30s or took:<5m"
        if not has_sign:
            fail(self._text, value.start, "took: needs < or >", fix=fix)
        try:
            return min(span(text), _AGES)
        except (InvalidOptionError, OverflowError):
            fail(self._text, value.start, f"{text!r} is not a duration", fix=fix)

    def _unknown(self, term: Term) -> NoReturn:
        field, _, path = (term.field or "").partition(".")
        if field in _WITH_PATH and not path:
            fail(self._text, term.start, f"{field}: needs a name", fix=f"write {field}.NAME:VALUE")
        if path and field in _FIELDS:
            fail(self._text, term.start, f"{field}: has no parts", fix=f"write {field}:VALUE")
        names = [f"{name}.NAME" if name in _WITH_PATH else name for name in _FIELDS]
        fix = f"{_choices(field, names)}; a word with a colon in it needs quotes"
        fail(self._text, term.start, f"a filter has no field {field!r}", fix=fix)


def _contained(value: Value) -> tuple[str, ...]:
    """A pattern that matches anywhere in a text, in any case."""
    pieces = [piece.translate(ASCII_LOWER) for piece in value.pieces]
    return ("", *pieces, "")


def _tag_pieces(value: Value) -> tuple[str, ...]:
    has_value = any("=" in piece for piece in value.pieces)
    return value.pieces if has_value else (*value.pieces[:-1], f"{value.pieces[-1]}=", "")


def _choices(word: str, known: list[str]) -> str:
    near = nearest(word, known)
    return (f"did you mean {' or '.join(near)}? " if near else "") + f"there are: {', '.join(known)}"


_FIELDS: Final[dict[str, Callable[[_Draft, Term], None]]] = {
    "status": _Draft.status,
    "workflow": _Draft.workflow,
    "version": _Draft.version,
    "key": _Draft.key,
    "id": _Draft.id,
    "parent": _Draft.parent,
    "at": _Draft.at,
    "error": _Draft.error,
    "waiting": _Draft.waiting,
    "tag": _Draft.tag,
    "attr": _Draft.attr,
    "title": _Draft.title,
    "started_by": _Draft.started_by,
    "input": _Draft.input,
    "since": _Draft.since,
    "until": _Draft.until,
    "took": _Draft.took,
    "sort": _Draft.sort,
}
_WITH_PATH: Final = frozenset({"attr", "input"})
# Words that people see for a stored status or wait.
_INSTEAD: Final = {
    "retrying": "write waiting:retry",
    "timed_out": "write error:DeadlineExceeded",
    "throttled": "write status:pending",
    "suspended": "write status:waiting",
}
