"""Every ported sample runs as a program, and its workflow survives a crash at every commit."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from examples.ported import (
    batch,
    canvas,
    counter,
    data_pipeline,
    durable_agent,
    expense_approval,
    money_transfer,
    payment,
    polling,
    shopping_cart,
    subscription,
    trial_reminders,
)
from stepwell import Workflow
from stepwell.testing.kits import Kit

PORTED = Path(__file__).resolve().parents[2] / "examples" / "ported"

LAST_LINES = {
    "batch": r"Summary\(emails=8, failed=\['user-1b'\]\)",
    "canvas": "118",
    "counter": "0",
    "data_pipeline": r"Loaded\(rows=6, bad_files=\['2026-11-19/rome.csv'\]\)",
    "durable_agent": "I booked the Grand, and it is sunny in Oslo",
    "expense_approval": "approved by bob",
    "money_transfer": r"\{'ann': 60, 'bob': 40\}",
    "payment": "paid 500 EUR",
    "polling": "dogs: asked once, the next time is in a minute",
    "shopping_cart": "1 things to 1 Ann Street",
    "subscription": r"ann paid \d times",
    "trial_reminders": "pro",
}


def test_every_sample_is_tested() -> None:
    assert {path.stem for path in PORTED.glob("*.py")} == {"__init__", *LAST_LINES}


@pytest.mark.parametrize("name", sorted(LAST_LINES))
def test_the_sample_runs_as_a_program(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(PORTED / f"{name}.py")]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert re.fullmatch(LAST_LINES[name], ended.stdout.splitlines()[-1])
    assert list(tmp_path.iterdir()) == []


# --- a crash at every commit ---


async def survives(kit: Kit, flow: Workflow[Any, Any], given: Any = None, *script: Any, **options: Any) -> None:
    """Its outcome and its effects are the same whatever commit a worker dies at."""
    report = await kit.crash_everywhere(flow, given, script=list(script), **options)

    assert report.ok == report.points > 0


@pytest.mark.parametrize("target", ["bob", "nobody"])
async def test_money_is_moved_once_or_given_back(stepwell: Kit, target: str) -> None:
    def begin() -> None:
        money_transfer.bank.bookings.clear()
        money_transfer.bank.accounts.update({"ann": 100, "bob": 0})

    transfer = money_transfer.Transfer("ann", target, 40)
    await survives(
        stepwell,
        money_transfer.money_transfer,
        transfer,
        effects=lambda: money_transfer.bank.bookings.values(),
        at_most_once=["withdraw", "deposit"],
        before_each=begin,
    )

    assert sum(money_transfer.bank.accounts.values()) == 100


async def test_a_subscription_is_paid_until_it_is_cancelled(stepwell: Kit) -> None:
    await survives(
        stepwell,
        subscription.subscription,
        subscription.Subscription("ann", 9, paid=11),
        stepwell.send("change price", 12),
        stepwell.advance("31d"),  # the year is over: it continues as new
        stepwell.advance("10d"),
        stepwell.send("cancel"),
    )


async def test_a_subscription_charges_the_price_of_the_day(stepwell: Kit, capsys: pytest.CaptureFixture[str]) -> None:
    run = await stepwell.start(subscription.subscription, subscription.Subscription("ann", 9, timedelta(days=30)))
    await stepwell.clock.advance(days=30)
    await run.signal(subscription.change_price, 12)
    await stepwell.clock.advance(days=30)
    await run.signal("cancel")

    assert await run.result() == "ann paid 2 times"
    assert [line.partition(",")[0] for line in capsys.readouterr().out.splitlines()] == [
        *("ann: welcome", "ann: 9 EUR", "ann: 12 EUR", "ann: goodbye")
    ]


@pytest.mark.parametrize("is_decided", [True, False])
async def test_an_expense_is_decided_once(stepwell: Kit, is_decided: bool) -> None:
    paid: list[str] = []
    stepwell.mock(expense_approval.pay, side_effect=lambda expense: paid.append(expense.employee))
    decision = {"by": "bob", "approved": True}
    act = stepwell.send("decide", decision) if is_decided else stepwell.advance("3d")
    expense = expense_approval.Expense("ann", 80)
    await survives(
        stepwell, expense_approval.approve_expense, expense, act, effects=lambda: set(paid), before_each=paid.clear
    )

    assert set(paid) == ({"ann"} if is_decided else set())


@pytest.mark.parametrize("flow", [polling.transcode, polling.transcode_quickly], ids=["seldom", "often"])
async def test_a_job_is_polled_until_it_is_done(stepwell: Kit, flow: Workflow[Any, Any]) -> None:
    await survives(stepwell, flow, "cats", before_each=polling.api.asked.clear, same_result=str)


async def test_a_batch_sends_every_mail(stepwell: Kit) -> None:
    await survives(stepwell, batch.newsletter)


@pytest.mark.parametrize("buys", [True, False])
async def test_a_user_is_reminded_until_they_buy(stepwell: Kit, buys: bool) -> None:
    bought = trial_reminders.Purchased(user="ann", plan="pro")
    acts = [stepwell.advance("4d"), stepwell.publish(bought)] if buys else []
    await survives(stepwell, trial_reminders.trial_reminders, trial_reminders.Trial("ann"), *acts)


async def test_a_cart_is_changed_forgotten_and_bought(stepwell: Kit) -> None:
    await survives(
        stepwell,
        shopping_cart.cart,
        shopping_cart.Cart("ann"),
        stepwell.send("change", {"product": "tea", "count": 2}),
        stepwell.advance("2d"),
        stepwell.send("change", {"product": "tea", "count": -1}),
        stepwell.send("checkout", "1 Ann Street"),
    )


async def test_an_agent_repeats_no_booking(stepwell: Kit) -> None:
    await survives(stepwell, durable_agent.agent, "Where can I sleep?", stepwell.send("approve"))


@pytest.mark.parametrize("amount", [20, 500])
async def test_a_payment_is_made_once(stepwell: Kit, amount: int) -> None:
    acts = [stepwell.send("settled", {"status": "succeeded"})] if amount > 100 else []
    intents = payment.provider.intents
    await survives(
        stepwell,
        payment.payment,
        payment.Payment(amount, "4242"),
        *acts,
        effects=lambda: list(intents.values()),
        before_each=intents.clear,
    )


async def test_a_payment_that_is_never_settled_is_taken_back(stepwell: Kit) -> None:
    intents = payment.provider.intents
    await survives(
        stepwell,
        payment.payment,
        payment.Payment(500, "4242"),
        stepwell.advance("8d"),
        effects=lambda: list(intents.values()),
        before_each=intents.clear,
    )

    assert intents == {}


@pytest.mark.parametrize(
    ("flow", "given"),
    [(canvas.chain, 4), (canvas.chord, 5), (canvas.chain_of_groups, None)],
    ids=["chain", "chord", "groups"],
)
async def test_a_canvas_comes_to_its_end(stepwell: Kit, flow: Workflow[Any, Any], given: Any) -> None:
    await survives(stepwell, flow, given)


async def test_a_counter_counts_every_request_once(stepwell: Kit) -> None:
    first, _ = stepwell.workers(2)
    run = await stepwell.start(counter.counter, 0, key="visits")
    await run.signal("add", 1)
    await run.until_waiting()
    stepwell.kill(first)
    for number in (2, 3):
        await run.signal("add", number)
    await run.until_waiting()

    assert await stepwell.engine.state("visits", "count") == 6


async def test_a_pipeline_reports_the_files_that_are_bad(stepwell: Kit) -> None:
    await survives(stepwell, data_pipeline.load_day, "2026-11-19")
