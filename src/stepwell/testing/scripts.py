"""Acts from outside during a crash sweep: messages, and time that passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from stepwell.clock import Duration
from stepwell.model.topics import Event
from stepwell.replay.signals import Signal

if TYPE_CHECKING:
    from stepwell.testing.sync import SyncKit, SyncRun


class Act(Protocol):
    """One act of a script. It is done when the run waits."""

    def __call__(self, kit: SyncKit, run: SyncRun[Any], /) -> object: ...


@dataclass(frozen=True, slots=True)
class Send:
    """Send a signal to the run."""

    name: str | Signal[Any]
    payload: Any = None
    dedup_key: str | None = None

    def __call__(self, kit: SyncKit, run: SyncRun[Any], /) -> None:
        run.signal(self.name, self.payload, dedup_key=self.dedup_key)


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish an event."""

    topic: str | Event | type[Event]
    payload: Any = None

    def __call__(self, kit: SyncKit, run: SyncRun[Any], /) -> None:
        kit.emit(self.topic, self.payload)


@dataclass(frozen=True, slots=True)
class Advance:
    """Let time pass."""

    duration: Duration

    def __call__(self, kit: SyncKit, run: SyncRun[Any], /) -> None:
        kit.clock.advance(self.duration)


@dataclass(frozen=True, slots=True)
class CancelRun:
    """Cancel the run."""

    reason: str = ""

    def __call__(self, kit: SyncKit, run: SyncRun[Any], /) -> None:
        run.cancel(self.reason)


def send(name: str | Signal[Any], payload: Any = None, *, dedup_key: str | None = None) -> Send:
    """An act of a script: send a signal to the run when it waits."""
    return Send(name, payload, dedup_key)


def publish(topic: str | Event | type[Event], payload: Any = None) -> Publish:
    """An act of a script: publish an event when the run waits."""
    return Publish(topic, payload)


def advance(duration: Duration) -> Advance:
    """An act of a script: let time pass when the run waits."""
    return Advance(duration)


def cancel(reason: str = "") -> CancelRun:
    """An act of a script: cancel the run when it waits."""
    return CancelRun(reason)


Script = list[Act] | tuple[Act, ...]
Normalise = Callable[[Any], Any]
