"""The options of a step, and which combinations are rejected."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from stepwell.clock import Duration, Span, span
from stepwell.errors import InvalidOptionError
from stepwell.model.locations import check_name
from stepwell.model.retries import DEFAULT_RETRY, Retry
from stepwell.replay.budgets import Budget, budget_of
from stepwell.replay.isolation import Isolated, Isolation, Size
from stepwell.replay.revival import register_types

Durability = Literal["normal", "deferred"]
_DURABILITIES: Final = get_args(Durability)
UndoWhen = Literal["done", "always"]
_UNDOS: Final = get_args(UndoWhen)


@dataclass(frozen=True, slots=True)
class StepOptions:
    """The options of a step."""

    name: str = ""
    retry: Retry = DEFAULT_RETRY
    timeout: Span | None = None
    compensate: Callable[..., Any] | None = None
    undo: UndoWhen = "done"
    durability: Durability = "normal"
    repeat: bool = False
    at_most_once: bool = False
    isolate: Isolation | None = None
    memory_max: Size | None = None
    env: tuple[str, ...] = ()
    emits: str | None = None
    budget: Budget | None = None
    transaction: bool = False
    unique: bool = False
    fingerprint: bool = True

    def __post_init__(self) -> None:
        if self.durability not in _DURABILITIES:
            raise InvalidOptionError(
                f"durability of step {self.name!r} is {self.durability!r}", fix='use "normal" or "deferred"'
            )
        if self.undo not in _UNDOS:
            raise InvalidOptionError(f"undo of step {self.name!r} is {self.undo!r}", fix='use "done" or "always"')
        if self.undo == "always" and self.compensate is None:
            raise InvalidOptionError(
                f'step {self.name!r} has undo="always" and nothing that undoes it',
                fix=f'write: @step(compensate=undo_{self.name}, undo="always")',
            )


def qualified_name(fn: Callable[..., Any]) -> str:
    """Module and name of a function: how a stored record refers to it."""
    return f"{getattr(fn, '__module__', '')}:{getattr(fn, '__qualname__', type(fn).__name__)}"


def find_named(name: str) -> Any:
    """The object that a loaded module has under a qualified name now; None if there is none."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def options_of(
    body: Callable[..., Any],
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    budget: Duration | Budget | None = None,
    raises: Iterable[type[Exception]] = (),
    env: str | Iterable[str] = (),
    **rest: Any,
) -> StepOptions:
    retry = retry or DEFAULT_RETRY
    register_types(raises)
    register_types(retry.give_up_on)
    if isinstance(retry.retry_on, tuple):
        register_types(retry.retry_on)
    name = name or str(getattr(body, "__name__", type(body).__name__))
    return StepOptions(
        name=check_name("lambda" if name == "<lambda>" else name, what="step name"),
        retry=retry,
        timeout=None if timeout is None else span(timeout, what="timeout"),
        budget=budget_of(budget),
        env=names_of(env),
        **rest,
    )


def names_of(env: str | Iterable[str]) -> tuple[str, ...]:
    """One name, or several, as a tuple."""
    return (env,) if isinstance(env, str) else tuple(env)


def check_budget(fn: Callable[..., Any], options: StepOptions, takes_context: bool) -> None:
    """Reject a budget that the body cannot use."""
    if not takes_context:
        why, fix = "a body reads its budget from a `StepContext`", "annotate the first parameter: ctx: StepContext"
    elif isinstance(fn, Isolated):
        why, fix = "a body in a process of its own cannot give its slot back", 'leave out isolate="process"'
    elif options.at_most_once:
        why, fix = "a body that runs at most once cannot continue later", "leave out at_most_once or budget"
    else:
        return
    raise InvalidOptionError(f"step {options.name!r} has a budget", where=qualified_name(fn), why=why, fix=fix)


def check_transaction(fn: Callable[..., Any], options: StepOptions, takes_transaction: bool) -> None:
    """Reject options that a transactional step cannot have."""
    refused = {
        "timeout": options.timeout is not None,
        "at_most_once": options.at_most_once,
        'undo="always"': options.undo == "always",
        'durability="deferred"': options.durability == "deferred",
        "isolate": options.isolate is not None,
    }
    if not takes_transaction:
        why, fix = "the first argument is the transaction", "annotate the first parameter: tx: Transaction"
    elif not options.transaction:
        why, fix = "only a transactional step gets a transaction", "write @step(transaction=True)"
    elif options.emits is not None:
        why, fix = "its result is recorded inside the transaction, which cannot emit", "call ctx.emit after the step"
    elif any(refused.values()):
        name = next(name for name, is_given in refused.items() if is_given)
        why, fix = (
            f"its effect happens once or not at all, so {name} cannot apply",
            f"leave out {name}",
        )
    else:
        return
    title = f"step {options.name!r} cannot be transactional as it is declared"
    raise InvalidOptionError(title, where=qualified_name(fn), why=why, fix=fix)
