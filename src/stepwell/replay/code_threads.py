"""The threads that the plain functions of a turn run on."""

from __future__ import annotations

from stepwell.environment import Holder, LockstepThreads


class CodeThreads:
    """The threads of the process, or threads of the turn's own if it was given none."""

    __slots__ = ("_own", "_shared", "functions")

    def __init__(self, shared: LockstepThreads | None) -> None:
        self._shared = shared
        self._own: LockstepThreads | None = None
        self.functions: dict[Holder, None] = {}  # begun and not ended

    @property
    def pool(self) -> LockstepThreads:
        """Where a plain function takes its thread from."""
        if self._shared is not None:
            return self._shared
        if self._own is None:
            self._own = LockstepThreads()
        return self._own

    def release(self) -> None:
        """Hold no thread while nothing but waiting is left."""
        for function in tuple(self.functions):
            function.leave()

    def close(self) -> None:
        """End the threads that are the turn's own."""
        if self._own is not None:
            self._own.close()
