"""One step's function alone: its context says what the test says, and keeps what the body says."""

from __future__ import annotations

import pytest

from stepwell import StepContext
from stepwell.errors import UnserialisableError
from stepwell.replay.suspend import StepYield
from stepwell.testing import SyncKit, unit_context
from tests.testing.shop import import_rows


def describe(ctx: StepContext) -> str:
    return f"{ctx.run_id} {ctx.path} {ctx.attempt} {ctx.is_final_attempt} {ctx.idempotency_key}"


def test_a_body_sees_what_the_test_gives():
    context = unit_context(run_id="r-1", path="pay", attempt=3, is_final_attempt=True)

    assert describe(context) == "r-1 pay 3 True r-1:pay"


async def test_a_body_goes_on_where_an_earlier_one_stopped():
    context = unit_context(state=2)

    assert await import_rows.fn(context, 4) == 4
    assert context.states == [3, 4]
    assert context.reports == [(3, 4, "rows", ""), (4, 4, "rows", "")]
    assert context.emitted == [("imported", {"rows": 4})]


async def test_a_body_yields_when_it_is_told_to():
    context = unit_context(yields_after=1)

    with pytest.raises(StepYield):
        await import_rows.fn(context, 4)
    assert context.states == [1, 2, 2]
    assert context.emitted == []


async def test_a_state_that_cannot_be_stored_is_refused_as_in_a_run():
    with pytest.raises(UnserialisableError):
        await unit_context().checkpoint(object())


def test_a_cancelled_attempt_says_so():
    assert unit_context(is_cancelled=True).cancelled
    assert unit_context(is_cancelled=True).should_yield()
    assert not unit_context().cancelled


def test_the_fixture_makes_such_contexts(stepwell: SyncKit):
    assert stepwell.ctx(attempt=2).attempt == 2
