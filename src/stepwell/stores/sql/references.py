"""References to payloads that are stored by their hash, as they stand in stored values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_REFERENCE: Final = re.compile(rb"r([0-9a-f]{64}):[0-9]")


def references_in(values: Iterable[bytes]) -> set[str]:
    """The names of all payloads to which these values refer, wherever in a value the reference is."""
    found: set[str] = set()
    for value in values:
        for name in _REFERENCE.findall(value):
            found.add(name.decode())
    return found
