"""What the pages of a dashboard ask: of a grown database, of a long run, and all the time while they are open."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from asyncio.subprocess import Process

import apsw
import psycopg

from bench.arenas import Arena
from bench.multiply import multiply
from bench.probes import Bench, opened, path_of
from bench.processes import run_module, workers
from bench.report import Report, at_most
from bench.sizes import Size
from bench.surfaces import Server, call, crowd, serving
from bench.workflows import breaking, sequence, sequence_then_wait

_PAGE_MS_MAX = 300
_LONG_MS_MAX = 100
_IDLE_CPU_MAX = 20  # percent of a core, of the server, with all pages open
_SLOWER_MAX = 1.05
_DAYS = 30  # over which the runs of the grown database began

# What the list of runs asks first, and then on demand.
_FIRST = (
    "/api/runs?limit=50&reasons=true&payloads=false",
    "/api/runs/count?q=status:failed",
    "/api/runs/histogram?bins=60",
)
_OTHERS = (
    "/api/runs?limit=50&reasons=true&payloads=false&q=status:failed",
    "/api/runs/histogram?bins=60&last=30d",
    "/api/runs/count",
    "/api/errors",
    "/api/workflows/breaking",
    "/api/versions",
    "/api/doctor",
)


async def pages(arena: Arena, size: Size, report: Report) -> None:
    """Answers of one server process, one after the other on one connection; then pages that stay open."""
    with arena.database() as url:
        long_run = await _fill(url, size, report)
        async with serving(url) as server:
            report.line(f"pages of {size.ended:,} runs", "first/p50 ms")
            for path in (*_FIRST, *_OTHERS):
                target = _PAGE_MS_MAX if path in _FIRST else None
                await _timed(server, path, size, report, target)
            report.line(f"a run with {size.page_entries:,} entries", "first/p50 ms")
            half = size.page_entries // 2
            for path in ("", "/tree", f"/tree?at={half}", f"/history?after={half}&limit=100", "/why"):
                # The sentence of `why` needs the whole record.
                target = None if path == "/why" else _LONG_MS_MAX
                await _timed(server, f"/api/runs/{long_run}{path}", size, report, target)
            await _idle(server, size, report)
    await _busy(arena, size, report)


async def _fill(url: str, size: Size, report: Report) -> str:
    """Ended runs over some days, a few that wait, and a long one, whose id this gives."""
    async with opened(url) as bench:
        report.say(f"pages: a run with {size.page_entries:,} entries")
        long_run = await bench.engine.start(sequence, size.page_entries)
        await long_run.result()
        failed = await bench.engine.start(breaking)
        await bench.until("failed", 1)
        for _ in range(20):
            await bench.engine.start(sequence_then_wait, 3)
        done = await bench.engine.start(sequence, 3)
        await done.result()
        await bench.until("waiting", 20)
    report.say(f"pages: {size.ended:,} runs are made")
    multiply(url, done.run_id, size.ended - size.ended // 50)
    multiply(url, failed.run_id, size.ended // 50)
    _spread(url)
    return str(long_run.run_id)


def _spread(url: str) -> None:
    """Let the ended runs have begun one after the other, over some days until now."""
    every = "(select max(id) from {t}runs) - id"
    times = ", ".join(
        f"{name} = {name} - ({every}) * ({_DAYS} * 86400000000 / (select max(id) from {{t}}runs))"
        for name in ("created_at", "started_at", "ended_at")
    )
    text = f"update {{t}}runs set {times} where ended_at is not null"
    if url.startswith("sqlite:"):
        connection = apsw.Connection(str(path_of(url)))
        connection.execute(text.replace("{t}", "stepwell_"))
        connection.pragma("wal_checkpoint", "truncate")
        connection.close()
        return
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(text.replace("{t}", "stepwell.").encode())
        server.execute("vacuum analyze")


async def _timed(server: Server, path: str, size: Size, report: Report, target: int | None) -> None:
    report.say(f"GET {path}")
    first = await call("get", *server.where, path, "1", "0")
    said = await call("get", *server.where, path, "1", str(size.asking_seconds / 5))
    others = sum(said["statuses"].values()) - said["statuses"].get("200", 0)
    if others:
        report.line(f"  {path}", f"{others} not 200", *at_most(others, 0))
        return
    cold = 1_000 * first["took"][0]
    middle = 1_000 * statistics.median(said["took"])
    shown = path if len(path) < 49 else f"…{path[-47:]}"
    report.timed(f"  {shown}", f"{cold:.0f} / {middle:.0f}", *at_most(middle, target, "p50 "))


async def _idle(server: Server, size: Size, report: Report) -> None:
    """CPU of a server whose pages are open while nothing happens."""
    report.say(f"{size.pages} idle pages")
    seconds = size.idle_seconds
    process = await _follow(server, [f"/api/changes?seconds={seconds + 30:g}"] * size.pages)
    began, before = time.perf_counter(), server.cpu_seconds()
    await asyncio.sleep(seconds)
    share = 100 * (server.cpu_seconds() - before) / (time.perf_counter() - began)
    process.kill()
    await process.wait()
    name = f"pages  CPU of a server with {size.pages} that are idle, %"
    report.timed(name, f"{share:.1f}", *at_most(share, _IDLE_CPU_MAX))


async def _busy(arena: Arena, size: Size, report: Report) -> None:
    """Steps per second of a worker process, with and without open pages."""
    alone: list[float] = []
    seen: list[float] = []
    with arena.database() as url:
        async with opened(url, serves=False) as bench, workers(url, 1), serving(url) as server:
            for round_ in range(size.following_rounds):
                report.say(f"open pages, round {round_ + 1}")
                alone.append(await crowd(bench, size))
                seen.append(await _seen(bench, size, server))
    slower = statistics.median(a / s for a, s in zip(alone, seen, strict=True))
    report.line(f"pages  {size.pages} that are open, steps/s of the worker", f"{statistics.median(seen):,.0f}")
    report.timed("pages  times slower than without them", f"{slower:.2f}", *at_most(slower, _SLOWER_MAX))


async def _seen(bench: Bench, size: Size, server: Server) -> float:
    """Steps per second while all pages follow all runs."""
    process = await _follow(server, ["/api/changes?seconds=600"] * size.pages)
    try:
        return await crowd(bench, size)
    finally:
        process.kill()
        await process.wait()


async def _follow(server: Server, paths: list[str]) -> Process:
    """A process that follows these paths, once all of them have been answered."""
    process = await run_module("bench.callers", "follow", *server.where)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(paths).encode() + b"\n")
    await process.stdout.readline()
    return process
