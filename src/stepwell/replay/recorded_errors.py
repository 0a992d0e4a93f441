"""Errors of workflow code and steps as they are recorded: with what they carry."""

from __future__ import annotations

from stepwell.codec.base import Place
from stepwell.codec.error_fields import ErrorFields, fields_of
from stepwell.errors import Failure
from stepwell.errors.records import FailureRecord
from stepwell.model.failures import record_failure
from stepwell.replay.turn import Turn


def carried_by(turn: Turn, error: BaseException) -> ErrorFields:
    """The data of a planned failure, or the attributes of any other exception. Raises if that data cannot be stored."""
    place = Place(turn.run.workflow, "", "the data of a failure")
    if isinstance(error, Failure):
        return ErrorFields() if error.data is None else ErrorFields(turn.codec.encode_readable(error.data, place=place))
    return fields_of(error, turn.codec, place)


def record_error(turn: Turn, error: BaseException, *, path: str = "") -> FailureRecord:
    """An exception of the code, with what it carries. What cannot be stored is left out."""
    try:
        carried = carried_by(turn, error)
    except Exception:  # noqa: BLE001  the functions of a registered class may raise anything
        carried = ErrorFields()
    return record_failure(error, path=path, data=carried.data, fields=carried.names)
