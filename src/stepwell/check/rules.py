"""The rules for code: what each finding means, an example, and what to write instead."""

from __future__ import annotations

from typing import Final, NamedTuple

from stepwell.check.findings import Severity


class Rule(NamedTuple):
    """One kind of finding."""

    code: str
    severity: Severity
    title: str
    why: str
    bad: str
    good: str


DUPLICATE: Final = Rule(
    "SW104",
    Severity.ERROR,
    "Two operations in one scope share a name that must be unique",
    'The workflow is declared with `names="unique"`, or a step with `unique=True`, so the run is paused at the second '
    "operation. Without that declaration the uses of a name are numbered. A name may be used again in another branch "
    "or iteration.",
    """
@workflow(names="unique")
async def order(ctx: Context) -> None:
    await ctx.step("notify", tell_customer)
    await ctx.step("notify", tell_warehouse)
""",
    """
@workflow(names="unique")
async def order(ctx: Context) -> None:
    await ctx.step("notify customer", tell_customer)
    await ctx.step("notify warehouse", tell_warehouse)
""",
)
OUTSIDE: Final = Rule(
    "SW121",
    Severity.ERROR,
    "Workflow code reaches into the outside world",
    "After a crash or a long wait, workflow code runs again up to where it was. A clock, a random generator or the "
    "network then gives another value, and the code takes another path than the run recorded.",
    """
async def order(ctx: Context) -> None:
    if datetime.now().hour < 8:
        await ctx.step("early", ring)
""",
    """
async def order(ctx: Context) -> None:
    if ctx.now().hour < 8:
        await ctx.step("early", ring)
""",
)
UNAWAITED: Final = Rule(
    "SW122",
    Severity.ERROR,
    "An operation is never awaited",
    "An operation does nothing until it is awaited. A workflow that ends without awaiting it is paused, so that the "
    "operation is not skipped silently.",
    """
async def order(ctx: Context) -> None:
    ctx.step("charge", charge)
""",
    """
async def order(ctx: Context) -> None:
    await ctx.step("charge", charge)
""",
)
LOST_CHANGE: Final = Rule(
    "SW127",
    Severity.ERROR,
    "Code that a replay does not run again changes an outer variable",
    "A replay does not run the branches of a race, the body of a loop, the branches of `fail_fast` or plain branches "
    "again once their result is recorded. Their changes to outer variables would be lost, so the run is paused.",
    """
async def order(ctx: Context) -> int:
    total = 0

    async def body(ctx: Context, number: int) -> Continue[int] | Break[None]:
        nonlocal total
        total += await ctx.step("add", add, number)
        return Break(None) if number == 9 else Continue(number + 1)

    await ctx.loop("sum", body, 0)
    return total
""",
    """
async def order(ctx: Context) -> int:
    async def body(ctx: Context, state: list[int]) -> Continue[list[int]] | Break[int]:
        number, total = state
        total += await ctx.step("add", add, number)
        return Break(total) if number == 9 else Continue([number + 1, total])

    return await ctx.loop("sum", body, [0, 0])
""",
)
NO_UNDO: Final = Rule(
    "SW141",
    Severity.WARNING,
    "A step without an undo follows a step that has an undo",
    "If the run fails after both, the first step is undone and the second is not. That is right for steps without an "
    "effect, and for the last step of a workflow.",
    """
async def order(ctx: Context) -> None:
    await ctx.step(step(reserve, compensate=release))
    await ctx.step("charge", charge)
    await ctx.step("ship", ship)
""",
    """
async def order(ctx: Context) -> None:
    await ctx.step(step(reserve, compensate=release))
    await ctx.step(step(charge, compensate=refund))
    await ctx.step("ship", ship)
""",
)
UNBOUNDED: Final = Rule(
    "SW142",
    Severity.WARNING,
    "An endless loop makes the history grow without limit",
    "Every round of a Python loop adds to the history of the run, and a replay reads all of it. `ctx.loop` keeps its "
    "state and drops old rounds; `ctx.continue_as_new` begins a new history.",
    """
async def watch(ctx: Context) -> None:
    while True:
        await ctx.receive("tick")
""",
    """
async def watch(ctx: Context) -> None:
    async def turn(ctx: Context, seen: int) -> Continue[int]:
        await ctx.receive("tick")
        return Continue(seen + 1)

    await ctx.loop("ticks", turn, 0)
""",
)
UNSTORABLE: Final = Rule(
    "SW303",
    Severity.ERROR,
    "An annotation names a type that cannot be stored",
    "Inputs and results are stored as JSON and read back as the annotated type. With a type that cannot be read back, "
    "the run fails at its first use.",
    """
async def connect() -> socket.socket: ...
""",
    """
async def connect() -> str: ...
""",
)

RULES: Final = {
    rule.code: rule for rule in (DUPLICATE, OUTSIDE, UNAWAITED, LOST_CHANGE, NO_UNDO, UNBOUNDED, UNSTORABLE)
}
