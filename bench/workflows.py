"""The workflows that are measured: trivial steps, so that only the engine's own cost is seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepwell import Break, Context, Continue, Fatal, Workflow, done, step, workflow


@step
async def tick(number: int) -> int:
    """The smallest step there is."""
    return number + 1


@workflow
async def sequence(ctx: Context, steps: int) -> int:
    """`steps` trivial steps, one after the other."""
    number = 0
    for _ in range(steps):
        number = await ctx.step(tick, number)
    return number


MARKED: list[Callable[[], None]] = []  # who is told when a step of `marked` begins


@step
async def mark() -> None:
    """Tell them."""
    for tell in MARKED:
        tell()


@workflow
async def marked(ctx: Context, steps: int) -> None:
    """Some trivial steps, and then a mark so many steps after another."""
    for _ in range(10):
        await ctx.step(tick, 0)
    await ctx.step(mark)
    for _ in range(steps - 1):
        await ctx.step(tick, 0)
    await ctx.step(mark)


@workflow
async def sequence_then_wait(ctx: Context, steps: int) -> int:
    """As `sequence`, and then it waits for a signal."""
    number = 0
    for _ in range(steps):
        number = await ctx.step(tick, number)
    await ctx.receive("go")
    return number


async def one(ctx: Context, number: int) -> int:
    """One item of a map: one trivial step."""
    return await ctx.step(tick, number)


@workflow
async def mapped(ctx: Context, items: int) -> int:
    """One trivial step for each of many items, 1,000 at once."""
    return len(await ctx.map("all", one, range(items), limit=1_000))


@workflow
async def telling(ctx: Context) -> int:
    """One step, and three events that tell of it."""
    number = await ctx.step(tick, 0)
    for name in ("one", "two", "three"):
        await ctx.emit(name, number)
    return number


@workflow
async def parenting(ctx: Context) -> int:
    """One child of one step."""
    return await ctx.child(sequence, 1)


@workflow
async def small(ctx: Context, number: int) -> int:
    """The smallest child."""
    return number


@workflow
async def dispatching(ctx: Context, children: int) -> int:
    """Spawns children, and awaits them one by one."""
    spawned = [await ctx.spawn(small, number) for number in range(children)]
    total = 0
    for run_id in spawned:
        total += (await ctx.wait_any(ended=done(run_id))).value.value
    return total


@workflow
async def mapping_children(ctx: Context, children: int) -> int:
    """Children by a map."""
    return sum(await ctx.children(small, range(children)))


RESUMED: list[float] = []  # when a step of `waiting` began


@step
async def note_resumed() -> None:
    """Note the time."""
    RESUMED.append(time.perf_counter())


@workflow
async def waiting(ctx: Context) -> None:
    """Waits for a signal, then one step."""
    await ctx.receive("go")
    await ctx.step(note_resumed)


@workflow
async def looking_out(ctx: Context) -> None:
    """One step, then it waits for a signal, but not for ever."""
    await ctx.step(tick, 0)
    await ctx.receive("go", timeout="30d")


@workflow
async def held_back(ctx: Context, steps: int) -> int:
    """Waits for a signal, then `steps` trivial steps."""
    await ctx.receive("go")
    number = 0
    for _ in range(steps):
        number = await ctx.step(tick, number)
    return number


@workflow
async def in_rows(ctx: Context, count: int) -> int:
    """A map of trivial steps: two lines of history for each."""

    async def row(branch: Context, number: int) -> int:
        return await branch.step(tick, number)

    return len(await ctx.map("rows", row, range(count)))


@workflow
async def breaking(ctx: Context) -> None:
    """Fails."""
    raise Fatal("it had to")


async def _iterate(ctx: Context, left: int) -> Continue[int] | Break[int]:
    number = await ctx.step(tick, left)
    return Continue(left - 1) if left > 1 else Break(number)


@workflow
async def perpetual(ctx: Context, iterations: int) -> int:
    """A loop of one step each time."""
    return await ctx.loop("on", _iterate, iterations)


@step
async def leave_mark(marks: str) -> None:
    """One byte more in a file: what was executed, whatever becomes of the process."""
    with Path(marks).open("ab", buffering=0) as file:  # noqa: ASYNC230  it is the effect that is counted
        file.write(b".")


@workflow
async def noted(ctx: Context, what: tuple[str, int]) -> None:
    """Steps that leave marks."""
    marks, steps = what
    for _ in range(steps):
        await ctx.step(leave_mark, marks)


@step
async def note_beginning() -> float:
    """When it began, by the clock that all processes of a machine share."""
    return time.perf_counter()


@workflow
async def began_at(ctx: Context) -> float:
    """One step that says when it began."""
    return await ctx.step(note_beginning)


WOKE: dict[str, float] = {}  # when the code of `sleeping` went on, by run


@workflow
async def sleeping(ctx: Context, seconds: float) -> float:
    """Sleeps, notes when it goes on, and says when that was due."""
    slept = await ctx.sleep("nap", seconds)
    # A replay would come here again: the first time counts.
    WOKE.setdefault(ctx.run_id, time.time())
    return slept.due_at.timestamp()


@workflow
async def at_a_time(ctx: Context) -> None:
    """What a schedule starts: nothing but a run."""


WORKFLOWS: list[Workflow[Any, Any]] = [
    sequence,
    sequence_then_wait,
    marked,
    mapped,
    waiting,
    telling,
    parenting,
    small,
    dispatching,
    mapping_children,
    began_at,
    sleeping,
    looking_out,
    perpetual,
    noted,
    held_back,
    in_rows,
    breaking,
    at_a_time,
]
