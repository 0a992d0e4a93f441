"""`@step`: functions with side effects, whose results are recorded."""

from __future__ import annotations

import asyncio
import functools
import inspect
from asyncio import events
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from types import FunctionType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, NoReturn, ParamSpec, TypeVar, cast, overload

from stepwell.clock import Duration, span
from stepwell.codec.signatures import Signature, hints_of
from stepwell.environment import is_on_lockstep_thread
from stepwell.errors import InvalidOptionError, NonDeterministicError
from stepwell.model.locations import check_name
from stepwell.model.outbox import check_event_name
from stepwell.model.retries import Retry
from stepwell.replay.budgets import Budget, budget_of
from stepwell.replay.deprecations import warn_of_repeat
from stepwell.replay.event_loop import TurnLoop
from stepwell.replay.isolation import Isolated, Isolation, Size, isolated
from stepwell.replay.parameters import check_compensation, count_needed_roughly, takes
from stepwell.replay.step_options import (
    Durability,
    StepOptions,
    UndoWhen,
    check_budget,
    check_transaction,
    find_named,
    names_of,
    options_of,
    qualified_name,
)

if TYPE_CHECKING:
    from stepwell.model.transactions import Transaction
    from stepwell.replay.step_context import StepContext

P = ParamSpec("P")
R = TypeVar("R")

_OWN_STEP: Final = "__stepwell_step__"  # the attribute of a function that holds its step


class Step(Generic[P, R]):
    """A unit of work with side effects. Its body may run more than once; one result is recorded."""

    __slots__ = (
        "__dict__",
        "fn",
        "is_async",
        "options_",
        "qualified",
        "signature",
        "skip",
        "takes_context",
        "takes_transaction",
        "undo_needs",
    )

    def __init__(self, fn: Callable[..., Any], options: StepOptions) -> None:
        functools.update_wrapper(self, fn, updated=())
        if options.repeat:
            warn_of_repeat()
        self.fn = isolated(fn, options.isolate, options.memory_max, options.env)
        self.options_ = options
        self.signature: Signature = hints_of(fn)
        if options.emits is not None:
            check_event_name(options.emits)
        self.takes_context = takes(self.signature, "StepContext")
        self.takes_transaction = takes(self.signature, "Transaction")
        self.skip = int(self.takes_context or self.takes_transaction)  # parameters that the engine fills in
        if options.budget is not None:
            check_budget(self.fn, options, self.takes_context)
        if options.transaction or self.takes_transaction:
            check_transaction(self.fn, options, self.takes_transaction)
        # A body in a process of its own is awaited, too, and stopped by a cancel.
        self.is_async = is_async(fn) or isinstance(self.fn, Isolated)
        self.qualified = qualified_name(fn)
        if _may_be_found(self.qualified):
            _STEPS[self.qualified] = self
        self.undo_needs = 0  # values that the compensation needs: arguments and result; one more if it has a context
        if options.compensate is not None:
            if not callable(options.compensate):
                raise InvalidOptionError(
                    f"compensate of step {options.name!r} is not callable", fix="pass the function that undoes it"
                )
            self.undo_needs = count_needed_roughly(options.compensate, _signature_of(options.compensate))
            if self.undo_needs > len(self.signature.parameters) - self.skip + 1:
                self.check_compensation()
            register_compensation(options.compensate)

    def check_compensation(self, passed: int | None = None) -> None:
        """Reject a compensation that cannot be called after a call with `passed` arguments, or after any call."""
        undo = self.options_.compensate
        assert undo is not None
        check_compensation(undo, _signature_of(undo), self.signature, self.skip, self.name, passed)

    @property
    def name(self) -> str:
        """The last segment of its path."""
        return self.options_.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the body directly, as a plain function; nothing is recorded. Raises in workflow code."""
        loop = events._get_running_loop()
        if (isinstance(loop, TurnLoop) and not loop.is_recording) or is_on_lockstep_thread():
            self._refuse_call(loop, has_arguments=bool(args or kwargs))
        return cast("R", self.fn(*args, **kwargs))

    def _refuse_call(self, loop: asyncio.AbstractEventLoop | None, *, has_arguments: bool) -> NoReturn:
        line = f"ctx.step({getattr(self, '__name__', self.name)}{', ...' if has_arguments else ''})"
        error = NonDeterministicError(
            f"workflow code called step {self.name!r} directly",
            where=self.name,
            why="a direct call is not recorded, so each recovery would run it again",
            fix=f"write {'await ' if isinstance(loop, TurnLoop) else ''}{line}",
        )
        if isinstance(loop, TurnLoop) and loop.problem is None:
            loop.problem = error  # code that swallows the exception does not continue
        raise error

    def options(
        self,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        compensate: Callable[..., Any] | None = None,
        undo: UndoWhen | None = None,
        durability: Durability | None = None,
        repeat: bool | None = None,
        at_most_once: bool | None = None,
        isolate: Isolation | None = None,
        memory_max: Size | None = None,
        env: str | Iterable[str] | None = None,
        emits: str | None = None,
        budget: Duration | Budget | None = None,
        transaction: bool | None = None,
        unique: bool | None = None,
        fingerprint: bool | None = None,
    ) -> Step[P, R]:
        """The same step with other options for one call."""
        changes: dict[str, Any] = {
            "name": name and check_name(name, what="step name"),
            "retry": retry,
            "timeout": None if timeout is None else span(timeout, what="timeout"),
            "compensate": compensate,
            "undo": undo,
            "durability": durability,
            "repeat": repeat,
            "at_most_once": at_most_once,
            "isolate": isolate,
            "memory_max": memory_max,
            "env": None if env is None else names_of(env),
            "emits": emits,
            "budget": budget_of(budget),
            "transaction": transaction,
            "unique": unique,
            "fingerprint": fingerprint,
        }
        return Step(self.fn, replace(self.options_, **{k: v for k, v in changes.items() if v is not None}))


def _signature_of(fn: Callable[..., Any]) -> Signature | None:
    return fn.signature if isinstance(fn, Step) else None


_STEPS: dict[str, Step[..., Any]] = {}
_COMPENSATIONS: dict[str, tuple[Callable[..., Any], ...]] = {}


def _may_be_found(qualified: str) -> bool:
    """Whether a module may have an object under a name. Lambdas and local functions are not found by name, and keeping
    them here would keep what they capture.
    """
    return "<" not in qualified


def find_step(qualified: str) -> Step[..., Any] | None:
    """The step that a record refers to. None if it is not known here, or if its name now means another function."""
    known, found = _STEPS.get(qualified), find_named(qualified)
    return known if known is not None and found is not None and _body(known) is _body(found) else None


def find_compensation(qualified: str) -> Callable[..., Any] | None:
    """The compensation that a record refers to, if exactly one has that name."""
    found = [fn for fn in _COMPENSATIONS.get(qualified, ()) if stable_name(fn) == qualified]
    return found[0] if len(found) == 1 else None


def stable_name(fn: Callable[..., Any]) -> str | None:
    """The name by which every process that has the module finds this callable: a function, step or class at the top of
    a module, or a static or class method. None for all others: a lambda, a partial, a bound method, a function inside a
    function and a callable object share their names with others.
    """
    name = qualified_name(fn)
    found = find_named(name)
    if found is None:
        return None
    return name if _body(found) is _body(fn) or (inspect.ismethod(fn) and found == fn) else None


def register_compensation(fn: Callable[..., Any]) -> None:
    """Remember a callable by its name, together with others of the same name."""
    name = qualified_name(fn)
    if not _may_be_found(name):
        return
    known = [one for one in _COMPENSATIONS.get(name, ()) if not _is_same(one, fn) and stable_name(one) is not None]
    _COMPENSATIONS[name] = (*known, fn)


def _is_same(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    if isinstance(one, Step) and isinstance(other, Step):
        return _body(one) is _body(other) and one.options_ == other.options_
    return one is other or (inspect.ismethod(one) and one == other)


def _body(fn: Any) -> Any:
    fn = fn.fn if isinstance(fn, Step) else fn
    return fn.func if isinstance(fn, Isolated) else fn


def is_async(fn: Any) -> bool:
    """Whether calling it returns a coroutine."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


@overload
def step(fn: Callable[Concatenate[StepContext, P], Awaitable[R]], /) -> Step[P, R]: ...
@overload
def step(fn: Callable[P, Awaitable[R]], /) -> Step[P, R]: ...
@overload
def step(fn: Callable[Concatenate[StepContext, P], R], /) -> Step[P, R]: ...
@overload
def step(fn: Callable[P, R], /) -> Step[P, R]: ...
@overload
def step(
    fn: Callable[P, Awaitable[R]],
    /,
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    compensate: Callable[..., Any] | None = None,
    undo: UndoWhen = "done",
    durability: Durability = "normal",
    repeat: bool = False,
    at_most_once: bool = False,
    isolate: Isolation | None = None,
    memory_max: Size | None = None,
    env: str | Iterable[str] = (),
    emits: str | None = None,
    budget: Duration | Budget | None = None,
    transaction: bool = False,
    unique: bool = False,
    fingerprint: bool = True,
    raises: Iterable[type[Exception]] = (),
) -> Step[P, R]: ...
@overload
def step(
    fn: Callable[P, R],
    /,
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    compensate: Callable[..., Any] | None = None,
    undo: UndoWhen = "done",
    durability: Durability = "normal",
    repeat: bool = False,
    at_most_once: bool = False,
    isolate: Isolation | None = None,
    memory_max: Size | None = None,
    env: str | Iterable[str] = (),
    emits: str | None = None,
    budget: Duration | Budget | None = None,
    transaction: bool = False,
    unique: bool = False,
    fingerprint: bool = True,
    raises: Iterable[type[Exception]] = (),
) -> Step[P, R]: ...
@overload
def step(
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    compensate: Callable[..., Any] | None = None,
    undo: UndoWhen = "done",
    durability: Durability = "normal",
    repeat: bool = False,
    at_most_once: bool = False,
    isolate: Isolation | None = None,
    memory_max: Size | None = None,
    env: str | Iterable[str] = (),
    emits: str | None = None,
    budget: Duration | Budget | None = None,
    transaction: bool = False,
    unique: bool = False,
    fingerprint: bool = True,
    raises: Iterable[type[Exception]] = (),
) -> StepDecorator: ...
def step(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    compensate: Callable[..., Any] | None = None,
    undo: UndoWhen = "done",
    durability: Durability = "normal",
    repeat: bool = False,
    at_most_once: bool = False,
    isolate: Isolation | None = None,
    memory_max: Size | None = None,
    env: str | Iterable[str] = (),
    emits: str | None = None,
    budget: Duration | Budget | None = None,
    transaction: bool = False,
    unique: bool = False,
    fingerprint: bool = True,
    raises: Iterable[type[Exception]] = (),
) -> Any:
    """Make a function a step: `@step`, `@step(retry=...)`, or `step(fn, retry=...)` for a single use.

    A body may run more than once: after a failure, as `retry` says, and after a crash. Its recorded result is one.

    `name`: the last part of its path; the name of the function by default.
    `retry`: how often, how soon and after which exceptions a failed body runs again; three attempts by default.
    `timeout`: the longest time for one attempt ("30s").
    `compensate`: the function that undoes the step. It gets the arguments of the step and then its result, as many as
        it takes.
    `undo`: "always" also undoes a step that failed, ran out of time, was cancelled, or was lost with its worker: its
        outcome is unknown. The beginning is recorded before the body runs, and the compensation gets None as the
        result.
    `durability`: "deferred" lets the next step begin before this result is stored. A crash may then repeat this step
        and the steps after it.
    `repeat`: deprecated, and without effect: the uses of a step in one scope are numbered.
    `at_most_once`: the beginning is recorded before the body runs, and stepwell never runs the body again by itself. If
        the worker dies in it, the step fails with `OutcomeUnknown`. An operator's `retry`, `redrive` or `rewind` runs
        it again.
    `isolate`: "process" runs each attempt in a process of its own, which is killed at its timeout, by a cancel, or
        above `memory_max` ("512MB"). The process gets the environment variables that every program needs, and the
        variables that `env` names (["DATABASE_URL", "AWS_*"]).
    `emits`: the name of an event. The step's result is its payload; it is published with the commit that records it.
    `budget`: what a long step may use in one turn before `StepContext.should_yield()` is true.
    `transaction`: the first argument is a `Transaction` of the database: the rows that the body writes and its result
        commit together.
    `unique`: the step may be used once in a scope. Otherwise its uses are numbered: `charge`, `charge#2`, …
    `fingerprint`: numbered uses record a fingerprint of their arguments, and a replay that passes other arguments stops
        the run. False, if the arguments may differ from one replay to the next.
    `raises`: the exception types that a workflow may catch with an `except` clause of their own.
    """
    decorator = StepDecorator(
        {
            "name": name,
            "retry": retry,
            "timeout": timeout,
            "compensate": compensate,
            "undo": undo,
            "durability": durability,
            "repeat": repeat,
            "at_most_once": at_most_once,
            "isolate": isolate,
            "memory_max": memory_max,
            "env": env,
            "emits": emits,
            "budget": budget,
            "transaction": transaction,
            "unique": unique,
            "fingerprint": fingerprint,
            "raises": raises,
        }
    )
    return decorator if fn is None else decorator(fn)


class StepDecorator:
    """What `@step(...)` returns: keeps the body's own signature."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given

    @overload
    def __call__(self, fn: Callable[Concatenate[StepContext, P], Awaitable[R]], /) -> Step[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Transaction, P], Awaitable[R]], /) -> Step[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> Step[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[StepContext, P], R], /) -> Step[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Transaction, P], R], /) -> Step[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Step[P, R]: ...
    def __call__(self, fn: Callable[..., Any], /) -> Any:
        body = fn.fn if isinstance(fn, Step) else fn
        return Step(body, options_of(body, **self._given))


# A small cache: an entry keeps its callable alive, and a bound method keeps its object.
@functools.lru_cache(maxsize=128)
def _plain(fn: Callable[..., Any]) -> Step[..., Any]:
    return Step(fn, options_of(fn))


def step_of(fn: Callable[..., Any]) -> Step[..., Any]:
    """The step of a callable: itself, or a step with default options. The step of a function is stored on the function
    and freed with it: a lambda may hold data that the run has loaded.
    """
    if isinstance(fn, Step):
        return fn
    if isinstance(fn, FunctionType):
        known: Step[..., Any] | None = fn.__dict__.get(_OWN_STEP)
        if known is None or known.fn is not fn:  # a wrapper has a copy of its function's attributes
            known = fn.__dict__[_OWN_STEP] = Step(fn, options_of(fn))
        return known
    try:
        return _plain(fn)
    except TypeError:  # not hashable
        return Step(fn, options_of(fn))


def named_step(fn: Any, args: tuple[Any, ...]) -> tuple[Step[..., Any], str, tuple[Any, ...]]:
    """The step, the name and the arguments of `ctx.step(fn, *args)` or `ctx.step("name", fn, *args)`."""
    if isinstance(fn, Step):
        return fn, fn.options_.name, args
    if isinstance(fn, str):
        if not args or not callable(args[0]):
            raise InvalidOptionError(f"step {fn!r} has no function", fix=f'write: ctx.step("{fn}", function, *args)')
        return step_of(args[0]), fn, args[1:]
    if not callable(fn):
        raise InvalidOptionError(f"ctx.step got {fn!r}, which is not callable", fix="pass a function")
    found = step_of(fn)
    return found, found.options_.name, args
