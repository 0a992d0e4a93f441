"""What is stored with a step that can be undone: its function, its compensation and its own input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.codec.base import ANY
from stepwell.codec.signatures import Kind, Signature, decode_call, encode_call, hints_of
from stepwell.errors import DefinitionError, StepwellError
from stepwell.errors.records import FailureRecord
from stepwell.model.entries import Entry
from stepwell.model.failures import record_failure
from stepwell.model.locations import Location
from stepwell.replay.headers import pack, unpack
from stepwell.replay.journal import Journal
from stepwell.replay.parameters import count_given_first
from stepwell.replay.step_options import qualified_name
from stepwell.replay.steps import Step, find_compensation, find_step, stable_name
from stepwell.replay.turn import Turn

_UNNAMED = "~"  # before a name that no other process, and no other run of the code, can find the callable by


class UndoFailed(Exception):  # noqa: N818  control flow inside a rollback
    """A compensation failed for good."""

    def __init__(self, failure: FailureRecord) -> None:
        super().__init__(failure.summary)
        self.failure = failure


def describe_call(
    turn: Turn, location: Location, step: Step[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bytes:
    """What is stored with a step's result so that it can be undone: two names, and the input."""
    assert step.options_.compensate is not None
    if step.undo_needs > len(args) + len(kwargs) + 1:
        step.check_compensation(len(args) + len(kwargs))
    place = turn.place(location, "the input", field="undo")
    arguments = encode_call(args, kwargs, step.fn, skip=step.skip, codec=turn.codec, place=place)
    return pack([step.qualified, _name(step.options_.compensate)], arguments)


def _name(compensation: Callable[..., Any]) -> str:
    return stable_name(compensation) or _UNNAMED + qualified_name(compensation)


def signature_of(fn: Callable[..., Any]) -> Signature:
    """The signature of a function; of a step, that of its body."""
    return fn.signature if isinstance(fn, Step) else hints_of(fn)


def is_bound(journal: Journal, entry: Entry) -> bool:
    """Whether the code has passed the place of an entry in this process: then its compensation is known for sure."""
    return entry.location in journal.bound


def has_name(entry: Entry) -> bool:
    """Whether the compensation of an entry can be found where the code does not pass its place again."""
    header, _ = unpack(entry.undo or b'["",""]\n')
    return find_compensation(header[1]) is not None


def read_call(turn: Turn, entry: Entry) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The compensation of an entry and what to call it with:
    as many of (the step's arguments, then its result) as it takes.

    The compensation is the one that the code passed at this place. Where the code does not come to the place again, it
    is the one function that has the recorded name. There is never a guess: raises `UndoFailed`.
    """
    header, payload = unpack(entry.undo or b'["",""]\n')
    step, compensation = turn.journal.bound.get(entry.location), None
    if step is None:
        step, compensation = find_step(header[0]), find_compensation(header[1])
    else:
        compensation = step.options_.compensate
    path = turn.journal.names.text(entry.location)
    if compensation is None:
        raise UndoFailed(record_failure(_unknown(path, header[1]), path=path))
    try:
        offered = _read(turn, entry, payload, step, compensation)
    except StepwellError as error:
        raise UndoFailed(record_failure(error, path=path)) from error
    return compensation, _given(compensation, offered)


def _read(
    turn: Turn, entry: Entry, payload: bytes, step: Step[..., Any] | None, compensation: Callable[..., Any]
) -> tuple[Any, ...]:
    """The arguments of a step and its result. Their types are those of the step; if that is not known, those that the
    compensation is annotated with.
    """
    place = turn.place(entry.location, "the input", field="undo")
    if step is not None:
        args, kwargs = decode_call(payload, step.fn, skip=step.skip, codec=turn.codec, place=place)
        hint = step.signature.returns
    else:
        signature = signature_of(compensation)
        skip = count_given_first(signature)
        args, kwargs = decode_call(payload, compensation, skip=skip, codec=turn.codec, place=place)
        last = signature.positional(skip + len(args) + len(kwargs))
        hint = ANY if last is None else last.hint
        _check_typed(turn, entry, signature, skip)
    result = turn.codec.decode(entry.value, hint, place=turn.place(entry.location, "the result"))
    return (*args, *kwargs.values(), result)


def _check_typed(turn: Turn, entry: Entry, signature: Signature, skip: int) -> None:
    """Refuse values of which nobody knows the type."""
    untyped = [one.name for one in signature.parameters[skip:] if one.hint is ANY]
    if untyped:
        path, step = turn.journal.names.text(entry.location), unpack(entry.undo or b'["",""]\n')[0][0]
        raise DefinitionError(
            f"the types of what undoes {path} are not known",
            where=path,
            why=f"the code did not come to {path} again, its step {step} cannot be found by that name, and the "
            f"parameter {untyped[0]!r} of the compensation has no annotation",
            fix=f"annotate {untyped[0]!r}, or define the step at the top of a module; then resume the rollback",
        )


def _unknown(path: str, recorded: str) -> DefinitionError:
    if recorded.startswith(_UNNAMED):
        return DefinitionError(
            f"the compensation of {path} cannot be found again",
            where=path,
            why=f"recorded: {recorded[1:]}, which is no function at the top of a module, so it is bound to its place "
            "in the code; and this code did not come to that place again",
            fix="start a worker with the code that recorded it, then resume the rollback; from now on write "
            "@step(compensate=undo) with a function `def undo(...)` at the top of a module",
        )
    return DefinitionError(
        f"the function {recorded} that undoes {path} is not known to this worker",
        where=path,
        why="this code did not come to that place again, and no compensation has this name",
        fix="import the module that defines it where the workflow is registered, then resume the rollback",
    )


def _given(compensation: Callable[..., Any], offered: tuple[Any, ...]) -> tuple[Any, ...]:
    signature = signature_of(compensation)
    parameters = signature.parameters[count_given_first(signature) :]
    if any(parameter.kind is Kind.VAR_POSITIONAL for parameter in parameters):
        return offered
    positional = sum(parameter.kind in (Kind.POSITIONAL_ONLY, Kind.POSITIONAL_OR_KEYWORD) for parameter in parameters)
    return offered[:positional]
