"""Switches that break plain functions, published state and streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.replay.plain import PlainCode

Patches = list[tuple[Any, str, Any]]


def plain_answer_lost() -> Patches:
    """A plain function that lost its strand is not told the last answer when it is run again."""
    original = PlainCode._enter

    def enter(self: PlainCode) -> None:
        if self._told:
            self._told.pop()
        original(self)

    return [(PlainCode, "_enter", enter)]


def plain_chance_forgotten() -> Patches:
    """A plain function that is run again draws new chances, and reads a later time."""

    def read(self: PlainCode, what: str, read: Callable[[], Any]) -> Any:
        return read()

    return [(PlainCode, "read", read)]


LIVE_SWITCHES: dict[str, Callable[[], Patches]] = {
    "plain-answer-lost": plain_answer_lost,
    "plain-chance-forgotten": plain_chance_forgotten,
}
