"""Calls that run in threads, and whether they wait for the loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from stepwell.environment import Answers
from stepwell.virtual.lanes import Lane

T = TypeVar("T")

_HERE = threading.local()


class ThreadCall:
    """One call in a thread. It is busy unless it waits, or may wait, for the loop."""

    __slots__ = ("_call", "answer", "has_asked", "lane")

    def __init__(self, call: Callable[[], Any], lane: Lane) -> None:
        self._call = call
        self.lane = lane
        self.answer: Future[Any] | None = None  # what it waits for
        self.has_asked = False  # it scheduled work on the loop, and may be waiting for it

    def __call__(self) -> Any:
        _HERE.call = self
        try:
            return self._call()
        finally:
            _HERE.call = None

    @property
    def is_busy(self) -> bool:
        """Whether it certainly continues without the loop."""
        answer = self.answer
        return not self.has_asked and (answer is None or answer.done())


def note_question(callback: Callable[..., object]) -> None:
    """The calling thread schedules work on the loop. Code of stepwell waits for such work only by `LoopAnswers`."""
    call = _current()
    if call is not None and not str(getattr(callback, "__module__", "")).startswith("stepwell."):
        call.has_asked = True


class LoopAnswers(Answers):
    """Answers whose waiting threads the loop knows, so that virtual time may pass."""

    def __init__(self, wake: Callable[[], None]) -> None:
        super().__init__()
        self._wake = wake

    def wait(self, answer: Future[T]) -> T:
        call = _current()
        if call is None:
            return super().wait(answer)
        call.answer = answer
        self._wake()
        try:
            return super().wait(answer)
        finally:
            call.answer = None


def _current() -> ThreadCall | None:
    return getattr(_HERE, "call", None)
