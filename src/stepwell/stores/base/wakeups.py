"""Hints that something changed; they may be lost, late or double, and are never needed for correctness."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol

from stepwell.ids import RunId


class HintKind(Enum):
    """What may have changed."""

    READY = "ready"  # a run may be claimable now or at another time than known
    ENDED = "ended"  # runs ended or stopped moving
    OWED = "owed"  # a sink may be owed an event of these runs
    MAIL = "mail"  # owned runs have something in their inbox, or a cancel or pause to honour
    HELD = "held"  # a workflow was paused: owners of its runs give them up
    REPLIED = "replied"  # runs answered somebody who asked
    STREAM = "stream"  # runs appended to a stream
    CHANGED = "changed"  # another process wrote: look at everything


class Hint(NamedTuple):
    """One hint."""

    kind: HintKind
    runs: tuple[RunId, ...] = ()


Listener = Callable[[Hint], None]


class Wakeups(Protocol):
    """Where hints are heard. Listeners are called on the event loop's thread, after the commit."""

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hear every hint from now on; call what is returned to stop."""
        ...


class Hub:
    """Hands hints to the listeners of one process."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hear every hint from now on; call what is returned to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self, hint: Hint) -> None:
        """Tell everybody."""
        for listener in tuple(self._listeners):
            listener(hint)
