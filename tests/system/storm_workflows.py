"""The workflows of the storm. Every body notes its beginning and its end in the ledger, and gives a value of its own.

A body is handed the value before it: so the ledger shows whether anything was ever built on a value that was not kept.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepwell import Break, Context, Continue, Fatal, Retry, StepContext, Transaction, Workflow, step, workflow
from stepwell.sinks import EmittedEvent, handler
from tests.system.ledger import Ledger

GENERATIONS = 3
SIGNALS = 3
TICKS = 12
EFFECTS = "storm_effects"  # the table that transactional steps write to
MAKE_EFFECTS = f"create table {EFFECTS} (run text not null, value text not null)"
_numbers = itertools.count(1)
_ledger: Ledger | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """What a run is to do."""

    size: int = 3
    fails: bool = False
    given: str = ""
    slow: float = 0.0  # seconds that each body lasts at least


def use_ledger(path: Path) -> Ledger:
    """Note bodies in that file from now on."""
    return use(Ledger(path))


def use(ledger: Ledger) -> Ledger:
    """Note bodies there from now on."""
    global _ledger
    _ledger = ledger
    return ledger


@contextmanager
def noted(info: StepContext, given: str) -> Iterator[str]:
    """One execution of a body: its own new value, noted before anything is done and again when all is done."""
    assert _ledger is not None
    value = _new_value()
    _ledger.note(
        "begin",
        run=info.run_id,
        path=info.path,
        attempt=info.attempt,
        key=info.idempotency_key,
        value=value,
        given=given,
    )
    yield value
    _ledger.note("end", value=value)


def _new_value() -> str:
    return f"v{os.getpid()}.{next(_numbers)}.{random.getrandbits(32):08x}"


async def note_event(event: EmittedEvent) -> None:
    """The sink of the storm: slow at times, and at times it fails although it got the event."""
    assert _ledger is not None
    await asyncio.sleep(_pause() / 4)
    value = event.payload if isinstance(event.payload, str) else ""
    _ledger.note("event", run=event.run_id, id=event.id, name=event.name, value=value)
    if random.random() < 0.05:
        raise ConnectionError("the answer got lost")


SINKS = (handler(note_event, retry=Retry(max_attempts=1_000, initial="30ms", max_delay="300ms")),)


def _pause() -> float:
    """Most bodies are short, a few are long enough to be hit often."""
    return random.uniform(0.0, 0.04) if random.random() < 0.8 else random.uniform(0.1, 0.4)


@step(emits="worked")
async def work(info: StepContext, given: str, slow: float = 0.0) -> str:
    with noted(info, given) as value:
        await asyncio.sleep(slow or _pause())
        return value


@step
def grind(info: StepContext, given: str) -> str:
    with noted(info, given) as value:
        time.sleep(_pause())
        return value


@step(retry=Retry(max_attempts=10, initial="30ms", factor=1.5))
async def shaky(info: StepContext, given: str) -> str:
    with noted(info, given) as value:
        await asyncio.sleep(_pause() / 4)
        if info.attempt == 1:
            raise ConnectionError("the first attempt always fails")
        return value


async def give_back(info: StepContext, given: str, slow: float, value: str) -> None:
    with noted(info, value):
        await asyncio.sleep(_pause() / 2)


@step(compensate=give_back)
async def book(info: StepContext, given: str, slow: float) -> str:
    with noted(info, given) as value:
        info.emit("booked", value)
        await asyncio.sleep(slow or _pause())
        return value


@step
async def refuse(info: StepContext, given: str) -> str:
    with noted(info, given):
        raise Fatal("sold out")


@step(transaction=True)
def enter(tx: Transaction, run_id: str) -> str:
    value = _new_value()
    tx.execute(f"insert into {EFFECTS} (run, value) values (?, ?)", (run_id, value))
    time.sleep(_pause() / 10)
    return value


@workflow
async def chain(ctx: Context, job: Job) -> list[str]:
    values = [await ctx.step(work, job.given, job.slow)]
    for number in range(1, job.size):
        match number % 3:
            case 1:
                values.append(await ctx.step(shaky, values[-1]))
            case 2:
                values.append(await ctx.step(grind, values[-1]))
            case _:
                values.append(await ctx.step(work, values[-1], job.slow))
    return values


@workflow
async def spread(ctx: Context, job: Job) -> list[str]:
    first = await ctx.step(work, job.given)

    async def branch(inner: Context) -> str:
        half = await inner.step(work, first)
        await inner.sleep("rest", "50ms")
        return await inner.step(work, half)

    joined = await ctx.join("all", {f"b{number}": branch for number in range(job.size)})
    return [first, *joined.values(), await ctx.step(work, first)]


@workflow
async def naps(ctx: Context, job: Job) -> list[str]:
    values = [await ctx.step(work, job.given)]
    for seconds in (0.2, 1.3)[: job.size]:
        await ctx.sleep("nap", seconds)
        values.append(await ctx.step(work, values[-1]))
    return values


@workflow
async def talk(ctx: Context, job: Job) -> list[str]:
    values = [await ctx.step(work, job.given, job.slow)]
    for _ in range(SIGNALS):
        message = await ctx.receive("go")
        values += [message.payload, await ctx.step(work, values[0], job.slow)]
    return values


@workflow
async def relay(ctx: Context, job: Job) -> list[str]:
    message = await ctx.receive("go")
    value = await ctx.step(work, job.given)
    if ctx.generation < GENERATIONS:
        ctx.continue_as_new(Job(given=value))
    return [message.payload, value]


@workflow
async def family(ctx: Context, job: Job) -> list[str]:
    first = await ctx.step(work, job.given)

    async def branch(inner: Context) -> list[str]:
        return await inner.child(chain, Job(2, given=first))

    joined = await ctx.join("children", {"left": branch, "right": branch})
    values = await ctx.child(naps, Job(1, given=first))
    return [first, *itertools.chain(*joined.values()), *values]


@workflow
async def saga(ctx: Context, job: Job) -> list[str]:
    values = [job.given]
    for _ in range(job.size):
        values.append(await ctx.step(book, values[-1], job.slow))
    if job.fails:
        await ctx.step(refuse, values[-1])
    return values[1:]


@workflow
async def tally(ctx: Context, job: Job) -> list[str]:
    values = [await ctx.step(work, job.given)]
    for _ in range(job.size):
        values.append(await ctx.step(enter, ctx.run_id))
        values.append(await ctx.step(work, values[-1]))
    return values


@workflow
async def ticker(ctx: Context, job: Job) -> list[str]:
    async def tick(inner: Context, state: list[Any]) -> Continue[list[Any]] | Break[list[str]]:
        number, last = state
        value = await inner.step(work, last)
        return Break([value]) if number == TICKS else Continue([number + 1, value])

    return await ctx.loop("ticks", tick, [1, job.given], trim_every=3, keep=2)


WORKFLOWS: tuple[Workflow[Job, list[str]], ...] = (chain, spread, naps, talk, relay, family, saga, ticker)
TRANSACTIONAL = (tally,)  # these need a table of their own
