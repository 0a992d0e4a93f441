"""What people and programs touch: `stepwell ls` of a grown database, and the HTTP API while a worker is busy."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from bench.arenas import Arena
from bench.latency import percentiles
from bench.multiply import multiply
from bench.probes import Bench, opened
from bench.processes import run_module, workers
from bench.report import Report, at_least, at_most
from bench.sizes import Size
from bench.workflows import breaking, held_back, looking_out, sequence
from stepwell import Start

_ROOT = Path(__file__).resolve().parents[1]
_LS_SECONDS_MAX = 0.5
_GET_MS_MAX, _GET_RATE_MIN = 20, 300
_SLOWER_MAX = 1.1
_CONNECTIONS = 4
# Plain cases, and such as match a few runs among the oldest.
_FILTERS = (
    "",
    "status:failed",
    "status:completed",
    "workflow:looking_out",
    "workflow:look*",
    "workflow:sequence sort:-ended",
    "tag:team=blue",
    "since:1h",
    "key:order-1",
    "sort:-started",
    "sort:took",
)


async def surfaces(arena: Arena, size: Size, report: Report) -> None:
    """The command line, then the API."""
    await listing(arena, size, report)
    await asking(arena, size, report)
    await following(arena, size, report)


async def listing(arena: Arena, size: Size, report: Report) -> None:
    """Seconds from the start of the process to its end, for the first page of a large database."""
    with arena.database() as url:
        async with opened(url) as bench:
            broken = await bench.engine.start(breaking)
            await bench.engine.start(looking_out, key="order-1", tags={"team": "blue"})
            await bench.until("failed", 1)
            await bench.until("waiting", 1)
            done = await bench.engine.start(sequence, 3)
            await done.result()
            del broken
        report.say(f"ls: {size.ended:,} runs are made")
        multiply(url, done.run_id, size.ended)
        report.line(f"ls  first page of {size.ended:,} runs, whole process, s", "p50")
        # As an installed package: with its bytecode.
        with TemporaryDirectory(prefix="stepwell-bench-") as folder:
            environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
            environment["PYTHONPYCACHEPREFIX"] = folder
            await _timed(url, environment, "ls")
            for where in _FILTERS:
                report.say(f"ls {where}")
                took = [await _timed(url, environment, "ls", "--where", where) for _ in range(size.listings)]
                middle = statistics.median(took)
                report.timed(
                    f"ls    {where or 'everything'}",
                    f"{middle:.2f}",
                    *at_most(middle, _LS_SECONDS_MAX),
                )


async def _timed(url: str, environment: Mapping[str, str], *words: str) -> float:
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *_command(url, *words), cwd=_ROOT, env=environment, stdout=PIPE, stderr=PIPE
    )
    said, _ = await process.communicate()
    if process.returncode or not said:
        raise RuntimeError(f"stepwell {' '.join(words)} ended with {process.returncode} and {len(said)} bytes")
    return time.perf_counter() - began


def _command(url: str, *words: str) -> list[str]:
    return [sys.executable, "-m", "stepwell.cli.main", "--db", url, *words]


async def asking(arena: Arena, size: Size, report: Report) -> None:
    """`GET /api/runs` of one server process, while a worker process executes one run after the other."""
    with arena.database() as url:
        async with opened(url, serves=False) as bench, workers(url, 1), serving(url) as server:
            await bench.engine.runs.start_many(sequence, [Start(size.busy_steps)] * size.busy)
            await bench.until("running", 1)
            report.say("GET /api/runs")
            path = "/api/runs?limit=50"
            said = await call("get", *server.where, path, str(_CONNECTIONS), str(size.asking_seconds))
            still = bench.probe.count("running")
    p50, p99 = percentiles(said["took"])
    rate = len(said["took"]) / said["seconds"]
    others = len(said["took"]) - said["statuses"].get("200", 0)
    report.line("GET /api/runs  answers that are not 200", f"{others}", *at_most(others, 0))
    report.timed(
        f"GET /api/runs  {_CONNECTIONS} connections, busy worker, p50/p99 ms",
        f"{p50:.1f} / {p99:.1f}",
        *at_most(p50, _GET_MS_MAX, "p50 "),
    )
    report.timed("GET /api/runs  requests/s", f"{rate:,.0f}", *at_least(rate, _GET_RATE_MIN))
    report.detail(f"{still} runs were still at work afterwards")


async def following(arena: Arena, size: Size, report: Report) -> None:
    """Steps per second of a worker process, with and without clients that each follow one of its runs."""
    alone: list[float] = []
    seen: list[float] = []
    events = 0
    with arena.database() as url:
        async with opened(url, serves=False) as bench, workers(url, 1), serving(url) as server:
            for round_ in range(size.following_rounds):
                report.say(f"SSE, round {round_ + 1}")
                alone.append(await crowd(bench, size))
                told: list[Process] = []
                seen.append(await crowd(bench, size, told, server.where))
                events += json.loads((await told[0].communicate())[0])["events"]
    slower = statistics.median(a / s for a, s in zip(alone, seen, strict=True))
    name = f"SSE  {size.followers:,} clients, each follows one of {size.crowd:,} runs"
    report.line(f"{name}, steps/s", f"{statistics.median(seen):,.0f}")
    report.timed("SSE  times slower than without them", f"{slower:.2f}", *at_most(slower, _SLOWER_MAX))
    report.detail(f"{events / size.following_rounds / size.followers:.1f} events for a client in each round")


async def crowd(bench: Bench, size: Size, told: list[Process] | None = None, where: Sequence[str] = ()) -> float:
    """Steps per second of runs that are let go at one moment."""
    before = bench.probe.count("completed")
    started = await bench.engine.runs.start_many(held_back, [Start(size.followed_steps)] * size.crowd)
    await bench.until("waiting", size.crowd)
    if told is not None:
        process = await run_module("bench.callers", "follow", *where)
        assert process.stdin is not None
        assert process.stdout is not None
        paths = [f"/api/runs/{one.run_id}/changes" for one in started[: size.followers]]
        process.stdin.write(json.dumps(paths).encode() + b"\n")
        await process.stdout.readline()
        told.append(process)
    began = time.perf_counter()
    await asyncio.gather(*(bench.engine.signal(one.run_id, "go") for one in started))
    await bench.until("completed", before + size.crowd)
    return size.crowd * size.followed_steps / (time.perf_counter() - began)


class Server:
    """A server process."""

    def __init__(self, process: Process, url: str) -> None:
        said = urlsplit(url)
        self.where = (str(said.hostname), str(said.port))
        self._stat = Path(f"/proc/{process.pid}/stat")

    def cpu_seconds(self) -> float:
        """What it has used so far, in and for itself; 0 where that is not told."""
        if not self._stat.exists():
            return 0.0
        fields = self._stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def serving(url: str) -> AsyncIterator[Server]:
    """A server process on a free port of loopback."""
    process = await asyncio.create_subprocess_exec(
        *_command(url, "serve", "--port", "0", "-o", "json"), cwd=_ROOT, stdout=PIPE
    )
    try:
        assert process.stdout is not None
        yield Server(process, json.loads(await process.stdout.readline())["url"])
    finally:
        process.terminate()
        await process.wait()


async def call(*words: str) -> Any:
    """What a caller in a process of its own has found."""
    process = await run_module("bench.callers", *words)
    said, _ = await process.communicate(b"")
    return json.loads(said)
