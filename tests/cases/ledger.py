"""What really happened: step bodies write here, outside of all that is durable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from stepwell import StepContext


class Ledger:
    """The effects of step bodies, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.keys: list[str] = []  # of `act`: which step of which run it was

    def note(self, line: str) -> None:
        """An effect takes place."""
        self.lines.append(line)

    def body(self, name: str, value: Any = None) -> Callable[[], Awaitable[Any]]:
        """A step body that takes effect and returns a value."""

        async def act() -> Any:
            self.lines.append(name)
            return value

        return act

    def failing(self, name: str, times: int = 1_000, error: Exception | None = None, value: Any = None) -> Any:
        """A step body that fails so many times before it returns a value."""

        async def act() -> Any:
            self.lines.append(name)
            if self.lines.count(name) <= times:
                raise error or ValueError(f"{name} failed")
            return value

        return act

    async def act(self, info: StepContext, value: Any = None) -> Any:
        """A step body that notes where it stands."""
        self.keys.append(info.idempotency_key)
        self.lines.append(f"{info.workflow}:{info.path}")
        return value

    @property
    def counts(self) -> dict[str, int]:
        """How often each effect took place."""
        return dict(Counter(self.lines))
