"""What a workflow shows to clients while it runs: the part of `Context` that is read from outside."""

from __future__ import annotations

from typing import Any

from stepwell.replay.primitives.publish import State, publish_state
from stepwell.replay.primitives.stream import Stream
from stepwell.replay.scopes import Scope


class Showing:
    """Published state, and streams."""

    __slots__ = ()
    _scope: Scope

    def publish_state(self, value: Any) -> None:
        """Show a value to clients, who read it with `engine.runs.state(run)`. It replaces the one before."""
        publish_state(self._scope, "", value)

    @property
    def state(self) -> State:
        """Named values for clients: `ctx.state["progress"] = 0.5`, read with `engine.runs.state(run, "progress")`."""
        return State(self._scope)

    def stream(self, name: str) -> Stream:
        """A durable output that clients read by offset: `await ctx.stream("log").append(line)`."""
        return Stream(self._scope, name)
