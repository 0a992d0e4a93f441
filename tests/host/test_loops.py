"""More than one event loop in a process, and loops that are not asyncio's own."""

from __future__ import annotations

import ast
import asyncio
import inspect
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
import uvloop

from stepwell import Context, Engine, StepContext, SyncEngine, WorkerSettings, workflow

RUNS = 20
PATIENCE = "60s"


class Tally:
    """How often the body of each run was executed, by any thread."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, run_id: str) -> None:
        with self._lock:
            self.counts[run_id] += 1


def flow_of(tally: Tally) -> Any:
    def note(info: StepContext, number: int) -> int:
        tally.add(info.run_id)
        return number

    @workflow
    async def flow(ctx: Context, number: int) -> int:
        await ctx.sleep("nap", "2ms")
        return await ctx.step("note", note, number)

    return flow


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/loops.db"


LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


@pytest.mark.parametrize("names", [("asyncio", "asyncio"), ("uvloop", "asyncio")], ids="-".join)
def test_two_loops_in_two_threads_share_a_database_and_run_each_body_once(url: str, names: tuple[str, str]):
    tally = Tally()
    flow = flow_of(tally)

    async def live(side: int) -> list[int]:
        async with Engine(url, workflows=[flow], settings=WorkerSettings(lease=PATIENCE)) as engine:
            runs = [await engine.start(flow, number, key=f"{side}-{number}") for number in range(RUNS)]
            return [await run.result(timeout=PATIENCE) for run in runs]

    def thread(side: int) -> list[int]:
        with asyncio.Runner(loop_factory=LOOPS[names[side]]) as runner:
            return runner.run(live(side))

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(thread, range(2))) == [list(range(RUNS))] * 2
    assert len(tally.counts) == 2 * RUNS
    assert set(tally.counts.values()) == {1}


def test_an_engine_is_opened_again_in_a_second_and_another_kind_of_loop(url: str):
    tally = Tally()
    flow = flow_of(tally)
    engine = Engine(url, workflows=[flow])

    async def once(number: int) -> int:
        async with engine:
            return await (await engine.start(flow, number)).result(timeout=PATIENCE)

    for number, name in enumerate(("asyncio", "uvloop", "asyncio")):
        with asyncio.Runner(loop_factory=LOOPS[name]) as runner:
            assert runner.run(once(number)) == number
    assert set(tally.counts.values()) == {1}


def test_a_loop_that_ends_without_closing_its_engine_leaves_the_runs_to_the_next(url: str):
    """As in a notebook whose cell raised: nobody calls `__aexit__`, and the loop is gone."""
    tally = Tally()
    flow = flow_of(tally)
    settings = WorkerSettings(lease="1s", sweep_every="200ms")

    async def forgets() -> str:
        engine = Engine(url, workflows=[flow], settings=settings)
        await engine.__aenter__()
        return (await engine.start(flow, 1, delay="50ms")).run_id

    async def goes_on() -> Any:
        async with Engine(url, workflows=[flow], settings=settings) as engine:
            return await engine.result(run_id, timeout=PATIENCE)

    run_id = asyncio.run(forgets())
    assert asyncio.run(goes_on()) == 1
    assert tally.counts == {run_id: 1}


def test_another_thread_hands_its_calls_over_to_the_loop(url: str):
    flow = flow_of(Tally())

    async def live() -> list[int]:
        async with Engine(url, workflows=[flow]) as engine:
            loop = asyncio.get_running_loop()

            async def one(number: int) -> int:
                return await (await engine.start(flow, number)).result(timeout=PATIENCE)

            def from_thread(number: int) -> int:
                return asyncio.run_coroutine_threadsafe(one(number), loop).result(60)

            return await asyncio.gather(*(asyncio.to_thread(from_thread, number) for number in range(RUNS)))

    assert asyncio.run(live()) == list(range(RUNS))


CELLS = (
    """
from stepwell import Context, Engine, SyncEngine, workflow

@workflow
async def flow(ctx: Context, number: int) -> int:
    return await ctx.step("same", lambda: number)

engine = await Engine(url, workflows=[flow]).__aenter__()
run = await engine.start(flow, 1)
""",
    "results.append(await run.result(timeout='60s'))",
    """
async for_ever_is_not_a_word
""",
    """
with SyncEngine(url, workflows=[flow]) as blocking:
    results.append(blocking.start(flow, 2).result(timeout='60s'))
""",
    """
@workflow
async def flow(ctx: Context, number: int) -> int:
    return await ctx.step("same", lambda: -number)

await engine.shutdown()
engine = await Engine(url, workflows=[flow]).__aenter__()
results.append(await (await engine.start(flow, 3)).result(timeout='60s'))
""",
    "await engine.shutdown()",
)


async def test_cells_of_a_notebook_share_a_loop_that_is_running_already(url: str):
    """As Jupyter runs them: each cell is compiled with top-level await, on the loop of the kernel."""
    results: list[int] = []
    names: dict[str, Any] = {"url": url, "results": results, "__name__": "__main__"}
    failed: list[str] = []
    for number, cell in enumerate(CELLS):
        try:
            code = compile(cell, f"<cell {number}>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            await run_cell(code, names)
        except SyntaxError as error:
            failed.append(error.filename or "")

    assert failed == ["<cell 2>"]
    assert results == [1, 2, -3]


async def run_cell(code: CodeType, names: dict[str, Any]) -> None:
    """Run one cell, and wait for it if it is a coroutine."""
    came = eval(code, names)
    if inspect.isawaitable(came):
        await came


def test_a_blocking_engine_is_opened_used_and_closed_by_different_threads(url: str):
    flow = flow_of(Tally())
    engine = SyncEngine(url, workflows=[flow])
    with ThreadPoolExecutor(1) as opens, ThreadPoolExecutor(8) as use, ThreadPoolExecutor(1) as closes:
        opens.submit(engine.__enter__).result()

        def one(number: int) -> int:
            return engine.start(flow, number).result(timeout=PATIENCE)

        assert list(use.map(one, range(RUNS))) == list(range(RUNS))
        closes.submit(engine.__exit__, None, None, None).result()
    assert [thread.name for thread in threading.enumerate() if thread.name == "stepwell-engine"] == []
