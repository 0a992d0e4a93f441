"""The ledger: requests that must not happen twice, and the audit of who did what."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from stepwell.clock import Instant

ACT_LAST: Final = (1 << 62) - 1  # above the number of every line
_TEXT_MAX: Final = 500
_SEPARATOR: Final = "\x1f"


class Reservation(NamedTuple):
    """A request that is carried out once per key."""

    scope: str  # within which the key is unique
    key: str
    fingerprint: str  # of the request: a key belongs to one request
    answer: str  # the answer, or the part that is known before the request is carried out
    kept_until: Instant


class Reserved(NamedTuple):
    """What is stored under a key."""

    fingerprint: str
    answer: str
    is_new: bool  # this call wrote it


class NewAct(NamedTuple):
    """A line for the audit. One request writes one line for each outcome."""

    request_id: str
    who: str
    act: str
    target: str
    outcome: str  # "asked" before it is done, then the status of the answer
    before: str = ""
    after: str = ""


class Act(NamedTuple):
    """A line of the audit. `chain` is a hash over the line and the `chain` of the line before it."""

    number: int  # from 1, without gaps
    at: Instant
    request_id: str
    who: str
    act: str
    target: str
    outcome: str
    before: str
    after: str
    chain: str


class ChainHead(NamedTuple):
    """The last line that was appended to the audit."""

    number: int = 0
    chain: str = ""


def storable(act: NewAct) -> NewAct:
    """The line with its texts shortened, in a form that every store can hold."""
    return NewAct(*(storable_text(text)[:_TEXT_MAX] for text in act))


def storable_text(text: str) -> str:
    """The text in a form that every store can hold."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()


def appended(head: ChainHead, at: Instant, act: NewAct) -> Act:
    """The line in its place after the last one."""
    line = Act(head.number + 1, at, *act, "")
    return line._replace(chain=chain_of(head.chain, line))


def chain_of(previous: str, line: Act) -> str:
    """The `chain` of a line that comes after a line with the `chain` `previous`."""
    text = _SEPARATOR.join((previous, *map(str, line[:-1])))
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


class Break(NamedTuple):
    """A place where the audit differs from what was written."""

    number: int  # of the line
    what: str


class Verified(NamedTuple):
    """The result of a check of the whole audit."""

    lines: int
    breaks: tuple[Break, ...] = ()  # oldest first


def verify(head: ChainHead, lines: Iterable[Act]) -> Verified:
    """Compare every line with its hash, oldest first, and the last one with the head."""
    last, count, breaks = ChainHead(), 0, list[Break]()
    for line in lines:
        count += 1
        if line.number > head.number:
            breaks.append(Break(line.number, "was not added by the store"))
            continue
        if line.number > last.number + 1:
            breaks.append(_missing(last.number + 1, line.number - 1))
        elif line.chain != chain_of(last.chain, line):
            breaks.append(Break(line.number, "was changed, or the line before it was"))
        last = ChainHead(line.number, line.chain)
    if last.number < head.number:
        breaks.append(_missing(last.number + 1, head.number))
    elif last != head:
        breaks.append(Break(head.number, "is not the line that was written"))
    return Verified(count, tuple(breaks))


def _missing(first: int, last: int) -> Break:
    return Break(first, "is missing" if first == last else f"is missing, and so are all up to {last}")
