"""Values on their way into history and back."""

from __future__ import annotations

from typing import Any

from stepwell.codec.base import Payload, Place, PlaceLike, place_of
from stepwell.codec.envelopes import show_payload
from stepwell.errors import HistoryDivergedError, StepwellError, StoreError
from stepwell.model.entries import Entry
from stepwell.model.locations import Location
from stepwell.replay.turn import Turn


def decode_recorded(turn: Turn, entry: Entry, hint: Any) -> Any:
    """The value of an entry as the code's annotation says; one that no longer fits stops the turn."""
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
    """A recorded value as the code's annotation says; one that no longer fits stops the turn."""
    try:
        return turn.codec.decode(value, hint, place=lambda: turn.place(location, what, field=field))
    except StoreError as error:
        raise stopped(turn, turn.journal.names.text(location), error) from error
    except StepwellError as error:
        path = turn.journal.names.text(location)
        raise turn.diverge(
            HistoryDivergedError(
                f"the value recorded at {path} does not fit this code any more",
                where=path,
                recorded=show_payload(value),
                now=f"{error.title}; {error.why}",
                fix="keep the old annotation until no run needs it",
            )
        ) from error


def settle_value(turn: Turn, value: Any, hint: Any, place: PlaceLike) -> tuple[Payload, Any]:
    """A value as it is stored and as it will be read. What has to be kept beside the store and cannot be written now
    stops the turn: that is not the code's failure.
    """
    try:
        return turn.codec.settle(value, hint, place=place)
    except StoreError as error:
        raise stopped(turn, place_of(place).path, error) from error


def rebind_value(turn: Turn, payload: Payload, place: Place, to: PlaceLike) -> Payload:
    """A payload of another row as it is stored in this run's history; one that cannot be read stops the turn."""
    try:
        return turn.codec.rebind(payload, place=place, to=to)
    except StoreError as error:
        raise stopped(turn, place.path, error) from error


def stopped(turn: Turn, path: str, error: StoreError) -> StepwellError:
    """Stop the turn because a value is out of reach; the run can go on when that is mended."""
    return turn.diverge(HistoryDivergedError(error.title, where=path, why=f"{error.code}: {error.why}", fix=error.fix))
