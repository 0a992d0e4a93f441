"""What a large database costs: the same requests to it and to one that is nearly empty, by turns (W9)."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from bench.arenas import Arena
from bench.multiply import multiply
from bench.probes import QUIET, Bench, opened
from bench.report import Report, at_most
from bench.sizes import Size
from bench.workflows import looking_out, sequence
from stepwell import Start
from stepwell.clock import Span
from stepwell.ids import Incarnation
from stepwell.model.states import RunStatus
from stepwell.model.workers import Claimant, NewWorker
from stepwell.stores.base.views import RunFilter

_RATIO_MAX = 1.5
_WAITING = RunFilter(statuses=(RunStatus.WAITING,))
_SERVED = (f"{sequence.name}@{sequence.version}",)


@dataclass
class Side:
    """One of the two databases."""

    bench: Bench
    waiting: list[str]  # ids of runs that wait for a signal
    took: dict[str, list[float]] = field(default_factory=dict)

    async def time(self, what: str, call: Callable[[], Awaitable[object]]) -> None:
        """Do it, and note how long that took."""
        began = time.perf_counter()
        await call()
        self.took.setdefault(what, []).append(time.perf_counter() - began)


async def w9(arena: Arena, size: Size, report: Report) -> None:
    """Start, claim, signal, list and due with many ended and many waiting runs in the database."""
    async with AsyncExitStack() as stack:
        small = await make_side(stack, arena, 0, size.asked * 2)
        report.say(f"W9 {size.ended:,} ended and {size.grown_waiting:,} waiting runs are made")
        large = await make_side(stack, arena, size.ended, size.grown_waiting)
        title = f"W9  {size.ended:,} ended, {size.grown_waiting:,} waiting runs: against few"
        await compare(small, large, size, report, title)


async def compare(small: Side, large: Side, size: Size, report: Report, title: str) -> None:
    """Ask both the same, by turns, and print how many times longer the large one takes."""
    report.say(f"{title.split()[0]} both databases by turns")
    for round_ in range(size.asked):
        for side in (small, large) if round_ % 2 else (large, small):
            await _ask(side, round_)
    report.line(title, "times")
    for what, took in large.took.items():
        one, few = statistics.median(took), statistics.median(small.took[what])
        name = f"{title.split()[0]}    {what}, ms: {one * 1e3:.2f} / {few * 1e3:.2f}"
        report.timed(name, f"{one / few:.2f}", *at_most(one / few, _RATIO_MAX))


async def make_side(
    stack: AsyncExitStack,
    arena: Arena,
    ended: int,
    waiting: int,
    prepare: Callable[[str], Awaitable[None]] | None = None,
) -> Side:
    """A database with so many ended and waiting runs. `prepare` does something to it before it is asked."""
    url = stack.enter_context(arena.database())
    async with opened(url) as bench:
        done = await bench.engine.start(sequence, 3)
        await done.result()
        looking = await bench.engine.start(looking_out)
        await bench.until("waiting", 1)
    if ended:
        multiply(url, done.run_id, ended)
    ids = multiply(url, looking.run_id, waiting)
    random.Random(1).shuffle(ids)
    if prepare is not None:
        await prepare(url)
    bench = await stack.enter_async_context(opened(url, serves=False, **QUIET))
    await bench.probe.store.workers.register(NewWorker(Incarnation("w9"), "w9", Span(3_600_000_000), _SERVED))
    return Side(bench, ids)


async def _ask(side: Side, round_: int) -> None:
    engine, store = side.bench.engine, side.bench.probe.store
    await side.time("start", lambda: engine.start(sequence, 1))
    await side.time("signal", lambda: engine.signal(side.waiting.pop(), "go"))
    await side.time("list, newest first", lambda: engine.runs.list(limit=50))
    await side.time("list, waiting ones", lambda: engine.runs.list(_WAITING, limit=50))
    await side.time("due", lambda: store.views.next_wake((f"{looking_out.name}@{looking_out.version}",)))
    if round_ % 10 == 0:
        await engine.runs.start_many(sequence, [Start(1)] * 10)
    await side.time("claim", lambda: store.runs.claim(Claimant(Incarnation("w9"), 10, _SERVED)))
