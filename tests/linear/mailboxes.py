"""A run as its clients see it: it takes signals until it is cancelled, and shows them in the order of their arrival."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stepwell import Context, workflow
from tests.linear.checker import UNKNOWN, Operation

SIGNAL = "mail"


@workflow
async def mailbox(ctx: Context) -> None:
    while True:
        await ctx.receive(SIGNAL)


class State(NamedTuple):
    """What a client could know of a run."""

    signals: tuple[str, ...] = ()
    is_closed: bool = False  # cancelled, or about to be


class Mailbox:
    """One run after the other operation."""

    first = State()

    def after(self, state: State, operation: Operation) -> Iterable[State]:
        """See `Model.after`."""
        answer = operation.answer
        match operation.call:
            case "signal" if answer == "ended":
                return [state] if state.is_closed else []
            case "signal":
                # What a cancelled run still takes is read by nobody.
                return [state if state.is_closed else State((*state.signals, operation.argument))]
            case "cancel" if answer is False:
                return [state] if state.is_closed else []
            case "cancel":
                return [State(state.signals, is_closed=True)] if answer is UNKNOWN or not state.is_closed else []
            case "status":
                return [state] if answer == state.is_closed else []
            case "read":
                is_closed, signals = answer
                fits = is_closed == state.is_closed and (is_closed or signals == state.signals)
                return [state] if fits else []
            case call:
                raise ValueError(call)
