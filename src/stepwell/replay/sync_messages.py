"""The part of `SyncContext` that takes and gives messages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar, overload

from stepwell.clock import Duration
from stepwell.ids import EventId
from stepwell.model.topics import Event
from stepwell.model.waits import Since
from stepwell.replay.context import Context
from stepwell.replay.operations import Operation
from stepwell.replay.plain import PlainCode
from stepwell.replay.primitives.emit import what_is_emitted
from stepwell.replay.primitives.observe import Absent
from stepwell.replay.primitives.receive import NO_DEFAULT, Message
from stepwell.replay.primitives.wait_any import Arrived, Awaited
from stepwell.replay.signals import Signal, wanted

T = TypeVar("T")
D = TypeVar("D")
E = TypeVar("E", bound=Event)


class SyncMessages:
    """Signals and events of a `def` workflow. A base of `SyncContext`."""

    __slots__ = ("_code", "_ctx")

    def __init__(self, context: Context, code: PlainCode) -> None:
        self._ctx = context
        self._code = code

    @overload
    def receive(
        self,
        signal: Signal[T],
        /,
        *,
        timeout: Duration | None = None,
        until: datetime | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Message[T]: ...
    @overload
    def receive(
        self,
        signal: Signal[T],
        /,
        *,
        default: D,
        timeout: Duration | None = None,
        until: datetime | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Message[T] | D: ...
    @overload
    def receive(
        self,
        *signals: str | Signal[Any],
        timeout: Duration | None = None,
        until: datetime | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Message[Any]: ...
    @overload
    def receive(
        self,
        *signals: str | Signal[Any],
        default: D,
        timeout: Duration | None = None,
        until: datetime | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Message[Any] | D: ...
    def receive(
        self,
        *signals: str | Signal[Any],
        default: Any = NO_DEFAULT,
        timeout: Duration | None = None,
        until: datetime | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Any:
        """Take the oldest pending signal of these, or of any; at the deadline `default`, or else `WaitTimeout`.

        If its sender waits for an answer, give it with `ctx.reply(message, value)` or `ctx.refuse(message, reason)`.
        """

        def begin() -> Operation[Any]:
            return self._ctx.receive(*signals, default=default, timeout=timeout, until=until, name=name, repeat=repeat)

        return self._code.ask(f"receive {name or _names(signals)}", begin)

    @overload
    def receive_many(
        self,
        signal: Signal[T],
        /,
        *,
        count: int = 100,
        timeout: Duration | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> list[Message[T]]: ...
    @overload
    def receive_many(
        self,
        *signals: str | Signal[Any],
        count: int = 100,
        timeout: Duration | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> list[Message[Any]]: ...
    def receive_many(
        self,
        *signals: str | Signal[Any],
        count: int = 100,
        timeout: Duration | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> list[Message[Any]]:
        """Take pending signals as soon as there is one, at most `count`; an empty list at the deadline."""
        return self._code.ask(
            f"receive_many {name or _names(signals)}",
            lambda: self._ctx.receive_many(*signals, count=count, timeout=timeout, name=name, repeat=repeat),
        )

    def reply(self, message: Message[Any], value: Any = None) -> None:
        """Answer the sender of a message; see `Message.reply`."""
        self._code.ask(f"reply {message.name}", lambda: message.reply(value))

    def refuse(self, message: Message[Any], reason: str) -> None:
        """Answer the sender of a message with a refusal; see `Message.refuse`."""
        self._code.ask(f"refuse {message.name}", lambda: message.refuse(reason))

    @property
    def signals(self) -> SyncObserved:
        """The mailbox, to look at without taking anything: `latest`, `all`, `has`."""
        return SyncObserved(self._ctx, self._code)

    @overload
    def topic(
        self,
        topic: type[E],
        *,
        where: Mapping[str, Any] | None = None,
        since: Since = "wait",
        timeout: Duration | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> E: ...
    @overload
    def topic(
        self,
        topic: str,
        *,
        where: Mapping[str, Any] | None = None,
        since: Since = "wait",
        timeout: Duration | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Any: ...
    def topic(
        self,
        topic: type[Event] | str,
        *,
        where: Mapping[str, Any] | None = None,
        since: Since = "wait",
        timeout: Duration | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Any:
        """Wait for an event of a topic: `shipped = ctx.topic(Shipped, where={"order": order.id})`."""
        options: dict[str, Any] = {"where": where, "since": since, "timeout": timeout, "name": name, "repeat": repeat}
        return self._code.ask(f"topic {name or topic}", lambda: self._ctx.topic(topic, **options))

    def wait_any(self, name: str = "wait_any", /, *, repeat: bool = False, **awaited: Awaited) -> Arrived:
        """Wait for the first of several signals, events and timers; what loses stays where it is."""
        return self._code.ask(f"wait_any {name}", lambda: self._ctx.wait_any(name, repeat=repeat, **awaited))

    def emit(
        self, event: str | Event, payload: Any = None, *, name: str | None = None, repeat: bool = False
    ) -> EventId:
        """Emit an event to the engine's sinks; its id, which is the same however often the event is delivered."""
        return self._code.ask(
            f"emit {name or what_is_emitted(event, payload)[0]}",
            lambda: self._ctx.emit(event, payload, name=name, repeat=repeat),
        )


class SyncObserved:
    """The mailbox of a `def` workflow, to look at."""

    __slots__ = ("_code", "_ctx")

    def __init__(self, context: Context, code: PlainCode) -> None:
        self._ctx = context
        self._code = code

    @overload
    def latest(self, signal: Signal[T], /) -> Message[T] | Absent: ...
    @overload
    def latest(self, signal: str, /) -> Message[Any] | Absent: ...
    def latest(self, signal: str | Signal[Any], /) -> Message[Any] | Absent:
        """The newest pending signal of a name, or an `Absent`, which is false."""
        return self._code.read(f"latest {_names((signal,))}", lambda: self._ctx.signals.latest(signal))

    @overload
    def all(self, signal: Signal[T], /) -> list[Message[T]]: ...
    @overload
    def all(self, signal: str | None = None, /) -> list[Message[Any]]: ...
    def all(self, signal: str | Signal[Any] | None = None, /) -> list[Message[Any]]:
        """The pending signals of a name, or of every name, in the order of their arrival."""
        asked = f"all {'' if signal is None else _names((signal,))}"
        return self._code.read(asked, lambda: self._ctx.signals.all(signal))

    def has(self, signal: str | Signal[Any], /) -> bool:
        """Whether there is a pending signal of a name."""
        return self._code.read(f"has {_names((signal,))}", lambda: self._ctx.signals.has(signal))


def _names(signals: tuple[str | Signal[Any], ...]) -> str:
    return "|".join(wanted(signals).names)
