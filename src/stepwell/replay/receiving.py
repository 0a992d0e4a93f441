"""The part of the author's surface that is about messages."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar, overload

from stepwell.clock import Duration
from stepwell.errors import InvalidOptionError
from stepwell.model.states import EntryKind
from stepwell.replay.operations import Operation
from stepwell.replay.primitives.observe import Observed
from stepwell.replay.primitives.receive import (
    NO_DEFAULT,
    Message,
    check_default,
    due_of,
    run_receive,
    run_receive_many,
)
from stepwell.replay.scopes import Scope
from stepwell.replay.signals import Signal, wanted

T = TypeVar("T")
S = TypeVar("S")
D = TypeVar("D")


class Receiving:
    """What a `Context` does with its mailbox."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

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
    ) -> Operation[Message[T]]: ...
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
    ) -> Operation[Message[T] | D]: ...
    @overload
    def receive(
        self,
        first: Signal[T],
        second: Signal[S],
        /,
        *,
        timeout: Duration | None = None,
        until: datetime | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Operation[Message[T] | Message[S]]: ...
    @overload
    def receive(
        self,
        *signals: str | Signal[Any],
        timeout: Duration | None = None,
        until: datetime | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Operation[Message[Any]]: ...
    @overload
    def receive(
        self,
        *signals: str | Signal[Any],
        default: D,
        timeout: Duration | None = None,
        until: datetime | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Operation[Message[Any] | D]: ...
    def receive(
        self,
        *signals: str | Signal[Any],
        default: Any = NO_DEFAULT,
        timeout: Duration | None = None,
        until: datetime | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Operation[Any]:
        """Take the oldest pending signal of these, or of any: names, or a `Signal[...]` for a typed payload.

        At the deadline (`timeout` from the first visit, or `until`) it gives `default`, or raises `WaitTimeout`. Its
        own name on the path is `name`, or the signals' names.
        """
        takes, due, scope = wanted(signals), due_of(timeout, until), self._scope
        check_default(default, due)
        location, entry = scope.place(name or "|".join(takes.names) or "receive", EntryKind.RECEIVE, repeat=repeat)
        return Operation(scope.turn, location, lambda: run_receive(scope, location, entry, takes, due, default))

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
    ) -> Operation[list[Message[T]]]: ...
    @overload
    def receive_many(
        self,
        *signals: str | Signal[Any],
        count: int = 100,
        timeout: Duration | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Operation[list[Message[Any]]]: ...
    def receive_many(
        self,
        *signals: str | Signal[Any],
        count: int = 100,
        timeout: Duration | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Operation[list[Message[Any]]]:
        """Take pending signals as soon as there is one, at most `count`; an empty list at the deadline."""
        if count < 1:
            raise InvalidOptionError(f"count is {count}", fix="ask for at least one signal")
        takes, due, scope = wanted(signals), due_of(timeout, None), self._scope
        path = name or "|".join(takes.names) or "receive_many"
        location, entry = scope.place(path, EntryKind.RECEIVE_MANY, repeat=repeat)
        return Operation(scope.turn, location, lambda: run_receive_many(scope, location, entry, takes, count, due))

    @property
    def signals(self) -> Observed:
        """The mailbox, to look at without taking anything: `latest`, `all`, `has`."""
        return Observed(self._scope)
