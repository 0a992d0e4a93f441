"""How a driver and whoever started it talk: lines of JSON one way, an empty line back where the driver waits for it."""

from __future__ import annotations

import json
import os
import sys
from typing import Any


class Talk:
    """The driver's end. Whatever the peer prints goes to standard error, so that the lines stay clean."""

    def __init__(self) -> None:
        self._lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def say(self, **news: Any) -> None:
        """Tell it, and go on."""
        print(json.dumps(news), file=self._lines, flush=True)

    def mark(self, name: str) -> None:
        """Tell that this moment has come, and wait until the processes have been looked at."""
        self.say(mark=name)
        sys.stdin.readline()
