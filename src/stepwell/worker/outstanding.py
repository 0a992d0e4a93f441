"""Requests whose answers may bring claims."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType


class Outstanding:
    """Entered while such an answer is on its way; without it, the store must be asked to free what it claimed."""

    def __init__(self, on_doubt: Callable[[], None]) -> None:
        self.count = 0
        self._on_doubt = on_doubt

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self.count -= 1
        if kind is not None:
            self._on_doubt()
