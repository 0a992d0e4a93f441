"""What the workers of these tests execute: `stepwell worker` loads it by its name; a variable names the ledger."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from stepwell import Context, StepContext, Transaction, step, workflow
from tests.system.storm_worker import LedgerHandler
from tests.system.storm_workflows import (
    Job,
    chain,
    family,
    naps,
    noted,
    relay,
    saga,
    spread,
    talk,
    ticker,
    use_ledger,
)

LEDGER_VARIABLE = "STEPWELL_TEST_LEDGER"
PARTS = 3
TABLE = "create table bookings (run text not null, number int not null, primary key (run, number))"


@step(transaction=True)
def reserve(tx: Transaction, run_id: str, number: int) -> int:
    """A row of the author's own, in the transaction of the step's result."""
    tx.execute("insert into bookings (run, number) values (?, ?)", (run_id, number))
    return number


@step(transaction=True)
def hold(tx: Transaction, run_id: str, seconds: float) -> int:
    """Sits on an open transaction."""
    tx.execute("insert into bookings (run, number) values (?, ?)", (run_id, 0))
    assert _ledger is not None
    _ledger.note("holding", run=run_id)
    time.sleep(seconds)
    return 0


@step
async def hear(info: StepContext, given: str) -> str:
    with noted(info, given) as value:
        return value


@workflow
async def bookings(ctx: Context, job: Job) -> list[str]:
    """As many rows as the job is large."""
    return [str(await ctx.step(f"reserve{number}", reserve, ctx.run_id, number)) for number in range(job.size)]


@workflow
async def holding(ctx: Context, job: Job) -> list[str]:
    """One transaction that lasts as long as the job is slow."""
    return [str(await ctx.step(hold, ctx.run_id, job.slow))]


@workflow
async def audience(ctx: Context, job: Job) -> list[str]:
    """Waits for the events of its show, with a step behind each of them."""
    values: list[str] = []
    for part in range(PARTS):
        event = await ctx.topic(f"part{part}", where={"show": job.given}, since="all")
        await ctx.step(hear, "")
        values.append(event["text"])
    return values


WORKFLOWS = (chain, spread, naps, talk, relay, family, saga, ticker, bookings, holding, audience)

_ledger = use_ledger(Path(os.environ[LEDGER_VARIABLE])) if LEDGER_VARIABLE in os.environ else None
if _ledger is not None:
    logging.getLogger("stepwell").addHandler(LedgerHandler(_ledger))
