"""Effects outside of steps, and beginnings whose outcome may stay unknown: recorded with what undoes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from stepwell.codec.signatures import MISSING, Kind, Signature, encode_call
from stepwell.errors import InvalidOptionError, StepwellError, StoreError
from stepwell.ids import RunId
from stepwell.model.entries import Entry
from stepwell.model.locations import Location, begun
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.compensations import body_of, describe_call, name_of, signature_of
from stepwell.replay.headers import pack
from stepwell.replay.parameters import count_given_first
from stepwell.replay.recorded_values import stopped
from stepwell.replay.scopes import Scope
from stepwell.replay.steps import Step, register_compensation, step_of
from stepwell.replay.turn import Turn

EFFECT: Final = pack(["effect"], b"")
STEP: Final = pack(["step"], b"")


class TakenFirst(Protocol):
    """What a function that undoes something may take before its arguments: a context of any kind."""

    @property
    def run_id(self) -> RunId: ...


Given = TypeVar("Given", bound=TakenFirst)
_POSITIONAL: Final = (Kind.POSITIONAL_ONLY, Kind.POSITIONAL_OR_KEYWORD)


async def run_effect(
    scope: Scope, location: Location, entry: Entry | None, fn: Callable[..., Any], args: Sequence[Any]
) -> None:
    """Record what undoes an effect that the code is about to have. It is durable before the next step begins."""
    turn = scope.turn
    bind_effect(turn, location, fn)
    if entry is None:
        undo = describe_effect(turn, location, fn, args)
        await turn.order.reach_end()
        entry = turn.journal.record(location, EntryKind.EFFECT, EntryStatus.DONE, EFFECT, turn.now, undo=undo)
    else:
        await turn.order.reach(entry)
    scope.note_result(entry)


async def begin_step(
    scope: Scope,
    location: Location,
    entry: Entry | None,
    step: Step[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    """Record that a step is about to begin, with what undoes it if its outcome stays unknown."""
    turn, at = scope.turn, begun(location)
    known = scope.enter(at, EntryKind.BEGUN)
    turn.journal.bound[at] = step
    if known is not None:
        await turn.order.reach(known)
    elif entry is None:
        try:
            undo = describe_call(turn, location, step, args, kwargs)
        except StoreError as error:
            raise stopped(turn, turn.journal.names.text(location), error) from error
        except StepwellError:
            return  # the step fails with it, and does not run
        await turn.order.reach_end()
        known = turn.journal.record(at, EntryKind.BEGUN, EntryStatus.DONE, STEP, turn.now, undo=undo)
    if known is not None:
        scope.note_result(known, uses_signals=False)


def bind_effect(turn: Turn, location: Location, fn: Callable[..., Any]) -> None:
    """The code passes this function at this place."""
    turn.journal.bound_effects[location] = fn
    register_compensation(fn)


def describe_effect(turn: Turn, location: Location, fn: Callable[..., Any], args: Sequence[Any]) -> bytes:
    """What is stored with an effect: the name of the function that undoes it, and its arguments."""
    place = turn.place(location, "the input", field="undo")
    skip = count_given_first(signature_of(fn))
    try:
        arguments = encode_call(args, {}, body_of(fn), skip=skip, codec=turn.codec, place=place)
    except StoreError as error:
        raise stopped(turn, turn.journal.names.text(location), error) from error
    return pack(["", name_of(fn)], arguments)


def named_effect(what: str, fn: Any, args: tuple[Any, ...]) -> tuple[Callable[..., Any], str, tuple[Any, ...]]:
    """The function, its name and its arguments: `what(fn, *args)` or `what("name", fn, *args)`."""
    if isinstance(fn, str):
        name, called, given = fn, args[0] if args else None, args[1:]
    else:
        name, called, given = "", fn, args
    if not callable(called):
        raise InvalidOptionError(
            f"{what} got {called!r}, which is not callable", where=what, fix=f"write: {what}(function, *args)"
        )
    return called, name or step_of(called).name, given


def bound_arguments(what: str, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments of a later call, by position. Raises `InvalidOptionError` if the function cannot be called so."""
    signature, left, given = signature_of(fn), dict(kwargs), list(args)
    parameters = [one for one in signature.parameters[count_given_first(signature) :] if one.kind in _POSITIONAL]
    for parameter in parameters[len(given) :]:
        if parameter.name not in left:
            break
        given.append(left.pop(parameter.name))
    needed = sum(one.default is MISSING for one in parameters)
    takes_any = any(one.kind is Kind.VAR_POSITIONAL for one in signature.parameters)
    if left or len(given) < needed or (len(given) > len(parameters) and not takes_any) or _needs_keyword(signature):
        name = getattr(fn, "__name__", type(fn).__name__)
        raise InvalidOptionError(
            f"{what} cannot call {name} with the given arguments later",
            where=name,
            why=f"given are {len(given)} arguments{f' and {sorted(left)}' if left else ''}; it takes "
            f"{', '.join(one.name for one in parameters) or 'none'}, by position",
            fix=f"write: {what}({', '.join([name, *(one.name for one in parameters)])})",
        )
    return given


def _needs_keyword(signature: Signature) -> bool:
    return any(one.kind is Kind.KEYWORD_ONLY and one.default is MISSING for one in signature.parameters)
