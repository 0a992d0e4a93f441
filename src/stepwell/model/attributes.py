"""Attributes: typed values by which people find and sort runs, and the title of a run. They are stored in plain."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, NamedTuple

from stepwell.clock import Instant, to_datetime, to_instant
from stepwell.errors import InvalidOptionError
from stepwell.model.tags import Tags

ATTRIBUTES_MAX: Final = 32
ATTRIBUTE_NAME_MAX: Final = 60
ATTRIBUTE_TEXT_MAX: Final = 200
DIGITS_MAX: Final = 100
TITLE_MAX: Final = 200
OWN: Final = "stepwell."  # before the names of attributes that stepwell itself sets
PERSON_MAX: Final = 200

AttributeValue = str | bool | int | float | Decimal | datetime

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_POWER_MAX: Final = 400  # a number is between 1e-400 and 1e400, so every float is
_POWER_OFFSET: Final = 1_000
_POWER_END: Final = 9_999
_PLACES_MAX: Final = 60  # behind the point, of a number that is shown as it was given
_TIME_OFFSET: Final = 10**17  # microseconds; the year 1 is above zero
_ABOVE_DIGITS: Final = "~"
_MIRRORED: Final = str.maketrans("0123456789", "9876543210")


class AttributeKind(StrEnum):
    """The type of an attribute. The letter is stored."""

    BOOLEAN = "b"
    NUMBER = "n"
    TEXT = "t"
    TIME = "w"

    @property
    def word(self) -> str:
        """The kind as a word for people."""
        return "text" if self is AttributeKind.TEXT else f"a {self.name.lower()}"


class Attribute(NamedTuple):
    """One attribute in its stored form.

    `value` is the letter of the kind, then the value in a spelling that is ordered like the values: compared character
    by character, two numbers are in the order of the numbers. An empty `value` means that the attribute is removed.
    """

    name: str
    value: str
    shown: str = ""  # the digits of a number as they were given, if they differ from the shortest ones: 42.10

    @property
    def kind(self) -> AttributeKind:
        """The type of its value."""
        return AttributeKind(self.value[0])


Attributes = tuple[Attribute, ...]  # by name


class Description(NamedTuple):
    """What a commit changes of how its run is described."""

    attributes: Attributes = ()  # only the changed ones
    title: str | None = None  # None: unchanged; empty: removed
    tags: Tags | None = None  # None: unchanged; else all of them


# --- as people give them ---


def read_attributes(given: Any, where: str, *, may_remove: bool = False, may_be_own: bool = False) -> Attributes:
    """Attributes in their stored form. None removes one, if that is possible. Raises `InvalidOptionError`, also for a
    name of an attribute that stepwell itself sets, unless `may_be_own`.
    """
    if not isinstance(given, Mapping):
        raise InvalidOptionError(
            f"attributes are a {type(given).__name__}",
            where=where,
            why="each attribute has a name and a value",
            fix='attributes={"region": "eu", "amount": 42}',
        )
    own = next((name for name in given if isinstance(name, str) and name.startswith(OWN)), None)
    if own is not None and not may_be_own:
        raise InvalidOptionError(
            f"attribute {own!r:.80} is set by stepwell itself",
            where=where,
            fix=f"a name that does not begin with {OWN}",
        )
    read = [
        Attribute(_check_name(name, where), "")
        if value is None and may_remove
        else read_attribute(name, value, where, may_remove=may_remove)
        for name, value in given.items()
    ]
    if sum(not one.name.startswith(OWN) for one in read) > ATTRIBUTES_MAX:
        raise _too_many(len(read), where)
    return tuple(sorted(read))


def read_attribute(name: Any, value: Any, where: str, *, may_remove: bool = False) -> Attribute:
    """One attribute in its stored form. Raises `InvalidOptionError`."""
    named = _check_name(name, where)
    match value:
        case bool():
            return Attribute(named, f"{AttributeKind.BOOLEAN.value}{int(value)}")
        case int() | float() | Decimal():
            return _number(named, value, where)
        case str():
            return Attribute(named, AttributeKind.TEXT.value + _check_text(named, value, where))
        case datetime():
            instant = to_instant(value, what=f"attribute {named!r}")
            return Attribute(named, write_time(instant))
        case _:
            removes = "; None removes an attribute" if may_remove else ""
            raise InvalidOptionError(
                f"attribute {named!r} is a {type(value).__name__}",
                where=where,
                why=f"an attribute is text, a number, a boolean or a time{removes}",
                fix=f'give {named}=str(…), or a part of it that is text or a number, such as "eu" or 42',
            )


def is_attribute_name(name: str) -> bool:
    """Whether an attribute may have this name: then a filter can spell it."""
    return len(name) <= ATTRIBUTE_NAME_MAX and _NAME.fullmatch(name) is not None


def check_changes(attributes: Attributes, changes: Attributes, where: str) -> None:
    """Raise `InvalidOptionError` if a change gives an attribute another type, or makes the attributes too many."""
    known = {one.name: one for one in attributes}
    for one in changes:
        was = known.get(one.name)
        if was is not None and one.value and was.kind is not one.kind:
            raise InvalidOptionError(
                f"attribute {one.name!r} is {was.kind.word} in this run, and {show(one)!r} is {one.kind.word}",
                where=where,
                why="an attribute of a run keeps its type, so that runs can be compared and sorted by it",
                fix=f"give {was.kind.word}, or another name; or remove it first: ctx.set_attributes({one.name}=None)",
            )
    count = sum(not one.name.startswith(OWN) for one in merged(attributes, changes))
    if count > ATTRIBUTES_MAX:
        raise _too_many(count, where)


def read_title(title: Any, where: str) -> str:
    """A title in its stored form. Raises `InvalidOptionError`."""
    return _check_line(title, "title", TITLE_MAX, where, 'title="Order for Ann"')


def read_person(person: Any, where: str) -> str:
    """The name of who starts a run. Raises `InvalidOptionError`."""
    return _check_line(person, "by", PERSON_MAX, where, 'by="ann"')


# --- as people see them ---


def read_value(attribute: Attribute) -> AttributeValue:
    """The value of an attribute: a text, a boolean, an int, a Decimal, or a datetime in UTC. Raises `ValueError`."""
    try:
        return _read_value(attribute)
    except ArithmeticError as error:
        raise ValueError(f"attribute {attribute.name!r} cannot be read: {attribute.value!r}") from error


def _read_value(attribute: Attribute) -> AttributeValue:
    spelled = attribute.value[1:]
    match attribute.kind:
        case AttributeKind.TEXT:
            return spelled
        case AttributeKind.BOOLEAN:
            return spelled == "1"
        case AttributeKind.TIME:
            return to_datetime(Instant(int(spelled) - _TIME_OFFSET))
        case AttributeKind.NUMBER:
            number = Decimal(attribute.shown) if attribute.shown else read_number(spelled)
            is_whole = _exponent(number) >= 0 and number.adjusted() < DIGITS_MAX
            return int(number) if is_whole else number


def show(attribute: Attribute) -> str:
    """The value of an attribute in words."""
    return show_value(read_value(attribute))


def show_value(value: AttributeValue) -> str:
    """A value in words."""
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case _:
            return str(value)


# --- stored forms ---


def write_number(number: Decimal) -> str:
    """A finite number with its kind, in a spelling that is ordered like the numbers."""
    letter, digits, power = AttributeKind.NUMBER.value, _digits(number), _POWER_OFFSET + number.adjusted()
    if not digits:
        return f"{letter}1"
    if not number.is_signed():
        return f"{letter}2{power:04}{digits}"
    return f"{letter}0{_POWER_END - power:04}{digits.translate(_MIRRORED)}{_ABOVE_DIGITS}"


def read_number(spelled: str) -> Decimal:
    """The number that `write_number` spelled, without the letter of the kind."""
    sign, power, digits = spelled[0], spelled[1:5], spelled[5:]
    if sign == "1":
        return Decimal(0)
    if sign == "2":
        return _decimal(0, digits, int(power))
    return _decimal(1, digits.removesuffix(_ABOVE_DIGITS).translate(_MIRRORED), _POWER_END - int(power))


# Arithmetic on decimals rounds, so numbers are taken apart and put together.
def _digits(number: Decimal) -> str:
    return "".join(map(str, number.as_tuple().digits)).strip("0")


def _exponent(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)  # it is finite
    return exponent


def _decimal(sign: int, digits: str, power: int) -> Decimal:
    return Decimal((sign, tuple(map(int, digits)), power - _POWER_OFFSET - len(digits) + 1))


def write_time(instant: Instant) -> str:
    """A time with its kind, in a spelling that is ordered like the times."""
    return f"{AttributeKind.TIME.value}{instant + _TIME_OFFSET:018}"


def merged(attributes: Attributes, changes: Attributes) -> Attributes:
    """Attributes after changes."""
    if not changes:
        return attributes
    known = {one.name: one for one in attributes} | {one.name: one for one in changes}
    return tuple(known[name] for name in sorted(known) if known[name].value)


def combined(first: Description | None, second: Description) -> Description:
    """Two changes as one."""
    if first is None:
        return second
    named = {one.name: one for one in first.attributes} | {one.name: one for one in second.attributes}
    return Description(
        tuple(named[name] for name in sorted(named)),
        first.title if second.title is None else second.title,
        first.tags if second.tags is None else second.tags,
    )


# --- inside ---


def _number(name: str, value: int | float | Decimal, where: str) -> Attribute:
    # The shortest digits of a float are what people see: 0.1, and not 0.1000000000000000055511151231257827.
    number = Decimal(repr(value + 0.0)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise InvalidOptionError(
            f"attribute {name!r} is {value}",
            where=where,
            why="runs are sorted by attributes, and it has no place among numbers",
            fix=f"give a finite number, such as {name}=42, or leave it out",
        )
    digits = _digits(number)
    if len(digits) > DIGITS_MAX or (digits and abs(number.adjusted()) > _POWER_MAX):
        raise InvalidOptionError(
            f"the number of attribute {name!r} is too long, too large or too small",
            where=where,
            why=f"a number has at most {DIGITS_MAX} digits and is between 1e-{_POWER_MAX} and 1e{_POWER_MAX}",
            fix=f"round it, or give it as text: {name}=str(…)",
        )
    stored = Attribute(name, write_number(number))
    if isinstance(value, Decimal) and digits and -_PLACES_MAX <= _exponent(number) < 0:
        plain = f"{number:f}"
        return stored if plain == show(stored) else stored._replace(shown=plain)
    return stored


def _check_name(name: Any, where: str) -> str:
    if isinstance(name, str) and is_attribute_name(name):
        return "" + name  # of a subclass, the text itself
    raise InvalidOptionError(
        f"{name!r:.80} is not the name of an attribute",
        where=where,
        why=f"a name has up to {ATTRIBUTE_NAME_MAX} letters a to z, digits, _ and -, and begins with a letter or _; "
        "parts may be joined by dots: then filters can name it, as in attr.region:eu",
        fix='give a name such as "region" or "order.amount"',
    )


def _check_text(name: str, text: str, where: str) -> str:
    if len(text) <= ATTRIBUTE_TEXT_MAX and (not text or text.isprintable()):
        return text
    has = f"{len(text)} characters" if len(text) > ATTRIBUTE_TEXT_MAX else "a control character or a line break"
    raise InvalidOptionError(
        f"the text of attribute {name!r} has {has}",
        where=where,
        why=f"it is one line of at most {ATTRIBUTE_TEXT_MAX} printable characters, because lists of runs show it",
        fix=f"shorten it: {name}=text[:{ATTRIBUTE_TEXT_MAX}]; what is longer belongs into the input or the result",
    )


def _check_line(text: Any, what: str, limit: int, where: str, fix: str) -> str:
    if isinstance(text, str) and 0 < len(text) <= limit and text == text.strip() and text.isprintable():
        return "" + text
    raise InvalidOptionError(
        f"{what} is {text!r:.80}",
        where=where,
        why=f"it is one line of 1 to {limit} printable characters, without blanks around it",
        fix=fix,
    )


def _too_many(count: int, where: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"this run would have {count} attributes",
        where=where,
        why=f"a run has at most {ATTRIBUTES_MAX}, because each of them is in an index",
        fix="keep those by which people look for runs, and remove others with None: ctx.set_attributes(old=None)",
    )
