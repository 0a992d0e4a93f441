"""What is stored with a step that can be undone: its function, its compensation and its own input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.codec.signatures import Kind, Signature, decode_call, encode_call, hints_of
from stepwell.errors import DefinitionError, StepwellError
from stepwell.model.entries import Entry
from stepwell.model.failures import FailureRecord, record_failure
from stepwell.model.locations import Location
from stepwell.replay.definition import Step, find_compensation, find_step, takes
from stepwell.replay.packing import pack, unpack
from stepwell.replay.step_options import qualified_name
from stepwell.replay.turn import Turn

_GIVEN_FIRST = ("Context", "SyncContext", "StepContext", "Transaction")


class UndoFailed(Exception):  # noqa: N818  control flow inside a rollback
    """A compensation failed for good."""

    def __init__(self, failure: FailureRecord) -> None:
        super().__init__(failure.summary)
        self.failure = failure


def describe_call(
    turn: Turn, location: Location, step: Step[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bytes:
    """What is stored with a step's result so that any worker can undo it."""
    assert step.options_.compensate is not None
    place = turn.place(location, "the input", field="undo")
    arguments = encode_call(args, kwargs, step.fn, skip=step.skip, codec=turn.codec, place=place)
    return pack([step.qualified, qualified_name(step.options_.compensate)], arguments)


def signature_of(fn: Callable[..., Any]) -> Signature:
    """The signature of a function; of a step, that of its body."""
    return fn.signature if isinstance(fn, Step) else hints_of(fn)


def is_known(entry: Entry) -> bool:
    """Whether the functions to undo an entry are known in this process."""
    header, _ = unpack(entry.undo or b"[]\n")
    return find_step(header[0]) is not None and find_compensation(header[1]) is not None


def read_call(turn: Turn, entry: Entry) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The compensation of an entry and what to call it with:
    as many of (the step's arguments, then its result) as it takes.
    """
    (step_name, compensation_name), payload = unpack(entry.undo or b'["",""]\n')
    step, compensation = find_step(step_name), find_compensation(compensation_name)
    path = turn.journal.names.text(entry.location)
    if step is None or compensation is None:
        missing = compensation_name if compensation is None else step_name
        error = DefinitionError(
            f"the function {missing} that undoes {path} is not known to this worker",
            where=path,
            fix="import the module that defines it where the workflow is registered, then resume the rollback",
        )
        raise UndoFailed(record_failure(error, path=path))
    try:
        place = turn.place(entry.location, "the input", field="undo")
        args, kwargs = decode_call(payload, step.fn, skip=step.skip, codec=turn.codec, place=place)
        result = turn.codec.decode(entry.value, step.signature.returns, place=turn.place(entry.location, "the result"))
    except StepwellError as error:
        raise UndoFailed(record_failure(error, path=path)) from error
    return compensation, _given(compensation, (*args, *kwargs.values(), result))


def _given(compensation: Callable[..., Any], offered: tuple[Any, ...]) -> tuple[Any, ...]:
    signature = signature_of(compensation)
    parameters = signature.parameters[int(any(takes(signature, name) for name in _GIVEN_FIRST)) :]
    if any(parameter.kind is Kind.VAR_POSITIONAL for parameter in parameters):
        return offered
    positional = sum(parameter.kind in (Kind.POSITIONAL_ONLY, Kind.POSITIONAL_OR_KEYWORD) for parameter in parameters)
    return offered[:positional]
