"""Reading values back from history."""

from __future__ import annotations

from typing import Any

from stepwell.codec.base import Place
from stepwell.errors import HistoryDivergedError, StepwellError
from stepwell.model.entries import Entry
from stepwell.model.locations import Location
from stepwell.replay.turn import Turn


def decode_recorded(turn: Turn, entry: Entry, hint: Any) -> Any:
    """The value of an entry as the code's annotation says; one that no longer fits stops the turn."""
    return decode_value(turn, entry.location, entry.value, hint)


def decode_value(turn: Turn, location: Location, value: bytes, hint: Any, what: str = "the recorded value") -> Any:
    """A recorded value as the code's annotation says; one that no longer fits stops the turn."""
    try:
        return turn.codec.decode(
            value, hint, place=lambda: Place(turn.run.workflow, turn.journal.names.text(location), what)
        )
    except StepwellError as error:
        path = turn.journal.names.text(location)
        raise turn.diverge(
            HistoryDivergedError(
                f"the value recorded at {path} does not fit this code any more",
                where=path,
                why=f"recorded: {value[:80]!r} · now: {error.title}; {error.why}",
                fix="keep the old annotation until no run needs it",
            )
        ) from error
