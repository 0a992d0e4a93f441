"""Hints that something changed. They may be lost, late or duplicated; correctness never depends on them."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol

from stepwell.ids import RunId


class HintKind(Enum):
    """What may have changed."""

    READY = "ready"  # a run may be claimable now, or at another time than before
    ENDED = "ended"  # runs ended, or were paused or stopped
    OWED = "owed"  # a sink may be owed an event of these runs
    MAIL = "mail"  # owned runs have something in their inbox, or a cancel or pause to honour
    HELD = "held"  # a workflow was paused: owners of its runs give them up
    REPLIED = "replied"  # runs replied to signals that asked
    STREAM = "stream"  # runs appended to a stream
    DUE = "due"  # a record may be due earlier than before
    CHANGED = "changed"  # another process wrote: check everything


class Hint(NamedTuple):
    """One hint."""

    kind: HintKind
    runs: tuple[RunId, ...] = ()


Listener = Callable[[Hint], None]


class Wakeups(Protocol):
    """Delivers hints. Listeners are called on the event loop's thread, after the commit."""

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call the listener for every hint from now on. Call the returned function to stop."""
        ...


class HintHub:
    """Delivers hints to the listeners of one process."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call the listener for every hint from now on. Call the returned function to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def notify(self, hint: Hint) -> None:
        """Call all listeners."""
        for listener in tuple(self._listeners):
            listener(hint)
