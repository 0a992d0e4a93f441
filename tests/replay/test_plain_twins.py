"""Plain `def` workflows: the same history as their async twins, and the same outcome with a fault at every call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sim.plain import twin_of
from stepwell.views import EntryView, RunView
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger
from tests.cases.stores import STORES
from tests.replay import test_maps, test_sweeps
from tests.replay.sweep import CANCEL, Build, Program, sweep

# A plain function has no `asyncio.gather`: it says `ctx.join`. And nobody but the function itself may use its context:
# not the producer of a `ctx.once`, either.
BUILDS: dict[str, Build] = {
    name: build
    for table in (test_sweeps.SWEEPS, test_sweeps.ENDS, test_maps.SWEEPS)
    for name, (build, *_) in table.items()
    if name not in ("children", "gathers", "once and chance")
}


def twins(build: Build) -> Build:
    def build_twin(ledger: Ledger) -> Program:
        program = build(ledger)
        others = tuple(twin_of(other) for other in program.others)
        return replace(program, workflow=twin_of(program.workflow), others=others)

    return build_twin


async def story(build: Build, store: str, mode: str) -> list[Any]:
    """Every line of the history of every run that the program makes, and what its bodies did."""
    ledger, harness = Ledger(), Harness(STORES[store](), mode)
    program = build(ledger)
    client = await harness.client()
    worker = await harness.worker(program.workflow, *program.others, **program.settings)
    await worker.start(program.workflow, program.input, key="program")
    await harness.drain()
    for wait, name, payload in program.script:
        await harness.advance(wait)
        if name == CANCEL:
            await client.do(client.engine.cancel("program"))
        else:
            await client.signal("program", name, payload, if_missing="drop")
    await harness.advance(program.lasts)
    runs = await client.do(client.engine.runs.list())
    lines = [
        (run.workflow, run.status, run.output, [_line(e, run) for e in await harness.history(run.run_id)])
        for run in runs
    ]
    await harness.close()
    return [sorted(lines, key=repr), ledger.lines]


def _line(entry: EntryView, run: RunView) -> tuple[Any, ...]:
    # Times and ids differ from one execution to the next.
    value = None if entry.kind in ("sleep", "once", "spawn", "child") else entry.value
    return entry.seq, entry.path, entry.kind, entry.status, entry.attempts, value, entry.at - run.created_at, entry.took


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", BUILDS)
async def test_a_plain_function_leaves_the_history_of_its_async_twin(mode: str, store: str, name: str):
    build = BUILDS[name]

    assert await story(twins(build), store, mode) == await story(build, store, mode)


@pytest.mark.parametrize("name", BUILDS)
async def test_a_fault_at_any_call_changes_nothing(mode: str, name: str):
    await sweep(twins(BUILDS[name]), mode, "crash", "pause")
