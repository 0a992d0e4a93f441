"""Which parameters of workflows, steps and compensations the engine fills in, and whether the others fit."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from types import FunctionType, UnionType
from typing import Any, Final

from stepwell.codec.base import ANY
from stepwell.codec.signatures import MISSING, Kind, Parameter, Signature, hints_of
from stepwell.errors import InvalidOptionError
from stepwell.replay.step_options import qualified_name

_CONTEXTS: Final = ("Context", "SyncContext")
_GIVEN_FIRST: Final = (*_CONTEXTS, "StepContext", "Transaction")
_POSITIONAL: Final = (Kind.POSITIONAL_ONLY, Kind.POSITIONAL_OR_KEYWORD)
_UNBOUNDED: Final = 1 << 30  # a step with *args or **kwargs: any number of values
_NEVER: Final = 1 << 31  # a compensation that no number of values satisfies


def takes(signature: Signature, name: str) -> bool:
    """Whether the first parameter is annotated with our class of that name."""
    return _is_ours(signature.parameters[0].hint if signature.parameters else None, name)


def _is_ours(hint: Any, name: str) -> bool:
    return getattr(hint, "__name__", None) == name and str(getattr(hint, "__module__", "")).startswith("stepwell.")


# --- the context of a workflow -------------------------------------------------------------


def check_context(fn: Callable[..., Any], signature: Signature, name: str, *, is_plain: bool) -> None:
    """Reject a workflow whose first parameter cannot be its context."""
    first = signature.parameters[0] if signature.parameters else None
    if first is not None and first.kind is not Kind.KEYWORD_ONLY and _may_be_context(first.hint):
        return
    word, context = ("def", "SyncContext") if is_plain else ("async def", "Context")
    if first is None:
        why = "it has no parameters, and the engine passes the context as the first argument"
    elif first.kind is Kind.KEYWORD_ONLY:
        why = f"its first parameter {first.name!r} is keyword-only, and the engine passes the context by position"
    else:
        why = f"its first parameter {first.name!r} is annotated as {_spell(first.hint)}"
    raise InvalidOptionError(
        f"workflow {name!r} has no context parameter",
        where=qualified_name(fn),
        why=why,
        fix=f"write: {word} {getattr(fn, '__name__', name)}(ctx: {context}{_rest(signature.parameters)}",
    )


def _rest(parameters: tuple[Parameter, ...]) -> str:
    """The end of a workflow's first line, after its context."""
    parameters = tuple(one for one in parameters if one.name != "ctx")
    if len(parameters) > 1:
        return f", order: Order), with {', '.join(one.name for one in parameters)} as fields of one dataclass Order"
    return "".join(f", {one.name}{'' if one.hint is ANY else f': {_spell(one.hint)}'}" for one in parameters) + ")"


def _may_be_context(hint: Any) -> bool:
    """Whether a parameter with this annotation can hold a context. Only a class that rules it out cannot."""
    kind = typing.get_origin(hint) or hint
    if kind is typing.Annotated:
        return _may_be_context(typing.get_args(hint)[0])
    if kind in (typing.Union, UnionType):
        return any(map(_may_be_context, typing.get_args(hint)))
    if hint is ANY or kind is object or not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    return any(_is_ours(base, name) for base in kind.__mro__ for name in _CONTEXTS)


def _spell(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)


# --- the values of a compensation ----------------------------------------------------------


def count_given_first(signature: Signature) -> int:
    """How many parameters a compensation has before the values that it is offered: its context, if it takes one."""
    return int(any(takes(signature, name) for name in _GIVEN_FIRST))


def _count_offered(signature: Signature, skip: int) -> int:
    """How many values the compensation of a step is offered at most: the step's arguments, then its result."""
    parameters = signature.parameters[skip:]
    if any(one.kind in (Kind.VAR_POSITIONAL, Kind.VAR_KEYWORD) for one in parameters):
        return _UNBOUNDED
    return len(parameters) + 1


def count_needed_roughly(compensation: Callable[..., Any], signature: Signature | None) -> int:
    """How many values a compensation needs, or one more if it takes a context.

    The annotations of a plain function are not read here: it may be a new function for every call of a step.
    """
    is_bare = signature is None and type(compensation) is FunctionType and not compensation.__dict__
    if is_bare and not compensation.__code__.co_kwonlyargcount:
        return compensation.__code__.co_argcount - len(compensation.__defaults__ or ())
    return _count_needed(signature or hints_of(compensation))


def _count_needed(signature: Signature) -> int:
    parameters = signature.parameters[count_given_first(signature) :]
    if any(one.kind is Kind.KEYWORD_ONLY and one.default is MISSING for one in parameters):
        return _NEVER
    return sum(one.kind in _POSITIONAL and one.default is MISSING for one in parameters)


def check_compensation(
    compensation: Callable[..., Any],
    signature: Signature | None,
    step: Signature,
    skip: int,
    name: str,
    passed: int | None = None,
) -> None:
    """Reject a compensation that cannot be called with the values that it gets: the step's arguments, then its result.

    `passed` is the number of arguments of one call of the step; None means the longest possible call.
    """
    own = signature or hints_of(compensation)
    needed, offered = _count_needed(own), _count_offered(step, skip) if passed is None else passed + 1
    if needed <= offered:
        return
    undo, parameters = str(getattr(compensation, "__name__", type(compensation).__name__)), step.parameters[skip:]
    names = [one.name for one in parameters]
    if needed == _NEVER:
        missing = next(one.name for one in own.parameters if one.kind is Kind.KEYWORD_ONLY and one.default is MISSING)
        why = f"its parameter {missing!r} is keyword-only and has no default, and a compensation is called by position"
    else:
        least = "at most " if passed is None else ""
        why = f"it needs {needed} values and gets {least}{offered}: {_list_values(names, passed)}"
    fix = f"write: {_line(compensation, own, undo, parameters)}"
    if passed is not None:
        fix = f"pass all arguments: ctx.step({', '.join((name, *names))}); or give the parameters of {undo} defaults"
    raise InvalidOptionError(
        f"compensation {undo} does not fit step {name!r}", where=qualified_name(compensation), why=why, fix=fix
    )


def _list_values(names: list[str], passed: int | None) -> str:
    if passed is not None:
        return f"the {passed} argument{'' if passed == 1 else 's'} of this call, then the result"
    return f"the arguments of the step ({', '.join(names)}), then its result" if names else "the result of the step"


def _line(compensation: Callable[..., Any], own: Signature, undo: str, parameters: tuple[Parameter, ...]) -> str:
    """The first line of a compensation that fits."""
    names = [
        one.name if one.kind in _POSITIONAL or one.kind is Kind.KEYWORD_ONLY else f"*{one.name}" for one in parameters
    ]
    context = [f"{one.name}: {one.hint.__name__}" for one in own.parameters[: count_given_first(own)]]
    values = ", ".join((*context, *names, "result"))
    if undo == "<lambda>":
        return f"lambda {values}: ..."
    word = "async def" if inspect.iscoroutinefunction(compensation) else "def"
    return f"{word} {undo if undo.isidentifier() else 'undo'}({values})"
