"""What happened in the shop: eight days, told in the order of time. Nothing in it is random."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any, Final

from stepwell.care import Alert
from stepwell.cli.dev.seeds import odd
from stepwell.cli.dev.seeds.old import (
    order_fulfilment_6,
    order_fulfilment_7,
    price_update_before,
    stock_take,
    supplier_onboarding_1,
)
from stepwell.cli.dev.seeds.shop import TRIGGERS, Decision, Documents, Line, Order, Packed, Trouble, app, settle_week
from stepwell.cli.dev.seeds.world import World
from stepwell.clock import DAY, SECOND, Instant, Span, to_datetime
from stepwell.config import WorkerSettings
from stepwell.engine.triggers import Trigger
from stepwell.errors import InvalidInputError
from stepwell.model.ledger import NewAct
from stepwell.wiring import Engine

MINUTE: Final = 60 * SECOND
LASTS: Final = Span(8 * DAY + 3 * 60 * MINUTE)
_ORDERS_A_DAY: Final = 18
_CUSTOMERS: Final = (
    *(
        "Ann Lee",
        "Bo Chen",
        "Cy Okafor",
        "Dee Park",
        "Eva Brandt",
        "Flo Adeyemi",
        "Gil Moreau",
        "Hana Ito",
        "Ivo Novák",
    ),
    *("מיכל כהן", "مريم العبدالله", "李小龙"),
)
_OLD_TRIGGER: Final = Trigger("month.closed", start=settle_week, input="month")  # the newer code has it no more
_PRODUCED: Final = tuple(each for each in app.workflows if each.name != "price_update")
_OLD: Final = (order_fulfilment_7, order_fulfilment_6, price_update_before, stock_take, supplier_onboarding_1)
_EARLIER: Final = (*_PRODUCED, *_OLD)


class Story:
    """The whole story. It ends a little before the moment at which it was to end."""

    def __init__(self, rows: int) -> None:
        self._rows = rows  # of the longest history

    async def tell(self, world: World) -> None:
        """Let everything happen."""
        began = world.clock.now()
        first = await world.start("w-1", _EARLIER, app.sinks, [*TRIGGERS, _OLD_TRIGGER])
        async with _client(world, _EARLIER) as client:
            await _early_days(client, world, began)
        await first.close()
        second = await world.start("w-3", (*app.workflows, order_fulfilment_7), app.sinks, TRIGGERS)
        async with _client(world, (*app.workflows, order_fulfilment_7)) as client:
            await _late_days(client, world, began, self._rows)
            await _odd_data(client, world)
            await _acts(client, world)
        await second.close()
        await _letters(world)
        await _watched(world)
        await world.reach(Instant(began + LASTS - 10 * MINUTE))
        last = await world.start("w-9", app.workflows, (), lease="10s")
        async with _client(world, app.workflows) as client:
            await _today(client, world)
            last.die()
            await client.cancel("video-2", "not needed any more", by="ann")  # nobody is there to obey
            await world.pass_time("30s")
            await _not_begun(client)


@asynccontextmanager
async def _client(world: World, workflows: Any) -> AsyncIterator[Engine]:
    machine = await world.start("client", workflows, app.sinks, worker=False)
    try:
        yield machine.engine
    finally:
        await machine.close()


def _order(number: int, **more: Any) -> Order:
    lines = [Line(f"sku-{(number * 7 + each) % 90:02d}", 1 + each % 3) for each in range(1 + number % 4)]
    amount = round(9.5 + (number * 37 % 400) + (number % 100) / 100, 2)
    return Order(_CUSTOMERS[number % len(_CUSTOMERS)], amount, lines, **more)


def _tags(order: Order, number: int) -> dict[str, str]:
    return {"region": ("eu", "us", "apac")[number % 3], **({"vip": ""} if order.amount > 300 else {})}


def _said(order: Order, number: int) -> dict[str, Any]:
    """How an order is described."""
    count = sum(line.count for line in order.lines)
    return {
        "tags": _tags(order, number),
        "title": f"Order for {order.customer}, {count} item{'s' if count > 1 else ''}",
        "attributes": {"amount": Decimal(f"{order.amount:.2f}"), "customer": order.customer, "items": count},
        "by": ("web", "ann", "bo")[number % 3],
    }


# --- before the deployment ---


async def _early_days(client: Engine, world: World, began: Instant) -> None:
    """Six days of orders by the code of version 7."""
    await _schedules(client)
    await client.start("export_customers", "eu", key="export-eu-2211")
    await client.start("supplier_onboarding", "Nord AB", key="onb-0118")
    await client.start("trial_reminder", "شركة النور", key="trial-ab81")
    await client.runs.start_by_name("supplier_onboarding", 1, "Acme GmbH", key="onb-0093")
    await client.start("close_books", "2026-10", key="close-2026-10")
    for region in ("eu", "us"):
        await client.runs.start_by_name("price_update", 1, region, key=f"prices-{region}")
    await client.start("settle_week", "2026-W45", key="settle-2026-W45", deadline="2d")
    number = 4600
    for day in range(6):
        for turn in range(_ORDERS_A_DAY):
            await world.reach(Instant(began + day * DAY + (turn + 1) * (DAY // (_ORDERS_A_DAY + 2))))
            trouble: Trouble = "card" if number % 23 == 0 else "stock" if number % 41 == 0 else ""
            order = _order(number, trouble=trouble)
            version = 6 if day < 2 and number % 9 == 0 else 7
            await client.runs.start_by_name(
                "order_fulfilment", version, order, key=f"order-{number}", **_said(order, number)
            )
            number += 1
        rows = [{"net": 100 + n, "vat": 0.19} for n in range(12)]
        if day % 2:
            del rows[7]["vat"]
        await client.start("nightly_report", rows, key=f"rep-{110 + day:04d}")
        await world.pass_time("1m")
    await client.start("poll_orders", 0, key="poll-orders")
    await world.pass_time("30m")


# --- what time starts ---


async def _schedules(client: Engine) -> None:
    """Schedules that people made, when the shop opened."""
    care = client.schedules
    await care.create("partner orders", workflow="retried_steps", every="6h", offset="10m", input=2, by="ann")
    await care.create("prices", workflow="price_update", every="12h", input="apac", by="ann")
    await care.create("shelf count", workflow="stock_take", cron="30 2 * * *", input="{{fire_date}}", by="bo")
    evening: dict[str, Any] = {"cron": "0 22 L * *", "timezone": "Europe/Berlin", "input": "{{fire_date}}"}
    await care.create("month end", workflow="close_books", **evening)
    given = {"text": odd.MARKUP, "more": odd.FORMULA}
    await care.create(odd.ARABIC, workflow=odd.odd_texts.name, cron="0 0 29 2 *", timezone="Asia/Tokyo", input=given)


async def _later_schedules(client: Engine, world: World) -> None:
    """What became of them: one differs from the code, one is paused, one is due once, and one has no workflow."""
    care, began = client.schedules, world.clock.now()
    rows = [{"net": 100, "vat": 0.19}, {"net": 40, "vat": 0.07}]
    await care.update("nightly", input=rows, jitter="2m", by="ann")
    await care.pause("month end", by="bo", reason="the auditors are in the house until December")
    once = to_datetime(Instant(began + 40 * DAY)).replace(minute=0, second=0, microsecond=0)
    await care.create("year's letter", workflow="trial_reminder", at=once, input="all investors", by="mia")


# --- after it ---


async def _late_days(client: Engine, world: World, began: Instant, rows: int) -> None:
    """Two days by the code of version 8, with the cases that a person has to look at."""
    await _later_schedules(client, world)
    for name in ("prices-eu", "prices-us"):
        await client.signal(name, "release", "monday")  # what they recorded does not fit the code any more
    number = 4720
    for turn in range(30):
        await world.reach(Instant(began + 6 * DAY + (turn + 1) * (2 * DAY // 32)))
        order = _order(number, trouble="card" if turn % 10 == 4 else "")
        await client.start("order_fulfilment", order, key=f"order-{number}", **_said(order, number))
        number += 1
    troubles: tuple[tuple[str, Trouble], ...] = (("4688", "stuck"), ("4702", "stuck"), ("4711", "card"))
    for name, trouble in troubles:
        order = Order("Dee Park", 42.0, [Line("pen-1"), Line("ink-2", 2)], trouble=trouble)
        await client.runs.start_by_name("order_fulfilment", 7, order, key=f"order-{name}-b", tags={"region": "eu"})
    for key, customer, amount in (("order-4715", "Ann Lee", 900.0), ("order-4716", "مريم العبدالله", 9_100.0)):
        await client.start("order_fulfilment", Order(customer, amount), key=key, tags={"vip": "", "region": "eu"})
    await client.start("order_fulfilment", Order("Flo Adeyemi", 640.0), key="order-4698")
    await client.start("sync_contacts", key="sync-contacts-eu")
    await client.start("book_journey", "Hotel Flora", key="journey-7")
    await client.start("research_agent", "tidal storage", key="agent-5f3c")
    await client.start("research_agent", "how bees count", key="agent-60aa")
    for name in ("order-4720", "order-4721", "order-4722"):
        await client.start("parcel_tracking", name, key=f"track-{name}")
    await client.start("retried_steps", 4, key="flaky-4")
    await client.start("many_children", 25, key="parent-of-25")
    await world.pass_time("20m")
    await client.publish(Packed("order-4721", "00340434161094"))
    await client.publish("report.asked", {"asked_by": "mia", "rows": [{"net": 12, "vat": 0.19}]})
    await client.publish("catalogue.changed", {"sku": "pen-1", "price": "1.20"}, retain="30d")
    await client.publish("catalogue.changed", {"sku": odd.MARKUP, "price": odd.FORMULA}, retain="30d")
    await _signals(client)
    await client.start("import_catalogue", rows, key="import-2026-11")
    await world.pass_time("1h")


async def _signals(client: Engine) -> None:
    """Signals that found no run, and signals that nobody reads."""
    await client.signal("order-4640", "approve", {"approve": True, "limit": 180}, if_missing="hold")
    await client.signal("a-4470", "packed", {"parcel": "00340434161094", "kg": 2.4}, if_missing="hold")
    await client.signal("sup-118", "documents", Documents(["a.pdf", "b.pdf"]), if_missing="hold")
    await client.signal("export-eu-2211", "note", {"text": "rang customer, all fine"})
    await client.signal("agent-5f3c-next", "hint", {"text": odd.MARKUP, "more": odd.ESCAPES}, if_missing="hold")
    await client.signal("order-4716", "approve", Decision(False, reason=odd.IMAGE))


# --- data that no page expects ---


async def _odd_data(client: Engine, world: World) -> None:
    name = odd.odd_texts.name
    wide = (odd.WIDE * 20)[:200]
    await client.start(name, {"text": odd.MARKUP}, key=odd.IMAGE, tags={odd.MARKUP[:40]: odd.FORMULA})
    await client.start(name, {"text": odd.ESCAPES}, key="key with \x1b[31mescapes\x1b[0m")
    await client.start(name, {"text": odd.REVERSED}, key=wide)
    await client.start(name, {"text": odd.ARABIC}, key=odd.ARABIC)
    await client.start(name, {"text": odd.HEBREW, "waits": True}, key=f"{odd.HEBREW} 42")
    await client.start(name, {"fails": odd.long_error()}, key="odd-5kb-error")
    await client.start(name, {"fails": odd.MARKUP + odd.ESCAPES}, key="odd-markup-error")
    await client.start(name, {"waits": True}, key="odd-waiting", tags=dict.fromkeys((odd.TEMPLATE[:60], "vip"), ""))
    await client.start(name, {"waits": True}, key="odd-cancelled")
    await client.start(name, {"waits": True}, key="odd-paused")
    await client.start("large_values", {"blob": "x" * odd.LARGE_BYTES}, key="large-10mb")
    await client.start("large_values", {"list": [[n, {"n": n}] for n in range(2_000)]}, key="large-list")
    await client.start("deep_tree", 9, key="deep-9")
    await world.pass_time("10m")
    await client.signal("odd-cancelled", "note", {"text": odd.MARKUP})
    async with _client(world, ()) as stranger:  # it does not know what the workflow takes
        await stranger.signal("onb-0118", "documents", {"file": odd.MARKUP})
    await world.pass_time("1m")
    await client.cancel("odd-cancelled", odd.MARKUP, by=odd.IMAGE)
    await client.holds.pause("odd-paused", by="ann", reason=odd.MARKUP + odd.ESCAPES)
    await world.pass_time("1m")


# --- what people did ---


async def _acts(client: Engine, world: World) -> None:
    await client.cancel("order-4698", "customer withdrew", by="ann")
    await client.holds.pause("export-eu-2211", by="bo", reason="Warehouse is slow, resume after 12:00")
    await client.triggers.pause("supplier.offered:supplier_onboarding", by="bo", reason="too many duplicates")
    await client.saved_views.save(
        "large orders",
        "attr.amount:>300",
        columns=["key", "status", "where", "why"],
        sort="-took",
        by="ann",
    )
    await client.saved_views.save("mine", "started_by:ann status:failed,paused", owner="ann", by="ann")
    await client.holds.pause_workflow("settle_week", by="bo", reason="the bank is down")
    await client.start("settle_week", "2026-W46", key="settle-2026-W46")
    await world.pass_time("1m")
    failed = await client.runs.list("status:failed workflow:nightly_report", limit=1)
    for run in failed:
        await client.repairs.retry(run.run_id, by="ann")
    await client.bulks.start("pause", "workflow:trial_reminder", by="bo")
    await client.bulks.start("retry", "workflow:sync_contacts status:failed", by="ann")
    await world.pass_time("2m")
    await client.holds.resume("trial-ab81", by="bo")
    for number, (who, act, target, outcome) in enumerate(
        (
            ("ann", "cancel_run", "order-4698", "200"),
            ("bo", "pause_run", "export-eu-2211", "200"),
            (odd.MARKUP, "start_run", odd.IMAGE, "201"),
            ("grafana", "list_audit", "", "403"),
        )
    ):
        request = f"01jd4r2z-{number:04d}"
        await client.ledger.note(NewAct(request, who, act, target, "asked"))
        await client.ledger.note(NewAct(request, who, act, target, outcome))
    await world.pass_time("10m")


# --- what could not be handled, and what is watched ---


async def _letters(world: World) -> None:
    """A run that kills its workers, one whose record is damaged, and a message that did not fit."""
    async with _client(world, app.workflows) as client:
        await client.start("unpack_archive", "catalogue-2026.zip", key="unpack-1", priority=9)
        damaged = await client.runs.get("odd-waiting")
        message = json.dumps({"supplier": 17, "files": odd.MARKUP}).encode()
        wrong = InvalidInputError("the payload of signal 'documents' does not fit Documents: $.files is not a list")
        await client.dead_letters.keep_hook("supplier portal", "msg-0118", message, wrong)
        await client.dead_letters.keep_hook("supplier portal", "msg-0119", b"\xff\xfe not JSON", wrong)
    for number in range(WorkerSettings().completed().stalls_max):
        machine = await world.start(f"w-{4 + number}", [odd.unpack_archive], lease="10s")
        await world.pass_time("2s")
        machine.die()
        await world.pass_time("20s")
    world.damage(damaged.run_id)
    rescuer = await world.start("w-8", [odd.unpack_archive, odd.odd_texts], app.sinks)
    async with _client(world, app.workflows) as client:
        await client.signal("odd-waiting", "<b>signal", {"text": odd.MARKUP})
        await world.pass_time("2m")
        await _handled(client)
    await rescuer.close()


async def _handled(client: Engine) -> None:
    """Letters that people have handled."""
    events = await client.dead_letters.list("event", limit=3)
    await client.dead_letters.drop(events[0].letter, "the shop has sent it again", by="bo")
    await client.dead_letters.retry(events[1].letter, by="ann")
    await client.dead_letters.drop("hook-msg-0119", odd.MARKUP, by=odd.IMAGE)


async def _watched(world: World) -> None:
    """The rules fire; people know of one of them, mute another and test a third."""
    watcher = await world.start("w-7", (), app.sinks, alerts=app.alerts)
    await world.pass_time("40s")
    async with _client(world, ()) as client:
        await client.alerts.acknowledge("rollback incomplete", by="ann", note="the stock API is down, ticket 4711")
        await client.alerts.mute("nobody works", "30d", by="bo", note="no worker at night")
        await client.alerts.create(Alert("contacts fail", "sync_contacts", failed=True), by="bo")
        await client.alerts.test("reports fail in a row", by="ann")
        await world.pass_time("1m")
        await client.retention.note_backup("/backups/shop-monday.db", 48_210_944)
    await watcher.close()


# --- now ---


async def _today(client: Engine, world: World) -> None:
    """A worker that dies in the middle of its work."""
    await client.start("render_video", "summer.mov", key="video-1")
    await client.start("render_video", f"{odd.MARKUP}.mov", key="video-2")
    await client.start("order_fulfilment", _order(4999), key="order-4999")
    await world.pass_time("4m")


async def _not_begun(client: Engine) -> None:
    """Runs that wait for a worker."""
    await client.runs.start_by_name("make_thumbnails", 3, {"folder": "summer"}, key="thumb-99120")
    await client.start("nightly_report", [{"net": 1, "vat": 0.19}], key="rep-later", delay="2d")
    for number in range(3):
        await client.runs.start_by_name("make_thumbnails", 3, {"folder": f"{number}"}, priority=number - 1)
