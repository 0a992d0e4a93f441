"""The parts of a URL, also if it names several hosts."""

from __future__ import annotations

import re
from typing import NamedTuple

_PARTS = re.compile(r"([^:/?#]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)


class Parts(NamedTuple):
    """The parts as written; `fragment` is None if there is no #."""

    scheme: str
    authority: str
    path: str
    query: str
    fragment: str | None


def split_url(url: str) -> Parts | None:
    """The parts of `scheme://authority/path?query#fragment`; None if it is not such a URL.

    Python's own function rejects an address in brackets after the first of several hosts, which libpq allows.
    """
    found = _PARTS.fullmatch(url.strip())
    if found is None:
        return None
    scheme, authority, path, query, fragment = found.groups()
    return Parts(scheme.lower(), authority, path, query or "", fragment)
