"""What code says of its run, put into the programs of a seed: a pass over trees that are drawn already.

It has a stream and names of its own, so that old seeds keep the trees that they had.
"""

from __future__ import annotations

import random
from typing import Any

Node = dict[str, Any]


class Descriptions:
    """What is put into the programs of one seed; in most seeds nothing."""

    def __init__(self, seed: str) -> None:
        self._rng = random.Random(f"descriptions {seed}")
        self._is_on = self._rng.random() < 0.4
        self._count = 0

    def add(self, part: Any) -> None:
        """Put nodes into every sequence of a program, wherever it stands."""
        if not self._is_on:
            return
        if isinstance(part, list):
            for inner in part:
                self.add(inner)
        elif isinstance(part, dict):
            for key, inner in part.items():
                if key != "value":
                    self.add(inner)
            if part.get("op") == "seq" and self._rng.random() < 0.4:
                # Never last: the iteration of a loop may end with what it hands on.
                part["items"].insert(self._rng.randint(0, len(part["items"]) - 1), self._node())
            elif part.get("op") == "map" and self._rng.random() < 0.2:
                part["items"][0] = {"op": "seq", "id": f"seq_{self._count}d", "items": [part["items"][0], self._node()]}

    def _node(self) -> Node:
        self._count += 1
        return {"op": "describe", "id": f"describe_{self._count}", "asks_too_much": self._rng.random() < 0.2}
