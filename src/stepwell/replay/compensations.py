"""What is stored with a step that can be undone: the names of its function and its compensation, and its input."""

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
from stepwell.model.states import EntryKind
from stepwell.replay.headers import pack, unpack
from stepwell.replay.journal import Journal
from stepwell.replay.parameters import count_given_first
from stepwell.replay.step_options import qualified_name
from stepwell.replay.steps import Step, find_compensation, find_step, stable_name
from stepwell.replay.turn import Turn

_UNNAMED = "~"  # prefix of a name by which the callable cannot be found again: it is bound to its place in the code


class UndoFailed(Exception):  # noqa: N818  control flow inside a rollback
    """A compensation failed permanently."""

    def __init__(self, failure: FailureRecord) -> None:
        super().__init__(failure.summary)
        self.failure = failure


def describe_call(
    turn: Turn, location: Location, step: Step[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bytes:
    """What is stored with a step's result so that it can be undone: two names, and the input.

    Raises `InvalidOptionError` if the compensation needs more values than this call passes.
    """
    assert step.options_.compensate is not None
    if step.undo_needs > len(args) + len(kwargs) + 1:
        step.check_compensation(len(args) + len(kwargs))
    place = turn.place(location, "the input", field="undo")
    arguments = encode_call(args, kwargs, step.fn, skip=step.skip, codec=turn.codec, place=place)
    return pack([step.qualified, name_of(step.options_.compensate)], arguments)


def name_of(compensation: Callable[..., Any]) -> str:
    """The name that is stored for a function that undoes something."""
    return stable_name(compensation) or _UNNAMED + qualified_name(compensation)


def signature_of(fn: Callable[..., Any]) -> Signature:
    """The signature of a function, or of the body of a step."""
    return fn.signature if isinstance(fn, Step) else hints_of(fn)


def body_of(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function whose annotations say what it takes."""
    return fn.fn if isinstance(fn, Step) else fn


def is_bound(journal: Journal, entry: Entry) -> bool:
    """Whether the code has passed the place of an entry in this process, so that its compensation is known."""
    return entry.location in journal.bound or entry.location in journal.bound_effects


def has_name(entry: Entry) -> bool:
    """Whether the compensation of an entry can be found by its name, without the code passing its place."""
    header, _ = unpack(entry.undo or b'["",""]\n')
    return find_effect(header[1]) is not None if not header[0] else find_compensation(header[1]) is not None


def is_unnamed(entry: Entry) -> bool:
    """Whether only the code that passes the place of an entry has its compensation."""
    return str(unpack(entry.undo or b'["",""]\n')[0][1]).startswith(_UNNAMED)


def find_effect(name: str) -> Callable[..., Any] | None:
    """The function that undoes an effect, by its name: what code has passed for that, or a step."""
    return find_compensation(name) or find_step(name)


def read_call(turn: Turn, entry: Entry) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The compensation of an entry and its arguments: as many of (the step's arguments, then its result) as it takes.

    The code passes the compensation at this place. If the code does not pass the place again, it is the
    only function that has the recorded name. Raises `UndoFailed` if there is none, or more than one.
    """
    header, payload = unpack(entry.undo or b'["",""]\n')
    if not header[0]:
        return _read_effect(turn, entry, header[1], payload)
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


def _read_effect(turn: Turn, entry: Entry, name: str, payload: bytes) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The function that undoes an effect outside of a step, and its own arguments."""
    fn = turn.journal.bound_effects.get(entry.location) or find_effect(name)
    path = turn.journal.names.text(entry.location)
    if fn is None:
        raise UndoFailed(record_failure(_unknown(path, name), path=path))
    place = turn.place(entry.location, "the input", field="undo")
    try:
        args, _ = decode_call(
            payload, body_of(fn), skip=count_given_first(signature_of(fn)), codec=turn.codec, place=place
        )
    except StepwellError as error:
        raise UndoFailed(record_failure(error, path=path)) from error
    return fn, args


def _read(
    turn: Turn, entry: Entry, payload: bytes, step: Step[..., Any] | None, compensation: Callable[..., Any]
) -> tuple[Any, ...]:
    """The arguments of a step and its result, typed by the step. If the step is not known, the annotations of the
    compensation decide.
    """
    place = turn.place(entry.location, "the input", field="undo")
    if step is not None:
        args, kwargs = decode_call(payload, step.fn, skip=step.skip, codec=turn.codec, place=place)
        hint = step.signature.returns
    else:
        signature = signature_of(compensation)
        skip = count_given_first(signature)
        args, kwargs = decode_call(payload, body_of(compensation), skip=skip, codec=turn.codec, place=place)
        last = signature.positional(skip + len(args) + len(kwargs))
        hint = ANY if last is None else last.hint
        _check_typed(turn, entry, signature, skip)
    result = None
    if entry.kind is not EntryKind.BEGUN:  # its outcome is not known
        value = unpack(entry.value)[1] if entry.kind is EntryKind.CHILD else entry.value
        result = turn.codec.decode(value, hint, place=turn.place(entry.location, "the result"))
    return (*args, *kwargs.values(), result)


def _check_typed(turn: Turn, entry: Entry, signature: Signature, skip: int) -> None:
    """Reject a compensation without annotations where the step, which has the types, is not known."""
    untyped = [one.name for one in signature.parameters[skip:] if one.hint is ANY]
    if untyped:
        path, step = turn.journal.names.text(entry.location), unpack(entry.undo or b'["",""]\n')[0][0]
        raise DefinitionError(
            f"the compensation of {path} cannot be called: the types of its arguments are not known",
            where=path,
            why=f"the code did not pass {path} again, no step has the recorded name {step}, and the parameter "
            f"{untyped[0]!r} of the compensation has no annotation",
            fix=f"annotate {untyped[0]!r}, or define the step at the top of a module; then resume the rollback",
        )


def _unknown(path: str, recorded: str) -> DefinitionError:
    if recorded.startswith(_UNNAMED):
        return DefinitionError(
            f"the compensation of {path} cannot be found again",
            where=path,
            why=f"it is {recorded[1:]}, which is not a function at the top of a module, so only the code that passes "
            f"{path} has it; and this code did not pass {path} again",
            fix="start a worker with the code that recorded it, then resume the rollback; in new code write "
            "@step(compensate=undo) with a function `def undo(...)` at the top of a module",
        )
    return DefinitionError(
        f"this worker does not know the compensation {recorded} of {path}",
        where=path,
        why=f"this code did not pass {path} again, and no loaded compensation has this name",
        fix="import its module where the workflow is registered, restart the worker, then resume the rollback",
    )


def _given(compensation: Callable[..., Any], offered: tuple[Any, ...]) -> tuple[Any, ...]:
    signature = signature_of(compensation)
    parameters = signature.parameters[count_given_first(signature) :]
    if any(parameter.kind is Kind.VAR_POSITIONAL for parameter in parameters):
        return offered
    positional = sum(parameter.kind in (Kind.POSITIONAL_ONLY, Kind.POSITIONAL_OR_KEYWORD) for parameter in parameters)
    return offered[:positional]
