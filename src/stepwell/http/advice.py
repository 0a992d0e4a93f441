"""Advice as JSON: what to do next, with the request that does it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stepwell.advice import Advice


class AdviceBody(msgspec.Struct):
    """One thing to do next. `method` and `path` name the request that does it, and `command` is the line to type; they
    are empty if nothing of the kind does it.
    """

    verb: str
    target: str
    options: dict[str, str]
    note: str
    method: str
    path: str
    command: str


def advice_bodies(advice: Iterable[Advice]) -> list[AdviceBody]:
    """What to do next."""
    return [AdviceBody(**one.as_http()) for one in advice]
