"""Recordings without their texts, which can still be replayed.

A text becomes another text of the same kind: a UUID stays a UUID, a date a date, a decimal number a decimal number with
as many places; every other text becomes `text0001`, `text0002`, … Equal texts stay equal and different texts stay
different, because code compares them. Numbers, booleans, the shape of a value and the names of its fields do not
change, because code branches on them. The names of steps, signals and topics do not change either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from datetime import date, datetime, time, timedelta
from fnmatch import fnmatchcase
from typing import Any, Final
from uuid import UUID

import msgspec

from stepwell.check.histories import Recording
from stepwell.check.payloads import rewrite_all
from stepwell.codec.base import JSON_V1
from stepwell.errors.records import FailureRecord
from stepwell.model.attributes import Attribute, AttributeKind
from stepwell.model.entries import Entry
from stepwell.model.failures import decode_failure, encode_failure
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.headers import pack, unpack

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_DECIMAL: Final = re.compile(r"-?\d{1,28}(?:\.(\d{1,28}))?")
_SPAN: Final = re.compile(r"-?P(?=.)(?:\d+D)?(?:T(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?)?")
_FIRST: Final = date(2000, 1, 1)


def redact_recording(recording: Recording, *, keep: Collection[str] = ()) -> Recording:
    """The recording with its texts replaced. `keep` are patterns of paths ("input", "payment/*") or names of fields
    whose texts stay, for example because code branches on them.
    """
    mask = _Mask(keep)
    masked = rewrite_all(recording, mask.payload)
    run, history = masked.run, masked.history
    return masked._replace(
        is_redacted=True,
        run=run._replace(
            key=None if run.key is None else mask.text(run.key),
            reason=mask.text(run.reason),
            tags=tuple((name, mask.text(value)) for name, value in run.tags),
            title=None if run.title is None else mask.text(run.title),
            started_by=None if run.started_by is None else mask.text(run.started_by),
            attributes=tuple(mask.attribute(one) for one in run.attributes),
        ),
        history=history._replace(
            entries=tuple(
                one._replace(value=mask.description(one.value)) if _describes(one) else one for one in history.entries
            ),
            progress=tuple(one._replace(note=mask.text(one.note)) for one in history.progress),
            waits=tuple(one._replace(where=tuple(mask.text(facet) for facet in one.where)) for one in history.waits),
        ),
    )


def _describes(entry: Entry) -> bool:
    return entry.kind is EntryKind.DESCRIBE and entry.status is EntryStatus.DONE


class _Mask:
    """Gives each text a replacement, always the same one."""

    def __init__(self, keep: Collection[str]) -> None:
        self._keep = tuple(keep)
        self._given: dict[str, str] = {}

    def payload(self, path: str, payload: bytes) -> bytes:
        """A payload, or a failure, without its texts. An encrypted payload stays as it is."""
        if payload.startswith(b"{"):
            return encode_failure(self._failure(decode_failure(payload)))
        if not payload.startswith(JSON_V1) or self._keeps(path):
            return payload
        return JSON_V1 + msgspec.json.encode(self._value(msgspec.json.decode(payload[1:])))

    def text(self, text: str) -> str:
        """The replacement of a text."""
        if not text:
            return text
        if text not in self._given:
            self._given[text] = _replacement(text, len(self._given) + 1)
        return self._given[text]

    def attribute(self, attribute: Attribute) -> Attribute:
        """An attribute; only a text is replaced."""
        if not attribute.value or attribute.kind is not AttributeKind.TEXT or self._keeps(attribute.name):
            return attribute
        return attribute._replace(value=AttributeKind.TEXT.value + self.text(attribute.value[1:]))

    def description(self, value: bytes) -> bytes:
        """What code has said of its run; the names of attributes and tags stay."""
        (verb, said), rest = unpack(value)
        if verb == "set_attributes":
            said = [self.attribute(Attribute(*one)) for one in said]
        elif verb == "add_tags":
            said = [(name, self.text(tag)) for name, tag in said]
        elif verb == "set_title":
            said = said and self.text(said)
        return pack([verb, said], rest)

    def _keeps(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._keep)

    def _value(self, value: Any) -> Any:
        match value:
            case dict():
                return {
                    key if _NAME.fullmatch(key) else self.text(key): item if self._keeps(key) else self._value(item)
                    for key, item in value.items()
                }
            case list():
                return [self._value(item) for item in value]
            case str():
                return self.text(value)
            case _:
                return value

    def _failure(self, failure: FailureRecord) -> FailureRecord:
        """The type and the path stay, because code catches exceptions by type."""
        return msgspec.structs.replace(
            failure,
            message=self.text(failure.message),
            why=self.text(failure.why),
            fix=self.text(failure.fix),
            trace="",
            data=self._value(failure.data),
            causes={name: self._failure(cause) for name, cause in failure.causes.items()},
        )


def _replacement(text: str, number: int) -> str:
    for make in (_uuid, _decimal, _moment, _span):
        found = make(text, number)
        if found is not None:
            return found
    # Eight or twelve letters and digits are also valid Base64, which is how bytes are stored.
    return f"text{number:04d}" if number < 10_000 else f"text{number:08d}"


def _uuid(text: str, number: int) -> str | None:
    try:
        return str(UUID(int=number)) if str(UUID(text)) == text.lower() else None
    except ValueError:
        return None


def _decimal(text: str, number: int) -> str | None:
    found = _DECIMAL.fullmatch(text)
    if found is None:
        return None
    return str(number) if found[1] is None else f"{number}.{'0' * len(found[1])}"


def _moment(text: str, number: int) -> str | None:
    day = _FIRST + timedelta(days=number)
    readers: tuple[Callable[[str], object], ...] = (date.fromisoformat, time.fromisoformat, datetime.fromisoformat)
    for read in readers:
        try:
            found = read(text)
        except ValueError:
            continue
        if isinstance(found, datetime):
            return datetime(day.year, day.month, day.day, tzinfo=found.tzinfo).isoformat().replace("+00:00", "Z")
        if isinstance(found, date):
            return day.isoformat()
        return f"{number // 60 % 24:02d}:{number % 60:02d}:00"
    return None


def _span(text: str, number: int) -> str | None:
    return f"PT{number}S" if _SPAN.fullmatch(text) else None
