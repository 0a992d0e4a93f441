"""Workflows with data that no page expects: markup, control sequences, long and deep values."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from stepwell import Context, Retry, StepContext, step, workflow

MARKUP: Final = "<script>alert('stepwell')</script>"
IMAGE: Final = '"><img src=x onerror=alert(1)>'
ESCAPES: Final = "\x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x07link\x1b]8;;\x07 \x07bell"
REVERSED: Final = "\u202egnp.exe\u202c and \u200bnothing"
FORMULA: Final = '=HYPERLINK("https://evil.example","click")'
TEMPLATE: Final = "{{7*7}} ${7*7} %s %n '; drop table stepwell_runs; --"
HOSTILE: Final = (MARKUP, IMAGE, ESCAPES, REVERSED, FORMULA, TEMPLATE)

ARABIC: Final = "طلب للعميلة مريم العبدالله من الرياض"
HEBREW: Final = "הזמנה של עדי כהן מתל אביב"
WIDE: Final = "漢字かな交じり文の長い鍵"

STEP: Final = '<img src=x onerror="alert(2)">'
"""The name of a step. A name has no slash, so it cannot close a tag."""

LARGE_BYTES: Final = 10_000_000


class OddError(Exception):
    """Its message is what a test says it is."""


def long_error(length: int = 5_000) -> str:
    """A message as drivers write them: several lines, without a blank for a long way."""
    lines = [
        "(psycopg.errors.SerializationFailure) could not serialize access due to concurrent update",
        "[SQL: UPDATE stock SET reserved = reserved + %(n)s WHERE sku = ANY(%(skus)s) RETURNING sku]",
        f"[parameters: {{'n': 1, 'skus': ['{'A' * 400}', {', '.join(repr(f'sku-{n:04d}') for n in range(400))}]}}]",
        MARKUP,
    ]
    return "\n".join(lines)[:length]


async def echo(value: Any) -> Any:
    """The value itself."""
    return value


@step(retry=Retry(max_attempts=3, initial="2s", jitter=0.0))
async def fail_with(message: str) -> None:
    """Fail with this message."""
    await asyncio.sleep(0.1)
    raise OddError(message)


async def undo_echo(value: Any) -> str:
    """Undo `echo`."""
    return f"undone {MARKUP}"


undoable = step(echo, compensate=undo_echo)


@workflow(name='<i>odd & "quoted"', version=1)
async def odd_texts(ctx: Context, given: dict[str, Any]) -> Any:
    """<b>Markup</b> in every stored text."""
    ctx.publish_state({"note": MARKUP, "escapes": ESCAPES})
    ctx.state["<u>named"] = given
    log = ctx.stream("<b>log")
    for text in HOSTILE:
        await log.append(text)
    await ctx.step(STEP, undoable, given)
    await ctx.emit("odd.event", {"text": MARKUP, "escapes": ESCAPES})
    if given.get("fails"):
        await ctx.step(f"{STEP} fails", fail_with, given["fails"])
    if given.get("waits"):
        message = await ctx.receive("<b>signal", timeout="60d")
        return message.payload
    return {"text": MARKUP, "more": list(HOSTILE)}


@workflow
async def large_values(ctx: Context, given: dict[str, Any]) -> Any:
    """An input and a result of ten megabytes."""
    return await ctx.step("copy", echo, given)


@workflow
async def deep_tree(ctx: Context, depth: int) -> int:
    """Branches in branches, with loops of many rounds at the leaves."""

    async def below(inner: Context, left: int) -> int:
        if left == 0:
            found = await inner.map("leaves", lambda leaf, n: leaf.step("echo", echo, n), range(60))
            return len(found)
        both = await inner.join(
            f"level {left}",
            {
                "a rather long name of a branch that goes on": lambda branch: below(branch, left - 1),
                "b": lambda branch: branch.step("echo", echo, left),
            },
        )
        return sum(both.values())

    return await below(ctx, depth)


@workflow
async def many_children(ctx: Context, count: int) -> list[Any]:
    """A parent of many runs."""
    return await ctx.children(one_part, range(count))


@workflow
async def one_part(ctx: Context, number: int) -> int:
    """A child."""
    return await ctx.step("echo", echo, number)


@step(retry=Retry(max_attempts=4, initial="30s", factor=2.0, jitter=0.0))
async def flaky(ctx: StepContext, calls: int) -> str:
    """Fail often, and succeed at last."""
    await asyncio.sleep(0.3)
    if ctx.attempt < calls:
        raise TimeoutError(f"attempt {ctx.attempt} of {calls}: no answer in 300 ms")
    return f"after {calls} attempts"


@workflow
async def retried_steps(ctx: Context, calls: int) -> str:
    """A step that succeeds at last."""
    return await ctx.step("flaky", flaky, calls)


async def eat_memory(file: str) -> None:
    """Take more memory than its worker has, so that the machine ends the worker."""
    await asyncio.sleep(3_600)


@workflow
async def unpack_archive(ctx: Context, file: str) -> None:
    """Kills every worker that takes it."""
    await ctx.step("unpack", eat_memory, file)


ODD_WORKFLOWS: Final = (odd_texts, large_values, deep_tree, many_children, one_part, retried_steps, unpack_archive)
