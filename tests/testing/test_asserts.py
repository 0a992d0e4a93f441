"""Every assertion holds where it must, fails where it must, and shows the run when it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepwell import Context, step, workflow
from stepwell.testing import SyncKit, SyncRun
from tests.testing.shop import Order, approve, charge, fulfil, quick, reserve, ship

Check = Callable[[SyncRun[Any]], Any]

HOLD: dict[str, Check] = {
    "status": lambda run: run.assert_status("completed"),
    "status and why": lambda run: run.assert_status("completed", why="has completed"),
    "output": lambda run: run.assert_output("parcel for ann"),
    "path": lambda run: run.assert_path("reserve", "charge", "ship"),
    "path by glob": lambda run: run.assert_path("reserve", "ch*", "ship"),
    "ran": lambda run: run.assert_ran("reserve", charge),
    "not ran": lambda run: run.assert_not_ran("refund", "charge~undo"),
    "ran once": lambda run: run.assert_ran_once("reserve", ship),
    "attempts": lambda run: run.assert_attempts("charge", 1),
    "no pending": lambda run: run.assert_no_pending(),
    "within": lambda run: run.assert_within(0),
}

FAIL: dict[str, tuple[Check, str]] = {
    "status": (lambda run: run.assert_status("failed"), "the run is completed, not failed"),
    "why": (lambda run: run.assert_status("completed", why="expired"), "the reason does not contain 'expired'"),
    "output": (lambda run: run.assert_output("parcel"), "expected  'parcel'\n  found     'parcel for ann'"),
    "path too short": (lambda run: run.assert_path("reserve", "ship"), "+ charge   (done, not expected)"),
    "path too long": (
        lambda run: run.assert_path("reserve", "charge", "pack", "ship"),
        "- pack   (expected, not done)",
    ),
    "path in another order": (lambda run: run.assert_path("charge", "reserve", "ship"), "the run took another path"),
    "ran": (lambda run: run.assert_ran("charje"), "charje did not run\n  did you mean charge"),
    "ran by function": (lambda run: run.assert_ran(print), "print did not run"),
    "not ran": (lambda run: run.assert_not_ran(reserve), "reserve did run"),
    "ran once": (lambda run: run.assert_ran_once("*"), "* began 3 times, not once"),
    "never ran": (lambda run: run.assert_ran_once("refund"), "refund began 0 times, not once"),
    "attempts": (lambda run: run.assert_attempts("charge", 3), "charge was attempted 1 times, not 3"),
    "undone": (lambda run: run.assert_undone("charge"), "charge is not undone"),
    "cannot be undone": (lambda run: run.assert_undone("ship"), "it has no compensation"),
    "not done": (lambda run: run.assert_undone("pack"), "pack was not done, so it cannot be undone"),
    "waiting": (lambda run: run.assert_waiting_on("approve"), "the run does not wait for 'approve'"),
    "emitted": (lambda run: run.assert_emitted("paid"), "'paid' was not emitted"),
}


@pytest.mark.parametrize("check", HOLD.values(), ids=HOLD)
def test_an_assertion_holds_and_gives_the_run_back(stepwell: SyncKit, check: Check):
    run = stepwell.run(quick, Order("ann"))

    assert check(run) is run


@pytest.mark.parametrize(("check", "text"), FAIL.values(), ids=FAIL)
def test_an_assertion_fails_and_shows_the_run(stepwell: SyncKit, check: Check, text: str):
    run = stepwell.run(quick, Order("ann"))

    with pytest.raises(AssertionError) as caught:
        check(run)
    assert text in str(caught.value)
    assert "└─ ✓ ship" in str(caught.value)


def test_an_output_of_a_run_that_has_none_is_no_none(stepwell: SyncKit):
    run = stepwell.run(quick, Order("nobody"))

    with pytest.raises(AssertionError, match="the run is compensated and has no output"):
        run.assert_output(None)


def test_an_event_is_compared_with_its_payload_and_count(stepwell: SyncKit):
    run = stepwell.start(fulfil, Order("ann"))
    run.signal(approve, "mia")
    run.result()

    run.assert_emitted("approved").assert_emitted("app*", {"by": "mia"}, times=1)
    with pytest.raises(AssertionError, match=r"emitted: approved \{'by': 'mia'\}"):
        run.assert_emitted("approved", {"by": "bob"})
    with pytest.raises(AssertionError, match="emitted 1 times, not 2"):
        run.assert_emitted("approved", times=2)


def test_what_is_pending_is_listed(stepwell: SyncKit):
    run = stepwell.start(quick, Order("ann"))
    run.signal("hurry")
    with pytest.raises(AssertionError, match="signal 'hurry' was not read"):
        run.assert_no_pending()
    run.result()

    with pytest.raises(AssertionError, match="signal 'hurry' was left unread"):
        run.assert_no_pending()


def test_a_wait_that_was_not_driven_to_says_so(stepwell: SyncKit):
    run = stepwell.start(fulfil, Order("ann"))

    with pytest.raises(AssertionError, match="the test has not driven it that far"):
        run.assert_waiting_on("approve")


def test_a_snapshot_has_neither_ids_nor_times(stepwell: SyncKit):
    stepwell.fail("charge", times=1)
    run = stepwell.run(quick, Order("nobody"))

    assert run.snapshot() == (
        "quick v1 compensated\n"
        '  input {"customer":"nobody","amount":42}\n'
        '  ✓ reserve → "reservation of nobody" ↶\n'
        '  ✓ charge (2 attempts) → "42 EUR" ↶\n'
        "  ✕ ship: Fatal: there is no such address\n"
        "  ✓ charge~undo\n"
        "  ✓ reserve~undo\n"
        "  failure Fatal: there is no such address at ship\n"
    )


def test_a_snapshot_of_a_waiting_run_says_what_it_waits_for(stepwell: SyncKit):
    run = stepwell.start(fulfil, Order("ann"), key="order-1").until_waiting()

    assert "  … first: waits for signal 'approve'\n" in run.snapshot()
    assert run.run_id not in run.snapshot()


async def give_back(month: int) -> None:
    pass


@step(compensate=give_back)
async def pay(month: int) -> int:
    return month


@workflow
async def rent(ctx: Context, month: int) -> None:
    await ctx.step(pay, month)
    if month < 3:
        ctx.continue_as_new(month + 1)
    ctx.fail("the flat burnt down")


def test_what_a_successor_undid_is_undone_where_it_was_done(stepwell: SyncKit):
    run = stepwell.start(rent, 1)
    run.drive()

    run.assert_status("compensated").assert_undone("pay")
    assert [entry.path for entry in run.history() if "~undo" not in entry.path] == ["pay", "pay", "pay"]
