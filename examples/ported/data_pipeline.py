"""A data pipeline, as in the child workflow samples of Temporal and DBOS: one run for each file, one for the whole.

A file has its own retries, its own history and its own place in `stepwell ls`. One that fails is reported, and does not
stop the others. The table is swapped in when all are there, and the staging area is dropped whatever happens.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from stepwell import ChildFailed, Context, Engine, Fatal, Retry, step, workflow


@dataclass(frozen=True)
class Loaded:
    rows: int
    bad_files: list[str]


async def list_files(day: str) -> list[str]:
    return [f"{day}/{shop}.csv" for shop in ("berlin", "oslo", "rome")]


@step(retry=Retry(max_attempts=5))
async def extract(file: str) -> list[int]:
    if "rome" in file:
        raise Fatal(f"{file} is empty")
    return [3, 1, 2]


async def transform(rows: list[int]) -> list[int]:
    return sorted(rows)


async def stage(area: str, file: str, rows: list[int]) -> int:
    print(f"{file}: {rows} into {area}")
    return len(rows)


async def swap_in(area: str) -> None:
    print(f"{area} is live")


async def drop(area: str) -> None:
    print(f"{area} is dropped")


@workflow
async def load_file(ctx: Context, file: str) -> int:
    area = ctx.headers["area"]
    rows = await ctx.step(transform, await ctx.step(extract, file))
    return await ctx.step(stage, area, file, rows)


@workflow
async def load_day(ctx: Context, day: str) -> Loaded:
    area = f"staging-{day}"

    async def load(ctx: Context, file: str) -> int | None:
        try:
            return await ctx.child(load_file, file, tags={"day": day}, headers={"area": area})
        except ChildFailed:
            return None

    files = await ctx.step(list_files, day)
    async with ctx.cleanup(drop, area):
        counts = await ctx.map("files", load, files, limit=2)
        await ctx.step(swap_in, area)
    bad = [file for file, count in zip(files, counts, strict=True) if count is None]
    return Loaded(sum(count or 0 for count in counts), bad)


async def main() -> None:
    async with Engine("memory://", workflows=[load_day, load_file]) as engine:
        run = await engine.start(load_day, "2026-11-19", key="2026-11-19")
        print(await run.result())


if __name__ == "__main__":
    asyncio.run(main())
