"""Runs the driver of one participant through one workload, looks at the processes where the driver asks for it, and
kills it where the workload says so.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bench.peers.catalogue import Participant
from bench.peers.environments import ROOT, python_of
from bench.peers.observing import Usage, usage
from bench.peers.places import Spot

Figures = dict[str, float]

MEASURE_SECONDS = 120.0
"""Nobody is given more for one measure."""
_LEAVE_SECONDS = 10.0


class RefusedError(Exception):
    """There is no figure; the message says why."""


class Look(NamedTuple):
    """At one mark."""

    driver: Usage
    servers: Usage
    stored: int


@dataclass
class Seen:
    """What one driver process told, and what was seen of it."""

    figures: Figures = field(default_factory=dict)
    looks: dict[str, Look] = field(default_factory=dict)


async def measure(participant: Participant, workload: str, spot: Spot) -> Figures:
    """One workload through one participant, in its own place: the figures.

    Raises RefusedError.
    """
    order = {**participant.order(workload), **spot.order}
    try:
        async with asyncio.timeout(MEASURE_SECONDS):
            if workload == "W6":
                return await _killed(participant, order, spot)
            seen = await _driven(participant, order, spot)
            if workload == "W8":
                again = await _driven(participant, {**order, "resume": True}, spot)
                return _lengths(order, seen.figures, again.figures)
            return {**seen.figures, **_used(order, seen, spot)}
    except TimeoutError:
        raise RefusedError(f"not done after {MEASURE_SECONDS:.0f} s") from None


def _lengths(order: dict[str, Any], rates: Figures, resumed: Figures) -> Figures:
    """The rates of the shortest and the longest, and how fast a history was gone through again."""
    first, last = (rates[f"steps_per_s_{steps}"] for steps in (order["lengths"][0], order["lengths"][-1]))
    seconds = resumed["resume_s"]
    return {
        **rates,
        "first_per_s": first,
        "last_per_s": last,
        "resume_s": seconds,
        "resume_steps_per_s": resumed["units"] / seconds,
    }


def _used(order: dict[str, Any], seen: Seen, spot: Spot) -> Figures:
    """What the work took, from what was seen at its marks."""
    begin, end, units = seen.looks["begin"], seen.looks["end"], seen.figures["units"]
    driver, servers = end.driver.since(begin.driver), end.servers.since(begin.servers)
    cpu = driver.cpu + servers.cpu
    used: Figures = {
        "cpu_s": cpu,
        "cpu_driver_s": driver.cpu,
        "cpu_servers_s": servers.cpu,
        "cpu_ms": 1_000 * cpu / units,
    }
    if "idle" in order:
        before, held = seen.looks["before"], seen.looks["begin"]
        memory = held.driver.since(before.driver).memory
        if spot.holds_memory:
            memory += held.servers.since(before.servers).memory
        used["memory_kib"] = memory / 1_024 / units
        used["idle_cpu_percent"] = 100 * cpu / order["idle"]
        used["stored_bytes"] = (end.stored - before.stored) / units
    return used


async def _killed(participant: Participant, order: dict[str, Any], spot: Spot) -> Figures:
    """Kill the process in the middle of its work, start another, and count what was executed."""
    log = spot.folder / "steps.log"
    order, total = {**order, "log": str(log)}, order["runs"] * order["steps"]
    async with _process(participant, order, spot) as process:
        reading = asyncio.create_task(_read_until(process, "started"))
        while not reading.done() or len(_noted(log)) < total // 2:
            if process.returncode is not None or (reading.done() and reading.exception()):
                break
            await asyncio.sleep(0.01)
        await reading
        if len(_noted(log)) >= total:
            raise RefusedError("all was done before it could be killed")
        os.killpg(process.pid, signal.SIGKILL)
        killed_at = time.monotonic()
        await process.wait()
    before = len(_noted(log))
    async with _process(participant, {**order, "recover": True}, spot) as process:
        seen = await _listen(process, spot)
    seconds, lines = seen.figures["at"] - killed_at, _noted(log)
    distinct = len(set(lines))
    return {
        "recover_s": seconds,
        "again": len(lines) - distinct,
        "lost": total - distinct,
        "killed_after": before,
        "units": total,
    }


def _noted(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


async def _driven(participant: Participant, order: dict[str, Any], spot: Spot) -> Seen:
    async with _process(participant, order, spot) as process:
        return await _listen(process, spot)


async def _listen(process: Process, spot: Spot) -> Seen:
    """Until the driver has told its figures; it is left some time to leave."""
    seen = Seen()
    async for news in _news(process):
        if "mark" in news:
            seen.looks[news["mark"]] = Look(usage([process.pid]), usage(spot.servers), spot.size())
            assert process.stdin is not None
            process.stdin.write(b"\n")
        elif "figures" in news:
            seen.figures = {**news["figures"], "at": time.monotonic()}
            break
    try:
        async with asyncio.timeout(_LEAVE_SECONDS):
            await process.wait()
    except TimeoutError:
        pass  # it is killed
    return seen


async def _read_until(process: Process, word: str) -> None:
    async for news in _news(process):
        if word in news:
            return
        if "figures" in news:
            raise RefusedError("all was done before it could be killed")


async def _news(process: Process) -> AsyncIterator[dict[str, Any]]:
    """Line by line. Raises RefusedError when the driver says so, or ends without its figures."""
    assert process.stdout is not None
    while line := await process.stdout.readline():
        news = json.loads(line)
        if "refused" in news:
            raise RefusedError(news["refused"])
        yield news
    raise RefusedError(f"its driver ended with exit code {await process.wait()}")


@asynccontextmanager
async def _process(participant: Participant, order: dict[str, Any], spot: Spot) -> AsyncIterator[Process]:
    """The driver as a group of processes of its own, of which nothing is left afterwards."""
    path = os.pathsep.join(filter(None, (spot.path, os.environ.get("PATH", ""))))
    with (spot.folder / "driver.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            str(python_of(participant)),
            "-P",
            "-m",
            f"bench.peers.drivers.{participant.driver}",
            json.dumps(order),
            stdin=PIPE,
            stdout=PIPE,
            stderr=log,
            cwd=spot.folder,
            env={**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))},
            start_new_session=True,
        )
    try:
        yield process
    except RefusedError as error:
        said = (spot.folder / "driver.log").read_text(errors="replace").strip().splitlines()
        if "exit code" in str(error) and said:
            raise RefusedError(f"{error}: {said[-1][:200]}") from None
        raise
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
