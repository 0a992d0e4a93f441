"""Sharing: an answer that is expensive is given to all callers that ask at about the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from stepwell.environment import Environment

T = TypeVar("T")

_SHARE: Final = 0.05  # of the time at most is spent with asking


class Shared(Generic[T]):
    """The latest answer to one question, asked again when it is `age` seconds old, or later if asking takes long."""

    def __init__(self, environment: Environment, ask: Callable[[], Awaitable[T]], age: float) -> None:
        self._clock = environment.clock
        self._ask = ask
        self._age = age
        self._gate = asyncio.Lock()
        self._latest: tuple[T] | None = None
        self._fresh_until = 0.0  # by the monotonic clock

    async def get(self) -> T:
        """The latest answer, or a new one. A failure is not kept."""
        async with self._gate:
            if self._latest is None or self._clock.monotonic() >= self._fresh_until:
                began = self._clock.monotonic()
                self._latest = (await self._ask(),)
                ended = self._clock.monotonic()
                self._fresh_until = ended + max(self._age, (ended - began) / _SHARE)
            return self._latest[0]
