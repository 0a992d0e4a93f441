"""How synchronous code reaches an engine: an event loop in its own thread."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

from stepwell.environment import LoopThread

T = TypeVar("T")

Begin = Callable[[], Coroutine[Any, Any, object]]
End = Callable[[float], Coroutine[Any, Any, object]]  # takes the grace time for running bodies, in seconds

GRACE_SECONDS: Final = 10.0
EXIT_GRACE_SECONDS: Final = 2.0  # if the interpreter exits before the portal is closed
_EXIT_SECONDS_MAX: Final = 5.0
_ABANDON_SECONDS_MAX: Final = 3.0  # a shutdown that is cancelled needs a second for the store

_LOGGER = logging.getLogger("stepwell.worker")


class _End:
    """There is no further item."""


_END = _End()


class Portal:
    """Runs coroutines on an event loop that exists while the portal is open; the caller's thread waits for them.

    Any thread may open and close it. If it is still open when the interpreter exits, it closes then, within seconds.
    """

    def __init__(self) -> None:
        self._thread: LoopThread | None = None
        self._end: End | None = None
        self._lock = threading.Lock()  # opening and closing happen one after the other

    def open(self, begin: Begin, end: End) -> None:
        """Start the loop and run `begin` there; if that fails, the loop stops again. Does nothing if it is open."""
        with self._lock:
            if self._thread is not None and not self._thread.is_forked:
                return
            self._thread = LoopThread()
            try:
                self.wait(begin())
            except BaseException:
                self._abandon(self._thread)
                raise
            self._end = end
            atexit.register(self._close_at_exit)

    def close(self) -> None:
        """Run `end` on the loop, and stop the loop. Does nothing if the portal is not open.

        In a child of the process that opened it there is nothing to end.
        """
        with self._lock:
            thread, end = self._thread, self._end
            if thread is None or end is None:
                return
            atexit.unregister(self._close_at_exit)
            try:
                if not thread.is_forked:
                    thread.wait(end(GRACE_SECONDS))
            except BaseException:
                self._abandon(thread)
                raise
            self._stop()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine. Raises `RuntimeError` if the portal is not open."""
        if self._thread is None:
            work.close()
            raise RuntimeError("the engine is not open; call open(), or use it in a `with` block")
        return self._thread.wait(work)

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """The items of an asynchronous iterator. The caller waits for each when it asks for it."""

        async def following() -> T | _End:
            return await anext(items, _END)

        while not isinstance(item := self.wait(following()), _End):
            yield item

    def _close_at_exit(self) -> None:
        """The interpreter exits: close within a few seconds, whatever the loop and the bodies do."""
        thread, end = self._thread, self._end
        if thread is None or end is None or thread.is_forked:
            return
        try:
            thread.wait(end(EXIT_GRACE_SECONDS), _EXIT_SECONDS_MAX)
        except Exception as error:  # noqa: BLE001  an exit must not fail; the lease expires by itself
            _LOGGER.warning("the engine was not closed before the interpreter exited: %r", error)
        self._stop(1.0)

    def _abandon(self, thread: LoopThread) -> None:
        """Stop the loop within seconds after an error or Ctrl-C, also if a body blocks it."""
        try:
            thread.settle(_ABANDON_SECONDS_MAX)
        finally:
            self._stop(1.0)

    def _stop(self, timeout_seconds: float | None = None) -> None:
        thread, self._thread, self._end = self._thread, None, None
        if thread is not None:
            thread.stop(timeout_seconds)
