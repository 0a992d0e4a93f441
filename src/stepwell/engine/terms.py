"""The terms of a filter, split at blanks and commas that are not quoted."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NoReturn

from stepwell.errors import FilterError

LENGTH_MAX: Final = 4_000
TERMS_MAX: Final = 50
VALUES_MAX: Final = 200

_FIELD = re.compile(r"(-?)([A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*):")
_UNUSABLE = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")


class Value(NamedTuple):
    """One value of a term: the literal pieces between its stars."""

    pieces: tuple[str, ...]
    start: int
    is_quoted: bool = False

    @property
    def text(self) -> str:
        """As it was written, without quotes."""
        return "*".join(self.pieces)


class Term(NamedTuple):
    """One term; `field` is None if it is a plain word."""

    field: str | None
    values: tuple[Value, ...]
    start: int
    negated: bool = False


def fail(text: str, start: int, title: str, *, why: str = "", fix: str = "") -> NoReturn:
    """Reject a filter, with the place in it."""
    here = text[start : start + 40]
    raise FilterError(title, where=f"character {start + 1} of the filter: {here}", position=start, why=why, fix=fix)


def read_terms(text: str) -> list[Term]:
    """Split a filter into its terms."""
    if len(text) > LENGTH_MAX:
        fail(text, LENGTH_MAX, "the filter is too long", fix=f"a filter has at most {LENGTH_MAX:,} characters")
    if (found := _UNUSABLE.search(text)) is not None:
        fail(text, found.start(), "a filter must not contain control characters")
    terms: list[Term] = []
    at = _skip(text, 0)
    while at < len(text):
        term, at = _read_term(text, at)
        terms.append(term)
        at = _skip(text, at)
    if len(terms) > TERMS_MAX:
        fail(text, terms[TERMS_MAX].start, "the filter has too many terms", fix=f"at most {TERMS_MAX}")
    return terms


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _read_term(text: str, start: int) -> tuple[Term, int]:
    head = _FIELD.match(text, start)
    if head is None:
        return _read_word(text, start)
    values: list[Value] = []
    at = head.end() - 1
    while at < len(text) and text[at] in ":,":
        value, end = _read_value(text, at + 1, ",")
        if value.pieces == ("",) and not value.is_quoted:
            fix = 'write a value after it; an empty value is ""'
            fail(text, start, f"{head[2]}: has {'an empty' if values else 'no'} value", fix=fix)
        values.append(value)
        at = end
        if at >= len(text) or text[at] != ",":
            break
    if len(values) > VALUES_MAX:
        fail(text, start, f"{head[2]}: has too many values", fix=f"at most {VALUES_MAX}")
    return Term(head[2], tuple(values), start, bool(head[1])), at


def _read_word(text: str, start: int) -> tuple[Term, int]:
    negated = text[start] == "-"
    value, end = _read_value(text, start + negated, "")
    if value.pieces == ("",):
        fail(text, start, "a search term is missing here", fix="write a word, or field:value")
    if ":" in value.text and not value.is_quoted:
        fail(text, start, f"{value.text.partition(':')[0]!r} is not a field", fix="put a word with a colon into quotes")
    return Term(None, (value,), start, negated), end


def _read_value(text: str, start: int, stops: str) -> tuple[Value, int]:
    """A value up to the next unquoted blank or stop character."""
    pieces, piece = list[str](), list[str]()
    at, quoted_from, is_quoted = start, -1, False
    while at < len(text):
        letter = text[at]
        if quoted_from >= 0 and letter == "\\" and text[at + 1 : at + 2] in ('"', "\\"):
            at += 1
            piece.append(text[at])
        elif letter == '"':
            quoted_from, is_quoted = (at if quoted_from < 0 else -1), True
        elif quoted_from < 0 and (letter.isspace() or letter in stops):
            break
        elif quoted_from < 0 and letter == "*":
            pieces.append("".join(piece))
            piece = []
        else:
            piece.append(letter)
        at += 1
    if quoted_from >= 0:
        fail(text, quoted_from, "a quote is not closed", fix='write the closing " too; a quote within is \\"')
    return Value((*pieces, "".join(piece)), start, is_quoted), at
