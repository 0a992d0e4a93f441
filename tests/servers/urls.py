"""URLs of the same database for somebody else."""

from __future__ import annotations

from urllib.parse import quote, urlsplit, urlunsplit


def as_user(url: str, user: str | None = None, password: str | None = None) -> str:
    """The URL with another user, the same one by default, and with that password."""
    parts = urlsplit(url)
    name = parts.username or "" if user is None else quote(user, safe="")
    own = name if password is None else f"{name}:{quote(password, safe='')}"
    return urlunsplit(parts._replace(netloc=f"{own}@{parts.netloc.rpartition('@')[2]}"))
