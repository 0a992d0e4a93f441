"""Show a value to clients while the run runs."""

from __future__ import annotations

from typing import Any

from stepwell.codec.base import ANY, Place, Row
from stepwell.ids import RunId
from stepwell.model.live import check_shown_name
from stepwell.replay.recorded_values import settle_value
from stepwell.replay.scopes import Scope


def publish_state(scope: Scope, name: str, value: Any) -> None:
    """Show a value under a name, or as the run's unnamed value. The run's next commit carries it.

    It has no entry: the value carries the length of the history, and the store keeps the latest. So a replay, which
    publishes older values again and may skip newer ones, never brings an older value back.
    """
    scope.check_open()
    turn = scope.turn
    if name:
        check_shown_name(name, what="state name")
    stored, _ = settle_value(turn, value, ANY, state_place(turn.run.workflow, turn.run.run_id, name))
    turn.journal.publish(name, stored)


def state_place(workflow: str, run_id: RunId, name: str) -> Place:
    """The place of a published value."""
    what = f"the published state {name!r}" if name else "the published state"
    return Place(workflow, "", what, row=Row(run_id, name, "state"))


class State:
    """`ctx.state["name"] = value`: named values that clients can read while the run runs."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def __setitem__(self, name: str, value: Any) -> None:
        """Publish a value under a name."""
        check_shown_name(name, what="state name")
        publish_state(self._scope, name, value)
