"""The threads that the plain functions of a turn run on."""

from __future__ import annotations

from stepwell.environment import Holder, LockstepThreads


class CodeThreads:
    """The shared threads of the process, or threads of the turn's own if there are none."""

    __slots__ = ("_shared", "functions", "own")

    def __init__(self, shared: LockstepThreads | None) -> None:
        self._shared = shared
        self.own: LockstepThreads | None = None  # made for this turn; they end with it
        self.functions: dict[Holder, None] = {}  # begun and not ended

    @property
    def pool(self) -> LockstepThreads:
        """Where a plain function takes its thread from."""
        if self._shared is not None:
            return self._shared
        if self.own is None:
            self.own = LockstepThreads()
        return self.own

    def release(self) -> None:
        """Release all threads, because the turn only waits."""
        for function in tuple(self.functions):
            function.leave()
