"""Every example runs as a program, and its workflow in virtual time with its real durations, crashes included."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from examples import (
    agent,
    alert_webhook,
    approval,
    billing,
    erase_customer,
    fan_out,
    incremental_poller,
    month_end,
    nightly_report,
    onboarding,
    order_saga,
    reminder,
    shipping,
)
from examples import throttled_calls as throttled
from stepwell import Engine, RetryAfter, RunFailed, step
from stepwell.clock import to_datetime
from stepwell.sinks import EmittedEvent, handler
from tests.cases.harness import Harness
from tests.examples.conftest import Printed

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

LAST_LINES = {
    "agent": "Done. I booked the flight at 9:15; it is sunny in Oslo.",
    "alert_webhook": "orders fail is seen, seen by ann: the card API is down",
    "approval": "expense-2: rejected, because there was no answer",
    "billing": "acme: closed in cycle 3, not paid",
    "erase_customer": "the audit has 5 lines, such as: erase by dpo, ticket 815",
    "fan_out": "6 products, 38 EUR in total",
    "incremental_poller": "stopped after 8 changes",
    "month_end": "the books of Berlin are closed",
    "nightly_report": "0 nights have no report now",
    "onboarding": "Ann is active, Bob is reminded",
    "order_saga": "order-2: compensated",
    "reminder": r"stopped after \d reminders",
    "shipping": "order-2: 3 parcels",
    "throttled_calls": "10 calls, 5 receipts, 5 payouts",
}

MONTHS: dict[str, Any] = {"lease": "10d", "sweep_every": "1d"}  # for tests that last months or years


# --- as programs ---


def test_every_example_is_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {"__init__", *LAST_LINES}


@pytest.mark.parametrize("name", sorted(LAST_LINES))
def test_the_example_runs_as_a_program(name: str, tmp_path: Path):
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert re.fullmatch(LAST_LINES[name], ended.stdout.splitlines()[-1])
    assert list(tmp_path.iterdir()) == []


# --- order saga ---


async def test_an_order_is_reserved_charged_and_shipped(harness: Harness, printed: Printed):
    worker = await harness.worker(order_saga.fulfil)
    run = await worker.start(order_saga.fulfil, order_saga.Order("1", "a lamp", 40, "Lamp Street 1"))

    assert await harness.result(run) == "parcel-1"
    assert printed() == ["1: reserved a lamp", "1: charged 40 EUR", "1: shipped to Lamp Street 1"]


async def test_an_order_that_cannot_be_shipped_is_undone_last_step_first(harness: Harness, printed: Printed):
    worker = await harness.worker(order_saga.fulfil)
    run = await worker.start(order_saga.fulfil, order_saga.Order("2", "a rocket", 900, "the moon"))

    with pytest.raises(RunFailed, match="no carrier delivers to the moon"):
        await harness.result(run)
    assert (await harness.status(run)).status == "compensated"
    assert printed() == [
        "2: reserved a rocket",
        "2: charged 900 EUR",
        "2: refunded payment-2",
        "2: released reservation-2",
    ]


# --- approval ---


@pytest.mark.parametrize(("signal", "verdict"), [("approve", "approved by Ann"), ("reject", "rejected by Ann")])
async def test_the_managers_answer_counts_also_after_a_crash(harness: Harness, signal: str, verdict: str):
    worker = await harness.worker(approval.approve_expense)
    run = await worker.start(approval.approve_expense, approval.Expense("1", 80), key="expense-1")
    await harness.advance("2d")
    worker = await harness.takeover(worker, approval.approve_expense)
    await worker.signal("expense-1", signal, "Ann")

    assert await harness.result(run) == verdict


async def test_an_answer_that_is_sent_while_no_worker_runs_counts(harness: Harness, printed: Printed):
    client = await harness.client()
    run = await client.start(approval.approve_expense, approval.Expense("1", 80), key="expense-1")
    await client.signal("expense-1", "approve", "Ann")
    await harness.worker(approval.approve_expense)
    await harness.advance("10m")

    assert await harness.result(run) == "approved by Ann"
    assert printed() == ["1: asked the manager about 80 EUR"]


async def test_the_director_is_asked_after_three_days_and_nobody_answers_after_six(harness: Harness, printed: Printed):
    worker = await harness.worker(approval.approve_expense)
    silent = await worker.start(approval.approve_expense, approval.Expense("1", 80), key="silent")
    answered = await worker.start(approval.approve_expense, approval.Expense("2", 90), key="answered")
    await harness.advance("71h59m")
    assert printed() == ["1: asked the manager about 80 EUR", "2: asked the manager about 90 EUR"]
    await harness.advance("1m")
    assert sorted(printed()) == ["1: asked the director about 80 EUR", "2: asked the director about 90 EUR"]
    await worker.signal("answered", "reject", "Dua")
    await harness.advance("71h59m")
    assert (await harness.status(silent)).status == "waiting"
    await harness.advance("1m")

    assert await harness.result(silent) == "rejected, because there was no answer"
    assert await harness.result(answered) == "rejected by Dua"


# --- incremental poller ---


async def test_the_poller_copies_every_change_once_over_a_crash_and_a_long_stop(
    harness: Harness, printed: Printed, monkeypatch: pytest.MonkeyPatch
):
    changes: list[incremental_poller.Change] = []
    monkeypatch.setattr(incremental_poller, "CHANGES", changes)

    async def make_changes(minutes: int) -> None:
        for _ in range(minutes):
            changes.append(incremental_poller.Change(to_datetime(harness.clock.now()), f"change {len(changes)}"))
            await harness.advance("1m")

    worker = await harness.worker(incremental_poller.poll_changes)
    run = await worker.start(incremental_poller.poll_changes, incremental_poller.Poll(), key="poller")
    await make_changes(50)
    worker.crash()
    await make_changes(100)
    worker = await harness.worker(incremental_poller.poll_changes)
    await make_changes(50)
    await harness.advance("15m")
    await worker.signal("poller", "stop")

    assert await harness.result(run) == "stopped after 200 changes"
    assert printed() == [f"copied change {number}" for number in range(200)]
    assert (await harness.status("poller")).generation >= 8


# --- fan-out ---


async def test_all_pages_are_read_once_and_merged_in_order(harness: Harness, printed: Printed):
    worker = await harness.worker(fan_out.read_catalogue)
    run = await worker.start(fan_out.read_catalogue)
    await harness.drain()

    assert await harness.result(run) == [fan_out.Product(name, price) for name, price in fan_out.PRICES.items()]
    assert Counter(printed()) == Counter(
        [f"fetch page {page}" for page in range(3)] + [f"fetch the price of {name}" for name in fan_out.PRICES]
    )
    assert "pages/page-1/products/date/fetch_price" in await harness.paths(run)


@pytest.mark.parametrize(("pages", "names"), [([], []), ([[], ["fig"], []], ["fig"])])
async def test_a_catalogue_and_a_page_may_be_empty(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, pages: list[list[str]], names: list[str]
):
    monkeypatch.setattr(fan_out, "PAGES", pages)
    worker = await harness.worker(fan_out.read_catalogue)
    run = await worker.start(fan_out.read_catalogue)

    assert [product.name for product in await harness.result(run)] == names


async def test_after_a_crash_only_the_missing_prices_are_fetched(
    harness: Harness, printed: Printed, monkeypatch: pytest.MonkeyPatch
):
    """One price fails for two hours; the worker dies meanwhile."""
    attempts = Counter[str]()

    async def fetch_price(name: str) -> int:
        print(f"fetch the price of {name}")
        attempts[name] += 1
        if name == "fig" and attempts[name] == 1:
            raise RetryAfter("2h")
        return fan_out.PRICES[name]

    monkeypatch.setattr(fan_out, "fetch_price", fetch_price)
    worker = await harness.worker(fan_out.read_catalogue)
    run = await worker.start(fan_out.read_catalogue)
    await harness.advance("1m")
    await harness.takeover(worker, fan_out.read_catalogue)
    await harness.advance("2h")

    assert len(await harness.result(run)) == 6
    assert attempts == {**dict.fromkeys(fan_out.PRICES, 1), "fig": 2}
    assert Counter(printed())["fetch page 2"] == 1


# --- throttled calls ---


async def test_every_payout_is_made_once_and_waits_as_long_as_the_api_asks(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    api = throttled.FakeApi()
    monkeypatch.setattr(throttled, "API", api)
    worker = await harness.worker(throttled.pay_everybody)
    run = await worker.start(throttled.pay_everybody, ["Ann", "Bob", "Cem", "Dua", "Eve"])
    await harness.advance("59s")
    assert api.calls == 3  # the third was refused, for a minute
    worker = await harness.takeover(worker, throttled.pay_everybody)
    await harness.advance("3m")

    assert await harness.result(run) == [f"receipt for {name}" for name in ("Ann", "Bob", "Cem", "Dua", "Eve")]
    assert (api.calls, len(api.payouts), set(api.payouts.values())) == (10, 5, {1})


# --- onboarding ---


async def test_sc_34_whoever_stays_inactive_is_reminded_after_two_days(harness: Harness, printed: Printed):
    worker = await harness.worker(onboarding.onboard)
    run = await worker.start(onboarding.onboard, onboarding.Customer("Bob"), key="bob")
    await harness.advance("47h59m")
    assert printed() == ["mail to Bob: Welcome!"]
    await harness.advance("1m")

    assert await harness.result(run) == "reminded"
    assert printed() == ["mail to Bob: Did you know what you can do with it?"]


async def test_sc_34_onboarding_goes_on_after_a_crash_and_counts_from_its_beginning(harness: Harness, printed: Printed):
    worker = await harness.worker(onboarding.onboard)
    ann = await worker.start(onboarding.onboard, onboarding.Customer("Ann"), key="ann")
    bob = await worker.start(onboarding.onboard, onboarding.Customer("Bob"), key="bob")
    await harness.advance("1d")
    worker.crash()
    client = await harness.client()
    await client.signal("ann", "active")  # while no worker runs
    await harness.advance("12h")
    await harness.worker(onboarding.onboard)
    await harness.advance("12h")

    assert (await harness.result(ann), await harness.result(bob)) == ("active", "reminded")
    assert printed() == [
        "mail to Ann: Welcome!",
        "mail to Bob: Welcome!",
        "mail to Bob: Did you know what you can do with it?",
    ]


async def test_sc_34_a_customer_who_is_active_before_the_welcome_is_not_reminded(harness: Harness, printed: Printed):
    client = await harness.client()
    run = await client.start(onboarding.onboard, onboarding.Customer("Ann"), key="ann")
    await client.signal("ann", "active")
    await harness.worker(onboarding.onboard)
    await harness.advance("3d")

    assert await harness.result(run) == "active"
    assert printed() == ["mail to Ann: Welcome!"]


# --- billing ---


@pytest.fixture
def bank(monkeypatch: pytest.MonkeyPatch) -> billing.FakeBank:
    bank = billing.FakeBank()
    monkeypatch.setattr(billing, "BANK", bank)
    return bank


PAYING = (billing.billing, billing.dunning)


async def test_sc_34_a_payment_is_made_every_30_days_until_the_customer_cancels(
    harness: Harness, printed: Printed, bank: billing.FakeBank
):
    worker = await harness.worker(*PAYING, **MONTHS)
    run = await worker.start(billing.billing, billing.Subscription("acme"), key="acme")
    await harness.advance("29d")
    assert printed() == []
    await harness.advance("1d")
    assert printed() == ["acme: payment 1 made"]
    await harness.advance("330d")
    assert printed() == [f"acme: payment {number} made" for number in range(2, 13)]
    await worker.signal("acme", "cancel")

    assert await harness.result(run) == "cancelled by acme in cycle 13"
    assert len(bank.given_answers) == 12


async def test_sc_34_a_declined_payment_is_retried_daily_over_crashes_and_then_billing_goes_on(
    harness: Harness, printed: Printed, bank: billing.FakeBank
):
    bank.next_answers.extend([False, False, False, True])
    worker = await harness.worker(*PAYING, **MONTHS)
    run = await worker.start(billing.billing, billing.Subscription("acme"), key="acme")
    await harness.advance("15d")
    worker.crash()
    worker = await harness.worker(*PAYING, **MONTHS)
    await harness.advance("15d")
    assert printed() == ["acme: payment 1 declined"]
    assert (await harness.status("acme")).workflow == "dunning"
    for line in ("acme: payment 1 declined", "acme: payment 1 declined", "acme: payment 1 made"):
        await harness.advance("12h")
        worker.crash()
        worker = await harness.worker(*PAYING, **MONTHS)
        await harness.advance("12h")
        assert printed() == [line]
    assert (await harness.status("acme")).workflow == "billing"
    await harness.advance("30d")
    assert printed() == ["acme: payment 2 made"]
    await worker.signal("acme", "cancel")

    assert await harness.result(run) == "cancelled by acme in cycle 3"
    assert list(bank.given_answers.values()) == [False, False, False, True, True]


async def test_sc_34_three_declined_retries_close_the_account(
    harness: Harness, printed: Printed, bank: billing.FakeBank
):
    bank.next_answers.extend([True, False, False, False, False])
    worker = await harness.worker(*PAYING, **MONTHS)
    run = await worker.start(billing.billing, billing.Subscription("acme"), key="acme")
    await harness.advance("63d")

    assert await harness.result(run) == "closed in cycle 2, not paid"
    assert printed() == ["acme: payment 1 made", *["acme: payment 2 declined"] * 4, "acme: account closed"]


async def test_sc_34_a_cancellation_during_dunning_is_kept_for_billing(harness: Harness, bank: billing.FakeBank):
    bank.next_answers.extend([False, True])
    worker = await harness.worker(*PAYING, **MONTHS)
    run = await worker.start(billing.billing, billing.Subscription("acme"), key="acme")
    await harness.advance("30d12h")
    await worker.signal("acme", "cancel")
    await harness.advance("12h")

    assert await harness.result(run) == "cancelled by acme in cycle 2"


# --- agent ---


async def test_the_agent_waits_for_approval_over_a_crash_and_repeats_nothing(harness: Harness, printed: Printed):
    worker = await harness.worker(agent.agent)
    run = await worker.start(agent.agent, "Get me to Oslo", key="trip")
    await harness.advance("5d")
    worker = await harness.takeover(worker, agent.agent)
    await worker.signal("trip", "approve-call-3", True)

    assert await harness.result(run) == "Done. I booked the flight at 9:15; it is sunny in Oslo."
    assert printed() == [
        "tool: search flights to Oslo",
        "tool: search weather in Oslo",
        "call-3: may I book the flight at 9:15?",
        "tool: book the flight at 9:15",
    ]


async def test_the_agent_does_not_do_what_a_person_refuses(harness: Harness, printed: Printed):
    worker = await harness.worker(agent.agent)
    run = await worker.start(agent.agent, "Get me to Oslo", key="trip")
    await worker.signal("trip", "approve-call-3", False)

    assert await harness.result(run) == "Done. a person said no; it is sunny in Oslo."
    assert "tool: book the flight at 9:15" not in printed()


async def test_the_history_and_the_conversation_of_a_long_lived_agent_stay_small(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    shown: list[int] = []

    async def ask_model(conversation: agent.Conversation) -> agent.Reply:
        shown.append(len(conversation.messages))
        if len(shown) > 100:
            return agent.Reply(answer="enough")
        return agent.Reply([agent.ToolCall(f"call-{len(shown)}", "search", "more")])

    monkeypatch.setattr(agent, "ask_model", step(ask_model))
    worker = await harness.worker(agent.agent)
    run = await worker.start(agent.agent, "Think", key="thinker")

    assert await harness.result(run) == "enough"
    assert (len(shown), max(shown)) == (101, agent.MESSAGES_MAX)
    assert len(await harness.history(run)) < 50


# --- reminder ---


def birthday(harness: Harness) -> reminder.Reminder:
    year = timedelta(days=365)
    return reminder.Reminder("the birthday of Ann", due_at=to_datetime(harness.clock.now()) + year)


async def test_sc_34_a_yearly_reminder_survives_crashes_until_it_is_stopped(harness: Harness, printed: Printed):
    worker = await harness.worker(reminder.remind, **MONTHS)
    run = await worker.start(reminder.remind, birthday(harness), key="birthday")
    for year in range(1, 5):
        await harness.advance("200d")
        worker.crash()
        worker = await harness.worker(reminder.remind, **MONTHS)
        await harness.advance("164d")
        assert printed() == []
        await harness.advance("1d")
        assert printed() == [f"reminder {year}: the birthday of Ann"]
    await worker.signal("birthday", "stop")
    await harness.advance("400d")

    assert await harness.result(run) == "stopped after 4 reminders"
    assert printed() == []


async def test_sc_34_a_reminder_that_fell_due_while_no_worker_ran_is_sent_late_and_the_day_is_kept(
    harness: Harness, printed: Printed
):
    worker = await harness.worker(reminder.remind, **MONTHS)
    run = await worker.start(reminder.remind, birthday(harness), key="birthday")
    await harness.advance("364d")
    worker.crash()
    await harness.advance("8d")
    worker = await harness.worker(reminder.remind, **MONTHS)
    await harness.drain()
    assert printed() == ["reminder 1: the birthday of Ann"]
    await harness.advance("357d")
    assert printed() == []
    await harness.advance("1d")
    assert printed() == ["reminder 2: the birthday of Ann"]
    await worker.signal("birthday", "stop")

    assert await harness.result(run) == "stopped after 2 reminders"


# --- shipping ---


@pytest.mark.parametrize("days", [1, 5])
async def test_an_order_is_shipped_in_time_or_late(harness: Harness, printed: Printed, days: int):
    worker = await harness.worker(shipping.ship, **MONTHS)
    await worker.do(worker.engine.on(shipping.Paid, start=shipping.ship, key="order"))
    await worker.publish(shipping.Paid("o1", 20))
    await worker.publish(shipping.Paid("o1", 20))
    await harness.advance(f"{days}d")

    assert await worker.publish(shipping.Shipped("o2")) == 0
    assert await worker.publish(shipping.Shipped("o1", parcels=2)) == 1
    await harness.drain()
    assert await harness.result("o1") == "2 parcels"
    thanks = ["o1: thank you for 20 EUR"]
    assert printed() == (thanks if days == 1 else [*thanks, "o1: we are late"])


# --- schedules ---


async def test_each_night_has_its_report_and_a_backfill_fills_the_nights_before(harness: Harness):
    worker = await harness.worker(nightly_report.report, **MONTHS)
    schedules = worker.engine.schedules
    await harness.advance("3d")
    shown = await worker.do(schedules.get("nightly"))
    assert [one.run_status for one in shown.outcomes] == ["completed"] * 3

    now = to_datetime(harness.clock.now())
    filled = await worker.do(schedules.backfill("nightly", now - timedelta(days=10), now))
    await harness.drain()
    assert (filled.new, filled.existing) == (7, 3)
    runs = await worker.do(worker.engine.runs.list("workflow:report"))
    assert {run.output.partition(": ")[2] for run in runs} == {"24 orders"}
    assert len({run.output for run in runs}) == 10


async def test_two_offices_close_their_books_by_their_own_clocks(harness: Harness):
    worker = await harness.worker(month_end.close_books, **MONTHS)
    await harness.advance("35d")
    runs = {run.input: run for run in await worker.do(worker.engine.runs.list("workflow:close_books"))}
    times = {office: run.attributes["stepwell.fire_time"] for office, run in runs.items()}
    # The clock of these tests begins in November 2023: the ends of that month, 22:00 in each place.
    assert {office: f"{at:%Y-%m-%d %H:%M}" for office, at in times.items()} == {
        "Berlin": "2023-11-30 21:00",
        "New York": "2023-12-01 03:00",
    }


# --- care ---


async def test_people_hear_once_that_orders_fail_and_once_that_it_is_over(harness: Harness):
    heard: list[tuple[str, str]] = []

    def hear(event: EmittedEvent) -> None:
        heard.append((event.name.rpartition(".")[2], event.payload["alert"]))

    told = [handler(hear, "stepwell.alert.*")]
    worker = await harness.worker(alert_webhook.order, alerts=alert_webhook.RULES, sinks=told)
    for number in range(5):
        await worker.start(alert_webhook.order, number)
    await harness.advance("5m")
    assert heard == [("firing", "orders fail")]

    worker = await harness.takeover(worker, alert_webhook.order, alerts=alert_webhook.RULES, sinks=told)
    await harness.advance("20m")
    assert heard == [("firing", "orders fail"), ("ok", "orders fail")]


async def test_nothing_that_a_customer_said_is_left_after_an_erasure(tmp_path: Path):
    file = tmp_path / "shop.db"
    flows = [erase_customer.sell, erase_customer.ship, erase_customer.subscription]
    order = erase_customer.Order(42, "Xanadu Street 1")
    async with Engine(f"sqlite:///{file}", workflows=flows) as engine:
        await (await engine.start(erase_customer.sell, order, key="o1")).result()
        waiting = await engine.start(erase_customer.subscription, order, key="s1", attributes={"customer": 42})
        left = await engine.retention.erase("attr.customer:42", by="dpo", reason="ticket 815")
        assert (left.runs, left.left) == (2, (waiting.run_id,))
        assert b"Xanadu Street 1" in rows_of(file)
        await engine.signal("s1", "cancel")
        await waiting.result()
        await engine.retention.erase("attr.customer:42", by="dpo", reason="ticket 815")
        acts = await engine.holds.list_acts()

    assert b"Xanadu" not in rows_of(file)
    assert {(one.verb, one.by) for one in acts} == {("erase", "dpo")}
    assert len(acts) == 3
    assert all("ticket 815" in one.reason for one in acts)


def rows_of(file: Path) -> bytes:
    """Everything in all tables."""
    connection = apsw.Connection(str(file))
    try:
        tables = connection.execute("select name from sqlite_schema where type = 'table'").fetchall()
        return b"".join(
            value if isinstance(value, bytes) else str(value).encode()
            for (table,) in tables
            for row in connection.execute(f"select * from {table}")
            for value in row
        )
    finally:
        connection.close()
