"""The part of `Context` that waits for events, and for the first of several things."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, overload

from stepwell.clock import Duration, span
from stepwell.model.states import EntryKind
from stepwell.model.topics import Event
from stepwell.model.waits import Since
from stepwell.replay.operations import Operation
from stepwell.replay.primitives.topic import run_topic
from stepwell.replay.primitives.topic import topic as topic_awaited
from stepwell.replay.primitives.wait_any import Arrived, Awaited, check_awaited, run_wait_any
from stepwell.replay.scopes import Scope

E = TypeVar("E", bound=Event)


class Awaiting:
    """Operations that wait. A base of `Context`."""

    __slots__ = ()

    _scope: Scope

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
    ) -> Operation[E]: ...
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
    ) -> Operation[Any]: ...
    def topic(
        self,
        topic: type[Event] | str,
        *,
        where: Mapping[str, Any] | None = None,
        since: Since = "wait",
        timeout: Duration | None = None,
        name: str | None = None,
        repeat: bool = False,
    ) -> Operation[Any]:
        """Wait for an event of a topic: `shipped = await ctx.topic(Shipped, where={"order": order.id})`.

        It takes one published after the wait was stored; `since="start"` or `"all"` also the oldest that the topic
        keeps (from this run's start on, or any) and that this run has not had. Raises `WaitTimeout` at the deadline.
        """
        awaited = topic_awaited(topic, where=where, since=since)
        within = None if timeout is None else span(timeout, what="timeout")
        scope = self._scope
        location, entry = scope.place(name or awaited.topic, EntryKind.TOPIC, repeat=repeat)
        return Operation(scope.turn, location, lambda: run_topic(scope, location, entry, awaited, within))

    def wait_any(self, name: str = "wait_any", /, *, repeat: bool = False, **awaited: Awaited) -> Operation[Arrived]:
        """Wait for the first of several things: `ctx.wait_any(answer=signal("answer"), late=timer("3d"))`.

        What comes first is recorded; what would have come later stays where it is, for whoever asks for it next.
        """
        check_awaited(awaited)
        scope = self._scope
        location, entry = scope.place(name, EntryKind.WAIT_ANY, repeat=repeat)
        return Operation(scope.turn, location, lambda: run_wait_any(scope, location, entry, awaited))
