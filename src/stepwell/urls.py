"""The parts of a URL, also of one that names several hosts."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

DB_DEFAULT: Final = "sqlite:///stepwell.db"
DEV_DB: Final = "sqlite:///.stepwell/dev.db"  # of `stepwell dev`; in its folder it is the default of every command

_PARTS = re.compile(r"([^:/?#]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)


class Parts(NamedTuple):
    """As they were written; `fragment` is None where there is no #."""

    scheme: str
    authority: str
    path: str
    query: str
    fragment: str | None


def split_url(url: str) -> Parts | None:
    """The parts of `scheme://authority/path?query#fragment`; None for what is none.

    Python's own refuses an address in brackets that is not the first of several hosts, as libpq's URLs may have it.
    """
    found = _PARTS.fullmatch(url.strip())
    if found is None:
        return None
    scheme, authority, path, query, fragment = found.groups()
    return Parts(scheme.lower(), authority, path, query or "", fragment)
