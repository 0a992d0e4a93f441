"""Switches that bring back what the programs of users found."""

from __future__ import annotations

from typing import Any

from sim.operators import Operators
from sim.sabotage.patches import Patches, nothing, switches
from stepwell.codec import json_codec
from stepwell.codec.refusals import Refusal, find_refusal
from stepwell.replay.event_loop import TurnLoop
from stepwell.replay.order import ReplayOrder
from stepwell.replay.turn import Turn
from stepwell.stores.sqlite.transitions import operators


def rollback_keeps_its_failures() -> Patches:
    """A rollback that is resumed comes to the recorded failure again, inside of the compensation that it stopped in.
    Nobody undoes an effect by hand.
    """
    original = operators._forget_failed_entries

    def forget(tx: Any, run: int, *, is_rollback: bool = False) -> Any:
        return [] if is_rollback else original(tx, run)

    return [(operators, "_forget_failed_entries", forget), (Operators, "by_hand", 0.0)]


def recorded_before_what_is_ready() -> Patches:
    """What is recorded at once reaches the code before what is ready, and in a replay behind it."""
    original = ReplayOrder.reach_end

    async def reach_end(self: ReplayOrder) -> None:
        if self.queue or self._journal.unvisited > 0 or self.is_rehearsal:
            await original(self)

    return [(ReplayOrder, "reach_end", reach_end)]


def tasks_numbered_in_the_turn() -> Patches:
    """Tasks and operations are counted over the whole turn, with those that a replay does not make."""
    return [
        (TurnLoop, "next_number", lambda self: self.numbers.next()),
        (TurnLoop, "own_task", lambda self, coro: self.create_task(coro)),
    ]


def lost_tasks_go_on() -> Patches:
    """The tasks of a branch that has lost go on with what they had asked for."""
    return [(Turn, "give_up", nothing)]


def odd_values_escape() -> Patches:
    """A value whose own code raises leaves the codec with that error, and nothing is recorded."""

    def find(value: Any, root: str, *, secrets: bool = False) -> Refusal | None:
        _ = value.__class__
        return find_refusal(value, root, secrets=secrets)

    return [(json_codec, "find_refusal", find)]


PROGRAM_SWITCHES = switches(
    rollback_keeps_its_failures,
    recorded_before_what_is_ready,
    tasks_numbered_in_the_turn,
    lost_tasks_go_on,
    odd_values_escape,
)
