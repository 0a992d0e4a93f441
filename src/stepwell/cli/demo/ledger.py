"""The ledger of effects: a line for each beginning and end of a body, written by its worker.

It shows what the outside world saw, and the database shows what was recorded. Together they show repeated bodies.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from stepwell.clock import SystemClock

BEGAN, ENDED = "began", "ended"


class Effect(NamedTuple):
    """One line."""

    run_id: str
    path: str
    what: str  # began or ended
    pid: int
    at: float  # seconds since the epoch
    key: str  # the idempotency key that a real service would get


def note(ledger: Path, run_id: str, path: str, key: str, what: str) -> None:
    """Append one line. A single write to a file in append mode is never mixed with another write."""
    line = Effect(run_id, path, what, os.getpid(), SystemClock().now() / 1e6, key)
    with ledger.open("ab", buffering=0) as file:
        file.write(json.dumps(line).encode() + b"\n")


def read(ledger: Path) -> list[Effect]:
    """Every whole line, oldest first."""
    if not ledger.exists():
        return []
    lines = ledger.read_bytes().split(b"\n")[:-1]
    return [Effect(*json.loads(line)) for line in lines]
