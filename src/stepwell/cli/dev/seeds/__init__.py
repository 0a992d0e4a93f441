"""`stepwell dev --seed demo`: a shop with a past of eight days, for first looks, tests of pages, and pictures."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from stepwell.clock import Instant

ROWS: Final = 20_000  # of the longest history
_ALL_LOGS: Final = "stepwell"  # nothing is written to this one itself


def seed_demo(file: Path, now: Instant, *, rows: int = ROWS) -> None:
    """Fill an empty database with the demonstration. What happened in it ends a little before `now`.

    The same `now` gives the same runs, with the same ids.
    """
    from stepwell.cli.dev.seeds.story import LASTS, Story
    from stepwell.cli.dev.seeds.world import World

    with _silence():
        World(file, Instant(now - LASTS)).run(Story(rows).tell)


@contextmanager
def _silence() -> Iterator[None]:
    """What goes wrong in the past of the shop is no news."""
    log = logging.getLogger(_ALL_LOGS)
    was, log.disabled = log.disabled, True
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.disabled = was
        log.setLevel(level)  # not by the attribute: loggers remember what was enabled
