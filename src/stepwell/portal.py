"""The way from code that is not asynchronous to an engine's event loop, in a thread of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeVar

from stepwell.environment import LoopThread

T = TypeVar("T")

Work = Callable[[], Coroutine[Any, Any, object]]


class _End:
    """There is no further item."""


_END = _End()


class Portal:
    """Runs coroutines on an event loop that lives while the portal is open; the caller's thread waits for them."""

    def __init__(self) -> None:
        self._thread: LoopThread | None = None

    def open(self, begin: Work) -> None:
        """Start the loop, and begin there. If that fails, the loop ends again."""
        self._thread = LoopThread()
        try:
            self.wait(begin())
        except BaseException:
            self._stop()
            raise

    def close(self, end: Work) -> None:
        """End there, and then the loop itself. In a child of the process that has them, there is nothing to end."""
        try:
            if self._thread is None or not self._thread.is_forked:
                self.wait(end())
        finally:
            self._stop()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine. Raises `RuntimeError` if the portal is not open."""
        if self._thread is None:
            work.close()
            raise RuntimeError("the engine is not open; use it in a `with` block")
        return self._thread.wait(work)

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """The items of an asynchronous iterator, each waited for when it is asked for."""

        async def following() -> T | _End:
            return await anext(items, _END)

        while not isinstance(item := self.wait(following()), _End):
            yield item

    def _stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()
