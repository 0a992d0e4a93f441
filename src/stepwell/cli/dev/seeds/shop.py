"""The shop of `stepwell dev --seed demo`: workflows as an author writes them. What goes wrong is in their input."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from stepwell import (
    App,
    Break,
    Context,
    Continue,
    Event,
    Fatal,
    Retry,
    Signal,
    StepContext,
    Trigger,
    WaitTimeout,
    cron,
    step,
    workflow,
)
from stepwell.care import Alert, Retention
from stepwell.cli.dev.seeds.odd import ODD_WORKFLOWS
from stepwell.cli.dev.seeds.sinks import SINKS

Trouble = Literal["", "card", "stock", "stuck", "quick"]


@dataclass
class Line:
    """One article of an order."""

    sku: str
    count: int = 1


@dataclass
class Order:
    """An order. `trouble` is what goes wrong with it."""

    customer: str
    amount: float
    lines: list[Line] = field(default_factory=lambda: [Line("pen-1")])
    trouble: Trouble = ""


@dataclass
class Decision:
    """What a manager decides."""

    approve: bool
    limit: float | None = None
    reason: str = ""


class Packed(Event):
    """A parcel is packed."""

    order: str
    parcel: str


@dataclass
class Documents:
    """What a supplier sends."""

    files: list[str]


class CardDeclined(Exception):  # noqa: N818  people see the name
    """The bank refuses a card."""


class StockUnavailable(Exception):  # noqa: N818
    """The stock does not answer."""


class CarrierTimeout(Exception):  # noqa: N818
    """A carrier does not answer in time."""


APPROVE = Signal[Decision]("approve")
DOCUMENTS = Signal[Documents]("documents")
_SLOW = Retry(max_attempts=9, initial="36h", factor=1.0, max_delay="36h", jitter=0.0)
_PATIENT = Retry(max_attempts=3, initial="1s", jitter=0.0)


# --- orders ---


async def release_stock(order: Order, reservation: str) -> str:
    """Undo `reserve_stock`."""
    await asyncio.sleep(0.2)
    if order.trouble == "stuck":
        raise Fatal("stock API answered 503")
    return f"released {reservation}"


@step(compensate=step(release_stock, retry=Retry(max_attempts=5, initial="1s", jitter=0.0)))
async def reserve_stock(order: Order) -> str:
    """Reserve the articles."""
    await asyncio.sleep(0.41)
    if order.trouble == "stock":
        raise StockUnavailable("stock API answered 503")
    return f"r-{sum(line.count for line in order.lines)}-{order.customer[:3].lower()}"


async def pick_line(line: Line) -> str:
    """Take one article from its shelf."""
    await asyncio.sleep(0.02)
    return f"{line.count} of {line.sku}"


async def ask_carrier(carrier: str, seconds: float) -> float:
    """The price of a carrier."""
    await asyncio.sleep(seconds)
    if carrier == "hermes":
        raise CarrierTimeout("hermes did not answer in 1 s")
    return round(3.9 + seconds, 2)


async def void_authorisation(order: Order, authorisation: str) -> str:
    """Undo `authorise`."""
    await asyncio.sleep(0.25)
    return f"voided {authorisation}"


@step(compensate=void_authorisation)
async def authorise(order: Order) -> str:
    """Ask the bank."""
    await asyncio.sleep(0.29)
    return f"auth-{round(order.amount * 100)}"


@step(retry=_PATIENT)
async def charge_card(ctx: StepContext, order: Order, authorisation: str) -> str:
    """Charge the card; the key makes a repetition harmless."""
    await asyncio.sleep(0.31)
    if order.trouble in ("card", "stuck"):
        raise CardDeclined(f"insufficient funds (code=51, amount={order.amount}, request_id=req_{ctx.run_id[-8:]})")
    return f"charge-{authorisation}"


async def print_label(order: Order) -> str:
    """Print the label of the parcel."""
    await asyncio.sleep(0.1)
    return f"parcel-{order.customer[:3].lower()}"


@workflow(version=8, signals=[APPROVE])
async def order_fulfilment(ctx: Context, order: Order) -> dict[str, Any]:
    """Take an order from payment to parcel."""
    ctx.publish_state({"stage": "reserving", "customer": order.customer})
    reservation = await ctx.step(reserve_stock, order)
    await ctx.map("lines", lambda inner, line: inner.step("pick", pick_line, line), order.lines)
    carriers = {"dhl": _quote("dhl", 0.52), "ups": _quote("ups", 0.9), "hermes": _quote("hermes", 1.0)}
    carrier = await ctx.race("quotes", carriers)
    ctx.publish_state({"stage": "payment", "reservation": reservation, "carrier": carrier.branch})

    async def pay(inner: Context) -> str:
        authorisation = await inner.step(authorise, order)
        return await inner.step(charge_card, order, authorisation)

    paid = await ctx.join("payment", {"card": pay})
    if order.amount >= 500:
        ctx.publish_state({"stage": "waiting for approval", "reservation": reservation})
        try:
            message = await ctx.receive(APPROVE, timeout="5d")
        except WaitTimeout:
            raise Fatal("nobody decided in time") from None
        if not message.payload.approve:
            ctx.fail("rejected", {"reason": message.payload.reason})
    parcel = await ctx.step(print_label, order)
    await ctx.emit("order.shipped", {"parcel": parcel, "customer": order.customer})
    ctx.publish_state({"stage": "shipped", "parcel": parcel})
    return {"parcel": parcel, "charge": paid["card"], "carrier": carrier.branch}


def _quote(carrier: str, seconds: float) -> Any:
    return lambda inner: inner.step("ask", ask_carrier, carrier, seconds)


# --- other work ---


async def parse_row(row: dict[str, Any]) -> float:
    """The tax of one row of a report."""
    await asyncio.sleep(0.05)
    return round(float(row["net"]) * float(row["vat"]), 2)


_NIGHTLY: Final = cron("0 6 * * *", tz="Europe/Berlin", input=[{"net": 100}], jitter="30s", window="1h", name="nightly")


@workflow(version=2, schedule=_NIGHTLY)
async def nightly_report(ctx: Context, rows: list[dict[str, Any]]) -> float:
    """Add up what was sold."""
    taxes = await ctx.map("load", lambda inner, row: inner.step("parse", parse_row, row), rows)
    return round(float(sum(taxes)), 2)


async def fetch_orders(cursor: int) -> int:
    """New orders of a partner."""
    await asyncio.sleep(0.3)
    return cursor + 7


@workflow
async def poll_orders(ctx: Context, cursor: int) -> int:
    """Look for new orders, and continue as a new run."""
    following = await ctx.step(fetch_orders, cursor)
    await ctx.sleep("pause", "5m")
    if following > 28:
        return following
    ctx.continue_as_new(following)


@step(retry=_SLOW)
async def upsert_contacts(batch: int) -> int:
    """Write contacts to the address book of another company, which limits how many."""
    await asyncio.sleep(0.2)
    raise ConnectionError("HTTP 429 Too Many Requests from api.crm.example")


@workflow(version=11)
async def sync_contacts(ctx: Context) -> int:
    """Bring the address book up to date."""
    return await ctx.step(upsert_contacts, 12)


async def book_entries(ledger: str) -> int:
    """Book the entries of one ledger."""
    await asyncio.sleep(1)
    return len(ledger)


@workflow
async def close_ledger(ctx: Context, ledger: str) -> int:
    """Close one ledger, once somebody has confirmed its balance."""
    booked = await ctx.step(book_entries, ledger)
    await ctx.receive("confirmed")
    return booked


@workflow(version=4)
async def close_books(ctx: Context, month: str) -> int:
    """Close the books of a month, one ledger after the other."""
    total = 0
    for ledger in ("de", "fr"):
        total += await ctx.child(close_ledger, f"{ledger}-{month}", key=f"ledger-{ledger}-{month}")
    return total


@workflow(version=2, signals=[DOCUMENTS])
async def supplier_onboarding(ctx: Context, supplier: str) -> int:
    """Wait for the documents of a supplier, and remind it."""
    for _ in range(3):
        await ctx.emit("mail.reminder", {"to": supplier})
        try:
            message = await ctx.receive(DOCUMENTS, timeout="3d")
        except WaitTimeout:
            continue
        return len(message.payload.files)
    raise Fatal(f"{supplier} sent nothing")


@workflow
async def export_customers(ctx: Context, region: str) -> str:
    """Export, once the file was uploaded."""
    message = await ctx.receive("uploaded")
    return f"{region}: {message.payload}"


@workflow(version=2)
async def trial_reminder(ctx: Context, customer: str) -> str:
    """Remind a customer before the trial ends."""
    await ctx.sleep("until the end", "30d")
    return f"reminded {customer}"


@workflow
async def parcel_tracking(ctx: Context, order: str) -> str:
    """Wait until the parcel of an order is packed."""
    packed = await ctx.topic(Packed, where={"order": order})
    return packed.parcel


async def think(question: str, turn: int) -> str:
    """A thought of the model."""
    await asyncio.sleep(2.5)
    return f"thought {turn} about {question}"


@workflow(version=9)
async def research_agent(ctx: Context, question: str) -> str:
    """Think, write down every word, and answer."""
    words = ctx.stream("answer")
    for turn in range(6):
        ctx.state["progress"] = round(turn / 6, 2)
        thought = await ctx.step("think", think, question, turn)
        for word in thought.split():
            await words.append(f"{word} ")
    ctx.state["progress"] = 1.0
    ctx.state["tokens"] = 412_906
    await words.close()
    return f"tides store energy ({question})"


async def render_part(ctx: StepContext, video: str) -> str:
    """Render for a long time, and tell how far it has come."""
    begun = int(ctx.state or 0)
    for done in range(begun, 100_000):
        ctx.progress(done, 100_000, unit="frames", note=video)
        ctx.heartbeat(done)
        await asyncio.sleep(1)
    return video


@workflow(version=3)
async def render_video(ctx: Context, video: str) -> str:
    """Render a video."""
    return await ctx.step(render_part, video)


async def import_row(number: int) -> int:
    """Write one row of a catalogue."""
    return number * 3


@workflow(version=3)
async def import_catalogue(ctx: Context, rows: int) -> int:
    """Import a catalogue: a long history."""

    async def one(inner: Context, done: int) -> Any:
        if done >= rows:
            return Break(done)
        await inner.step("write", import_row, done)
        return Continue(done + 1)

    return await ctx.loop("rows", one, 0, keep=rows + 1)


async def settle_bank(week: str) -> str:
    """Ask the bank for its confirmations."""
    await asyncio.sleep(5)
    return week


async def release_room(hotel: str, room: str) -> None:
    """Undo `book_room`."""
    raise ConnectionError(f"{hotel} does not answer: {room} is still booked")


@step(
    compensate=step(release_room, retry=Retry(max_attempts=9, initial="36h", factor=1.0, max_delay="36h", jitter=0.0))
)
async def book_room(hotel: str) -> str:
    """Book a room."""
    return f"room 12 of {hotel}"


async def buy_ticket(hotel: str) -> str:
    """Buy the ticket for a journey."""
    raise Fatal(f"no train to {hotel} is left")


@workflow
async def book_journey(ctx: Context, hotel: str) -> str:
    """Book a room and a ticket, or neither."""
    room = await ctx.step(book_room, hotel)
    return room + await ctx.step(buy_ticket, hotel)


async def read_prices(region: str) -> int:
    """The prices of a region."""
    return len(region)


@workflow
async def price_update(ctx: Context, region: str) -> int:
    """Change prices. Runs that began before a step got another name do not fit this code."""
    count = await ctx.step("read prices", read_prices, region)
    await ctx.receive("release")
    return count


@workflow(version=4)
async def settle_week(ctx: Context, week: str) -> str:
    """Settle the sales of a week."""
    await ctx.step(settle_bank, week)
    await ctx.receive("bank_confirmed")
    return week


TRIGGERS = (
    Trigger("report.asked", start=nightly_report, input="rows", key="report-{asked_by}"),
    Trigger("catalogue.changed", start=import_catalogue, input="rows"),  # its events have no rows
    Trigger("supplier.offered", start=supplier_onboarding, input="name"),
)

ALERTS = (
    Alert("orders fail", order_fulfilment, count=3, within="3d"),
    Alert("reports fail in a row", nightly_report, consecutive=4),
    Alert("nobody works", oldest_ready="15m"),
    Alert("nothing moves", stalled="14d"),
)
RETENTION = Retention(
    completed="30d",
    failed="90d",
    compensated="90d",
    cancelled="30d",
    workflows={"order_fulfilment": Retention("400d"), "poll_orders": Retention("2d", continued="1d")},
)

app = App(
    workflows=[
        order_fulfilment,
        nightly_report,
        poll_orders,
        sync_contacts,
        close_ledger,
        close_books,
        supplier_onboarding,
        export_customers,
        trial_reminder,
        parcel_tracking,
        research_agent,
        render_video,
        book_journey,
        import_catalogue,
        price_update,
        settle_week,
        *ODD_WORKFLOWS,
    ],
    sinks=SINKS,
    triggers=TRIGGERS,
    alerts=ALERTS,
    retention=RETENTION,
    offload="database",
)
