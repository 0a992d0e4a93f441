"""Worker processes: `python -m bench.processes URL` serves until its input ends, and answers each line with counts."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.probes import Asked, opened

_ROOT = Path(__file__).resolve().parents[1]


class Workers:
    """Processes that serve."""

    def __init__(self, processes: list[Process]) -> None:
        self._processes = processes

    async def asked(self) -> Asked:
        """What all of them have asked for so far."""
        total: Asked = Counter()
        for process in self._processes:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"\n")
            answer = await process.stdout.readline()
            if not answer:
                raise RuntimeError(f"a worker process ended with exit code {await process.wait()}")
            total.update(json.loads(answer))
        return total


@asynccontextmanager
async def workers(url: str, count: int) -> AsyncIterator[Workers]:
    """So many worker processes that serve already; they are gone afterwards."""
    processes = [await run_module("bench.processes", url) for _ in range(count)]
    try:
        started = Workers(processes)
        await started.asked()
        yield started
        for process in processes:
            await process.communicate(b"")
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def run_module(module: str, *arguments: str) -> Process:
    """Start one of the benchmark's own programs."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, cwd=_ROOT, stdin=PIPE, stdout=PIPE
    )


async def _serve(url: str, lease: float = 10.0) -> None:
    async with opened(url, lease=lease) as bench:
        while await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(bench.probe.asked()), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], *map(float, sys.argv[2:])))
