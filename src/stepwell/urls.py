"""The parts of a URL, also if it names several hosts."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

DB_DEFAULT: Final = "sqlite:///stepwell.db"
DEV_DB: Final = "sqlite:///.stepwell/dev.db"  # of `stepwell dev`; in its folder it is the default of every command

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


_SECRET: Final = re.compile(r"pass|secret|token|key", re.IGNORECASE)
MASK: Final = "***"


def mask_url(url: str) -> str:
    """A URL without the password of its user, and without the values of options that look like secrets."""
    parts = split_url(url)
    if parts is None:
        return url if not {"@", "="}.intersection(url) else f"{url.partition(':')[0]}:{MASK}"
    login, at, host = parts.authority.rpartition("@")
    user, colon, _ = login.partition(":")
    options = [_mask_option(option) for option in parts.query.split("&")] if parts.query else []
    query = f"?{'&'.join(options)}" if options else ""
    fragment = "" if parts.fragment is None else f"#{parts.fragment}"
    return f"{parts.scheme}://{user}{colon and f':{MASK}'}{at}{host}{parts.path}{query}{fragment}"


def _mask_option(option: str) -> str:
    name, _, _ = option.partition("=")
    return f"{name}={MASK}" if _SECRET.search(name) else option
