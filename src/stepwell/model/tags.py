"""Tags: short texts, with or without a value, that people put on a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, Final

from stepwell.errors import InvalidOptionError

TAGS_MAX: Final = 20
TAG_NAME_MAX: Final = 60
TAG_VALUE_MAX: Final = 200

Tags = tuple[tuple[str, str], ...]  # names with values, by name; a plain tag has the empty value
TagsLike = Mapping[str, str] | Set[str]

TRACE_TAG: Final = "traceparent"  # carries the context of a trace, from a start to its run and on to its children


def read_tags(tags: TagsLike, where: str) -> Tags:
    """Tags in their stored form. Raises `InvalidOptionError`."""
    if isinstance(tags, Mapping):
        pairs: list[tuple[Any, Any]] = list(tags.items())
    elif isinstance(tags, Set):
        pairs = [(name, "") for name in tags]
    else:
        raise _bad_tags(where, f"they are a {type(tags).__name__}")
    for name, value in pairs:
        if not isinstance(name, str) or not isinstance(value, str):
            raise _bad_tags(where, f"{name!r}: {value!r} is not text")
        if not 0 < len(name) <= TAG_NAME_MAX or name != name.strip() or "=" in name or not name.isprintable():
            raise _bad_tags(where, f"the name {name[:80]!r} is blank, too long or has forbidden characters")
        if len(value) > TAG_VALUE_MAX or (value and not value.isprintable()):
            raise _bad_tags(where, f"the value of {name!r} is too long or has control characters")
    return _stored(dict(pairs), where)


def with_tags(tags: Tags, added: Tags, where: str) -> Tags:
    """Tags with others added; a tag with the same name is replaced. Raises `InvalidOptionError` for too many."""
    return _stored({**dict(tags), **dict(added)}, where)


def without_tags(tags: Tags, names: Iterable[str]) -> Tags:
    """Tags without those of these names."""
    removed = frozenset(names)
    return tuple(tag for tag in tags if tag[0] not in removed)


def _stored(tags: dict[str, str], where: str) -> Tags:
    if len(tags) > TAGS_MAX:
        raise _bad_tags(where, f"there are {len(tags)} of them")
    return tuple(sorted(tags.items()))


def _bad_tags(where: str, why: str) -> InvalidOptionError:
    return InvalidOptionError(
        "these tags cannot be stored",
        where=where,
        why=why,
        fix=f'a dict such as {{"team": "payments"}} or a set such as {{"vip"}}: up to {TAGS_MAX} tags, names of up to '
        f"{TAG_NAME_MAX} characters without =, values of up to {TAG_VALUE_MAX}",
    )
