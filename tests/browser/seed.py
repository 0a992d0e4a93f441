"""A database with a run in every status, and with texts that are awkward to show."""

from __future__ import annotations

import asyncio
from typing import Final

from stepwell import App, Engine
from tests.browser.shop import (
    NAME_POISON,
    POISON,
    SINKS,
    TRIGGERS,
    WORKFLOWS,
    Order,
    announce,
    approval,
    close_books,
    courier,
    hostile,
    import_rows,
    long_import,
    make_thumbnails,
    order_fulfilment,
    poll_orders,
    reminder,
    review,
    sync_contacts,
)

WIDE: Final = "import-" + "w" * 180 + "-0017"
ARABIC: Final = "طلب-مريم-العبدالله"
ROWS: Final = 10_000  # each has two lines of history
ENDED: Final = ("order-1", "order-2", "order-4711", "order-4702", "thumbs-1", "poll-1", "hostile-1", "rows-1")


async def seed(url: str) -> None:
    """Fill a database. A worker that serves it afterwards finds one run that never ends, and one that nobody serves."""
    async with Engine(url, workflows=WORKFLOWS) as engine:
        for number in range(1, 3):
            await engine.start(
                order_fulfilment, Order("ann", 40 + number), key=f"order-{number}", tags={"region": "eu"}
            )
        await engine.start(order_fulfilment, Order("ann", 4_200), key="order-4711", tags={"vip": ""})
        await engine.start(order_fulfilment, Order("stuck", 9_100), key="order-4702")
        await engine.start(make_thumbnails, 40, key="thumbs-1")
        await engine.start(poll_orders, 0, key="poll-1")
        await engine.start(hostile, POISON + "x" * 5_000, key="hostile-1", tags={"note": POISON})
        await engine.start(hostile, "a bad row", key=WIDE)
        await engine.start(approval, Order(POISON, 1), key=ARABIC)
        await engine.start(approval, Order("ann", 42), key="order-4715", tags={"vip": ""})
        await engine.start(approval, Order("bo", 9_100), key="paused-1")
        await engine.start(approval, Order("cy", 7), key="cancelled-1")
        await engine.start(sync_contacts, key="sync-1")
        await engine.start(reminder, key="reminder-1")
        await engine.start(close_books, key="books-1")
        await engine.start(review, "contract", key="review-1")
        await engine.start(import_rows, ROWS, key="rows-1")
        for key in ENDED:
            await _ended(engine, key)
        for key in ("order-4715", "paused-1", "cancelled-1", "sync-1", "books-1", "reminder-1", "review-1"):
            await _waiting(engine, key)
        await engine.signal("order-4715", "note", {"text": "rang the customer"})
        await engine.holds.pause("paused-1", by="bo", reason="the warehouse is slow")
        await engine.cancel("cancelled-1", "the customer withdrew", by="ann")
        await _ended(engine, "cancelled-1")
    async with Engine(url, worker=False) as engine:
        await engine.runs.start_by_name("nightly_report", 2, {"month": "2026-10"}, key="report-1")
    async with Engine(url, workflows=[long_import], worker=False) as engine:
        await engine.start(long_import, key="import-1")
    await _seed_outside(url)


async def _seed_outside(url: str) -> None:
    """Events, signals that no run has read, a trigger, what sinks have not received, acts on many runs, saved views."""
    async with Engine(App(url, workflows=WORKFLOWS, sinks=SINKS, triggers=TRIGGERS)) as engine:
        await engine.start(announce, Order("ann", 42), key="announce-1")
        await engine.start(announce, Order(POISON, 7), key=f"{WIDE}-told")
        await engine.start(courier, "order-9", key="courier-1")
        await _waiting(engine, "courier-1")
        await engine.signal("order-9999", "approve", {"approved": True, "note": POISON}, if_missing="hold")
        await engine.signal(f"{ARABIC}-2", NAME_POISON, POISON, if_missing="hold")
        await engine.signal("cancelled-1", "note", {"text": "rang the customer"}, if_missing="hold")
        await engine.publish("order.packed", {"order": "order-1"}, retain="7d")
        await engine.publish("order.packed", {"parcel": 1})
        await engine.publish(NAME_POISON, POISON)
        await engine.publish("w" * 190, 1)
        bulk = await engine.bulks.start("retry", "status:completed,failed -workflow:hostile", by="ann")
        await _ended(engine, bulk.run_id)
        await _until_dead(engine, 2)
        views = engine.saved_views
        await views.save("big orders", "workflow:order* -tag:test", sort="-took", columns=["status", "key", "took"])
        await views.save(NAME_POISON, "error:script", owner="ann the admin", by="ann the admin")


async def _until_dead(engine: Engine, letters: int) -> None:
    for _ in range(400):
        if len(await engine.outbox.list_dead()) == letters:
            return
        await asyncio.sleep(0.05)
    raise TimeoutError(f"there are no {letters} dead letters")


async def _ended(engine: Engine, key: str) -> None:
    async with asyncio.timeout(60):
        async for run in engine.runs.watch(key):
            if run.is_ended or run.status == "compensation_failed":
                return


async def _waiting(engine: Engine, key: str) -> None:
    async with asyncio.timeout(20):
        async for run in engine.runs.watch(key):
            if run.status == "waiting":
                return
