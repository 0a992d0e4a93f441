"""The order saga of the demonstration. Each step writes to the ledger of effects, so that repeats can be counted."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stepwell import Context, Fatal, StepContext, step, workflow
from stepwell.cli.demo import ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKING_SECONDS = 1.0  # long enough to be killed in the middle
COOLING_OFF = "1s"
APPROVAL_FROM = 100  # orders of this amount and above wait for an approval
NOWHERE = "nowhere"  # an address that no carrier serves


@dataclass(frozen=True)
class Order:
    """An order, and the file for its effects."""

    order: str
    amount: int
    address: str
    ledger: str


@dataclass(frozen=True)
class Receipt:
    """What the customer gets."""

    order: str
    approved_by: str
    tracking: str


@contextmanager
def _effect(ctx: StepContext, order: Order) -> Iterator[None]:
    file = Path(order.ledger)
    ledger.note(file, ctx.run_id, ctx.path, ctx.idempotency_key, ledger.BEGAN)
    yield
    ledger.note(file, ctx.run_id, ctx.path, ctx.idempotency_key, ledger.ENDED)


async def release_stock(ctx: StepContext, order: Order) -> None:
    """Undo `reserve_stock`."""
    with _effect(ctx, order):
        await asyncio.sleep(0.05)


async def refund_card(ctx: StepContext, order: Order) -> None:
    """Undo `charge_card`."""
    with _effect(ctx, order):
        await asyncio.sleep(0.05)


async def unpack_parcel(ctx: StepContext, order: Order) -> None:
    """Undo `pack_parcel`."""
    with _effect(ctx, order):
        await asyncio.sleep(0.05)


@step(compensate=release_stock)
async def reserve_stock(ctx: StepContext, order: Order) -> str:
    """Reserve the goods."""
    with _effect(ctx, order):
        await asyncio.sleep(0.1)
    return f"reservation-{order.order}"


@step(compensate=refund_card)
async def charge_card(ctx: StepContext, order: Order) -> str:
    """Charge the card. Real code passes `ctx.idempotency_key` to the provider."""
    with _effect(ctx, order):
        await asyncio.sleep(0.2)
    return f"payment-{order.order}"


@step(compensate=unpack_parcel)
async def pack_parcel(ctx: StepContext, order: Order) -> str:
    """Take a while."""
    with _effect(ctx, order):
        await asyncio.sleep(PACKING_SECONDS)
    return f"parcel-{order.order}"


@step
async def ship(ctx: StepContext, order: Order, parcel: str) -> str:
    """Give the parcel to the carrier, which rejects some addresses."""
    with _effect(ctx, order):
        await asyncio.sleep(0.1)
    if order.address == NOWHERE:
        raise Fatal(f"no carrier delivers {parcel} to {order.address}")
    return f"track-{order.order}"


@workflow(name="order_saga")
async def order_saga(ctx: Context, order: Order) -> Receipt:
    """Reserve, charge, pack, wait for an approval, ship; if a step fails, undo everything."""
    await ctx.step(reserve_stock, order)
    await ctx.step(charge_card, order)
    parcel = await ctx.step(pack_parcel, order)
    approved_by = "no approval needed"
    if order.amount >= APPROVAL_FROM:
        await ctx.sleep("cooling_off", COOLING_OFF)
        approval = await ctx.receive("approval", timeout="60s")
        approved_by = approval.payload["by"]
    tracking = await ctx.step(ship, order, parcel)
    return Receipt(order.order, approved_by, tracking)
