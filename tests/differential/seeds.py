"""One seed: a world from its beginning to its end."""

from __future__ import annotations

import asyncio
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from stepwell.virtual.clock import ManualClock
from tests.differential.mix import Mix
from tests.differential.numbers import Numbers
from tests.differential.stores import STORES, Place
from tests.differential.transactions import CREATE
from tests.differential.transfers import move_all
from tests.differential.world import Divergence, Handle, Operation, World

MOVES_EVERY = 4  # seeds: half-way everything is moved, and continues in stores of other kinds
OPERATIONS_PER_SEED = 120  # few, so that a full comparison after each is affordable


@dataclass(slots=True)
class Report:
    """The result of a seed."""

    seed: int
    operations: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    facts: Counter[tuple[str, str]] = field(default_factory=Counter)
    divergence: str = ""  # in words, with the operation that showed it


def run_seed(seed: int, operations: int, stores: Sequence[str], log: Callable[[str], None] | None = None) -> Report:
    """Run the first operations of a seed; stops where the stores diverge."""
    return asyncio.run(_run(seed, operations, stores, log))


async def _run(seed: int, operations: int, stores: Sequence[str], log: Callable[[str], None] | None) -> Report:
    report = Report(seed)
    async with AsyncExitStack() as stack:
        world = await _make_world(stack, seed, stores)
        mix = Mix(world)
        while report.operations < operations:
            if report.operations == OPERATIONS_PER_SEED // 2 and seed % MOVES_EVERY == 0:
                try:
                    report.kinds += await _move(stack, world, seed, stores)
                except Divergence as divergence:
                    report.divergence = f"moving everything\n{_words(divergence)}"
                    break
            operation = mix.draw()
            report.operations += 1
            report.kinds[operation.kind] += 1
            if log is not None:
                log(f"{report.operations:>4} {world.now} {describe(operation)}")
            try:
                answer = await world.perform(operation)
            except Divergence as divergence:
                report.divergence = f"{describe(operation)}\n{_words(divergence)}"
                break
            if log is not None:
                log(f"       {answer!r}")
        report.facts = world.facts
    return report


async def _move(stack: AsyncExitStack, world: World, seed: int, stores: Sequence[str]) -> Counter[str]:
    destinations = {}
    for name, following in zip(stores, [*stores[1:], stores[0]], strict=True):
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stepwell-differential-")))
        place = Place(world.clock, folder, seed, is_second=True)
        destinations[name] = await stack.enter_async_context(STORES[following](place))
        await destinations[name].store.transactions.run(lambda tx: tx.execute(CREATE))
    return await move_all(world, destinations)


async def _make_world(stack: AsyncExitStack, seed: int, stores: Sequence[str]) -> World:
    clock, handles = ManualClock(), []
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stepwell-differential-")))
    for name in stores:
        (own := folder / name).mkdir()
        opened = await stack.enter_async_context(STORES[name](Place(clock, own, seed)))
        await opened.store.transactions.run(lambda tx: tx.execute(CREATE))
        handles.append(Handle(opened, Numbers()))
    world = World(handles, clock, seed)
    await world.look()
    return world


def describe(operation: Operation) -> str:
    """An operation in one line."""
    return f"{operation.kind}{operation.given!r}"


def _words(divergence: Divergence) -> str:
    if divergence.__cause__ is None:
        return str(divergence)
    return f"{divergence}\n{''.join(traceback.format_exception(divergence.__cause__)).rstrip()}"
