"""Workflows without a context and compensations that cannot be called are rejected where they are declared."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any, Protocol

import pytest

from stepwell import Context, StepContext, SyncContext, Transaction, step, workflow
from stepwell.errors import InvalidOptionError

declare: Any = workflow  # what mypy would reject is declared here on purpose


async def charge(order: str, amount: int = 1) -> str:
    return order


async def ping() -> int:
    return 1


async def several(*orders: str, **more: int) -> None: ...


# --- workflows -----------------------------------------------------------------------------


def test_a_workflow_whose_first_parameter_is_a_value_is_rejected_with_the_line_to_write():
    async def greet(name: str) -> str:
        return name

    with pytest.raises(InvalidOptionError) as caught:
        declare(greet)

    assert caught.value.title == "workflow 'greet' has no context parameter"
    assert caught.value.why == "its first parameter 'name' is annotated as str"
    assert caught.value.fix == "write: async def greet(ctx: Context, name: str)"


def test_a_workflow_without_parameters_is_rejected_with_the_line_to_write():
    async def nothing() -> None: ...

    def plain() -> None: ...

    with pytest.raises(InvalidOptionError) as caught:
        declare(nothing)
    with pytest.raises(InvalidOptionError) as caught_plain:
        declare(plain)

    assert caught.value.why == "it has no parameters, and the engine passes the context as the first argument"
    assert caught.value.fix == "write: async def nothing(ctx: Context)"
    assert caught_plain.value.fix == "write: def plain(ctx: SyncContext)"


def test_a_workflow_of_several_values_is_told_to_put_them_into_one():
    def add(a: list[int], b: int) -> int:
        return b

    with pytest.raises(InvalidOptionError) as caught:
        declare(add)

    assert caught.value.why == "its first parameter 'a' is annotated as list[int]"
    assert caught.value.fix == (
        "write: def add(ctx: SyncContext, order: Order), with a, b as fields of one dataclass Order"
    )


def test_a_workflow_whose_context_cannot_be_passed_by_position_is_rejected():
    async def flow(*, ctx: Context) -> None: ...

    with pytest.raises(InvalidOptionError) as caught:
        declare(flow)

    assert caught.value.why == (
        "its first parameter 'ctx' is keyword-only, and the engine passes the context by position"
    )
    assert caught.value.fix == "write: async def flow(ctx: Context)"


def test_a_context_may_be_annotated_in_every_way_that_can_hold_one():
    class Special(Context):
        pass

    class Sleeps(Protocol):
        async def sleep(self, name: str) -> None: ...

    async def bare(ctx) -> None: ...
    async def anything(ctx: Any) -> None: ...
    async def object_(ctx: object) -> None: ...
    async def special(ctx: Special) -> None: ...
    async def either(ctx: Context | SyncContext) -> None: ...
    async def annotated(ctx: Annotated[Context, "the run"]) -> None: ...
    async def protocol(ctx: Sleeps) -> None: ...
    async def unresolved(ctx: NotImported) -> None: ...  # type: ignore[name-defined]  # noqa: F821
    async def starred(*args: Any) -> None: ...

    flows: list[Callable[..., Any]] = [
        bare, anything, object_, special, either, annotated, protocol, unresolved, starred,
    ]  # fmt: skip
    assert [workflow(fn).name for fn in flows] == [fn.__name__ for fn in flows]


# --- compensations -------------------------------------------------------------------------


def refund(order: str, amount: int, receipt: str, reason: str) -> None: ...


async def refund_in_context(ctx: Context, order: str, amount: int, receipt: str, reason: str) -> None: ...


def test_a_compensation_with_too_many_parameters_is_rejected_when_its_step_is_declared():
    with pytest.raises(InvalidOptionError) as caught:
        step(charge, compensate=refund)

    assert caught.value.title == "compensation refund does not fit step 'charge'"
    assert caught.value.where == f"{__name__}:refund"
    assert caught.value.why == (
        "it needs 4 values and gets at most 3: the arguments of the step (order, amount), then its result"
    )
    assert caught.value.fix == "write: def refund(order, amount, result)"


def test_the_line_to_write_keeps_the_context_and_the_kind_of_the_compensation():
    with pytest.raises(InvalidOptionError) as of_context:
        step(charge, compensate=refund_in_context)
    with pytest.raises(InvalidOptionError) as of_lambda:
        step(ping, compensate=lambda a, b: None)
    with pytest.raises(InvalidOptionError) as of_options:
        step(several).options(compensate=lambda order, *, reason: None)

    assert of_context.value.fix == "write: async def refund_in_context(ctx: Context, order, amount, result)"
    assert of_lambda.value.why == "it needs 2 values and gets at most 1: the result of the step"
    assert of_lambda.value.fix == "write: lambda result: ..."
    assert of_options.value.why == (
        "its parameter 'reason' is keyword-only and has no default, and a compensation is called by position"
    )


class Desk:
    def give_back(self, order: str, amount: int, receipt: str) -> None: ...

    def keep(self, order: str, amount: int, receipt: str, more: int) -> None: ...


def test_a_compensation_of_any_kind_is_measured():
    @step
    async def as_step(ctx: StepContext, order: str, amount: int, receipt: str, more: int) -> None: ...

    for undo in (Desk().keep, functools.partial(refund), functools.partial(refund, order="a"), as_step, Desk.give_back):
        with pytest.raises(InvalidOptionError, match="does not fit step"):
            step(charge, compensate=undo)


def test_a_compensation_that_can_be_called_is_accepted_whatever_it_is():
    @step
    async def as_step(ctx: StepContext, order: str, amount: int, receipt: str) -> None: ...

    @step(transaction=True)
    async def in_transaction(tx: Transaction, order: str, amount: int, receipt: str) -> None: ...

    async def in_context(ctx: Context, order: str, amount: int, receipt: str) -> None: ...
    def in_sync_context(ctx: SyncContext, order: str, amount: int, receipt: str) -> None: ...
    def nothing() -> None: ...
    def keywords(order: str, amount: int, receipt: str, *, reason: str = "", **more: Any) -> None: ...
    def defaults(order: str, amount: int, receipt: str, again: int = 0) -> None: ...

    @functools.wraps(refund)
    def wrapped(*args: Any) -> None: ...

    del wrapped.__wrapped__
    undos: list[Callable[..., Any]] = [
        as_step,
        in_transaction,
        in_context,
        in_sync_context,
        nothing,
        keywords,
        defaults,
        wrapped,
        lambda *args: None,
        lambda order, result: None,
        functools.partial(refund, "fixed"),
        functools.partial(refund, reason="late"),
        Desk().give_back,
        [].append,
        print,
    ]
    for undo in undos:
        assert step(charge, compensate=undo).options_.compensate is undo
    assert step(several, compensate=refund).options_.compensate is refund
