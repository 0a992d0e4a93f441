"""Recordings without their texts: nothing readable is left, and the code that recorded them still fits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest

from stepwell import Break, Context, Continue, Failure, Fatal, StepFailed, step, workflow
from stepwell.check import dry, histories
from stepwell.check.dry import Divergence, Fits
from stepwell.check.redactions import redact_recording
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger
from tests.check.recordings import record


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Parcel:
    to: str
    weight: Decimal
    sent: datetime
    day: date
    id: UUID
    label: bytes
    takes: timedelta
    notes: dict[str, str]


PARCEL = Parcel(
    "Ann Lee",
    Decimal("12.50"),
    datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
    date(2026, 1, 2),
    UUID("8c2f3b0e-6b0f-4f0e-9c59-1f2d3c4b5a69"),
    b"secret bytes",
    timedelta(hours=3),
    {"ann@example.com": "a secret note", "plain": "another secret"},
)
SECRETS = ["Ann", "12.50", "8c2f3b0e", "secret", "2026-01-02", "example.com", "c2VjcmV0"]


async def send(parcel: Parcel) -> Parcel:
    return parcel


async def call_back(parcel: Parcel) -> None:
    return None


async def refuse(parcel: Parcel) -> None:
    raise Fatal(f"secret refusal for {parcel.to}")


async def turn(ctx: Context, parcel: Parcel) -> Continue[Parcel] | Break[Parcel]:
    await ctx.step("send", send, parcel)
    return Break(parcel)


@workflow
async def delivery(ctx: Context, parcel: Parcel) -> str:
    sent = await ctx.step(step(send, compensate=call_back), parcel)
    await ctx.join("both", {"left": lambda c: c.step("x", send, sent), "right": lambda c: c.step("y", send, sent)})
    await ctx.race("first", {"one": lambda c: c.step("z", send, sent)})
    await ctx.loop("turns", turn, sent)
    await ctx.map("all", lambda c, one: c.step("m", send, one), [sent, sent])
    try:
        await ctx.step("refuse", refuse, sent)
    except StepFailed:
        pass
    message = await ctx.receive("go")
    if message.payload["who"] != message.payload["again"]:
        raise Failure("the two secrets differ", data={"who": "Ann"})
    await ctx.receive("end")
    return sent.to


async def test_nothing_readable_is_left_and_the_code_still_fits(harness: Harness):
    worker = await harness.worker(delivery)
    run = await worker.start(delivery, PARCEL, key="ann's", tags={"owner": "Ann Lee"})
    await worker.signal(run.run_id, "go", {"who": "Ann", "again": "Ann"})
    await harness.drain()
    original = await record(harness, run)

    redacted = redact_recording(original)
    file = histories.dump(redacted).decode()

    assert dry.replay(delivery, original) == Fits(waits=("end",))
    assert dry.replay(delivery, histories.load(file.encode())) == Fits(waits=("end",))
    assert [secret for secret in SECRETS if secret in file] == []
    assert [secret for secret in SECRETS if secret not in histories.dump(original).decode()] == []
    assert "send" in file


async def test_a_text_that_is_one_of_a_few_is_kept_on_request(harness: Harness, ledger: Ledger):
    async def choose() -> dict[str, Any]:
        return {"colour": "red", "who": "Ann"}

    @dataclass
    class Choice:
        colour: Colour
        who: str

    choose.__annotations__["return"] = Choice

    @workflow
    async def paint(ctx: Context) -> None:
        await ctx.step("choose", choose)
        await ctx.receive("go")

    worker = await harness.worker(paint)
    run = await worker.start(paint)
    await harness.drain()
    original = await record(harness, run)
    if not original.history.entries or original.history.entries[0].status.name == "FAILED":
        pytest.fail(str(original.history.entries))

    assert isinstance(dry.replay(paint, redact_recording(original)), Divergence)
    for keep in ("colour", "choose", "ch*"):
        assert isinstance(dry.replay(paint, redact_recording(original, keep=[keep])), Fits)
    assert b"Ann" not in histories.dump(redact_recording(original, keep=["colour"]))


async def test_a_failure_keeps_its_type_and_place_and_no_words(harness: Harness):
    @workflow
    async def doomed(ctx: Context, parcel: Parcel) -> None:
        await ctx.step("refuse", refuse, parcel)

    worker = await harness.worker(doomed)
    run = await worker.start(doomed, PARCEL)
    await harness.drain()
    file = histories.dump(redact_recording(await record(harness, run))).decode()

    assert "Fatal" in file
    assert "secret refusal" not in file
    assert "Traceback" not in file
