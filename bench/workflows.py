"""The workflows that are measured: trivial steps, so that only the engine's own cost is seen."""

from __future__ import annotations

from stepwell import Context, step, workflow


@step
async def tick(number: int) -> int:
    """The smallest step there is."""
    return number + 1


numbered = tick.options(repeat=True)


@workflow
async def sequence(ctx: Context, steps: int) -> int:
    """`steps` trivial steps, one after the other."""
    number = 0
    for _ in range(steps):
        number = await ctx.step(numbered, number)
    return number


@workflow
async def sequence_then_wait(ctx: Context, steps: int) -> int:
    """As `sequence`, and then it waits for a signal."""
    number = 0
    for _ in range(steps):
        number = await ctx.step(numbered, number)
    await ctx.receive("go")
    return number


WORKFLOWS = [sequence, sequence_then_wait]
