"""Encoding values for the history, and decoding recorded ones."""

from __future__ import annotations

from typing import Any

from stepwell.codec.base import Payload, Place, PlaceLike, place_of
from stepwell.codec.envelopes import show_payload
from stepwell.errors import HistoryDivergedError, StepwellError, StoreError
from stepwell.model.entries import Entry
from stepwell.model.locations import Location
from stepwell.replay.turn import Turn


def decode_recorded(turn: Turn, entry: Entry, hint: Any) -> Any:
    """The value of an entry, typed by the code's annotation. A value that no longer fits stops the turn."""
    return decode_value(turn, entry.location, entry.value, hint)


def decode_value(
    turn: Turn,
    location: Location,
    value: bytes,
    hint: Any,
    what: str = "the recorded value",
    *,
    field: str = "value",
) -> Any:
    """A recorded value, typed by the code's annotation. A value that no longer fits stops the turn."""
    try:
        return turn.codec.decode(value, hint, place=lambda: turn.place(location, what, field=field))
    except StoreError as error:
        raise stopped(turn, turn.journal.names.text(location), error) from error
    except StepwellError as error:
        path = turn.journal.names.text(location)
        raise turn.diverge(
            HistoryDivergedError(
                f"the value recorded at {path} no longer fits this code",
                where=path,
                recorded=show_payload(value),
                now=f"{error.title}; {error.why}",
                fix="keep the old annotation until no run needs it",
            )
        ) from error


def settle_value(turn: Turn, value: Any, hint: Any, place: PlaceLike) -> tuple[Payload, Any]:
    """A value as it is stored, and as it will be decoded. If an external blob cannot be written now, the turn stops:
    that is not a failure of the code.
    """
    try:
        return turn.codec.settle(value, hint, place=place)
    except StoreError as error:
        raise stopped(turn, place_of(place).path, error) from error


def rebind_value(turn: Turn, payload: Payload, place: Place, to: PlaceLike) -> Payload:
    """A payload of another row, as stored in this run's history. A payload that cannot be read stops the turn."""
    try:
        return turn.codec.rebind(payload, place=place, to=to)
    except StoreError as error:
        raise stopped(turn, place.path, error) from error


def stopped(turn: Turn, path: str, error: StoreError) -> StepwellError:
    """Stop the turn because a value cannot be read or written now. The run can continue once the cause is fixed."""
    return turn.diverge(HistoryDivergedError(error.title, where=path, why=f"{error.code}: {error.why}", fix=error.fix))
