"""The workloads, written once: every peer is asked for the same things in the same order."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, cast

from bench.peers.drivers.notes import NOTES
from bench.peers.drivers.talk import Talk

STARTS_AT_ONCE = 64
"""How many calls that start a run are under way at one time, for every peer."""
_SETTLE_SECONDS = 1.5  # from a wait that the code has come to, to one that is durable


class Adapter(Protocol):
    """A peer: it knows the workflows by these names.

    `sequence` N trivial steps; `noted` N steps that are noted in the file; `waiting` waits for the
    signal, then one step; `sleeping` sleeps N seconds; `long` N trivial steps, then it waits for the signal.
    """

    waits_at_once: int  # how many results may be waited for at one time

    async def open(self, order: dict[str, Any]) -> None:
        """Connect and serve."""
        ...

    async def close(self) -> None:
        """Leave as one leaves in production; what waits goes on waiting."""
        ...

    async def start(self, kind: str, run: str, argument: int) -> None:
        """Start a run: it is durable when this returns, or as soon as the peer allows."""
        ...

    async def run(self, kind: str, run: str, argument: int) -> None:
        """Start a run and wait for its end, in the quickest way that the peer has for one run."""
        ...

    async def result(self, run: str) -> None:
        """Wait for the end of a run that anybody may have started."""
        ...

    async def signal(self, run: str) -> None:
        """Send what a waiting run waits for."""
        ...


class Bulk(Protocol):
    """A peer that starts many runs with one call."""

    async def start_many(self, kind: str, runs: list[str], argument: int) -> None:
        """Start them all with one call."""
        ...


class Told(Exception):  # noqa: N818  not an error: the peer cannot do this, and says why
    """Why there is no figure."""


def percentiles(seconds: Iterable[float]) -> dict[str, float]:
    """p50 and p99 in milliseconds."""
    ordered = sorted(seconds)
    return {"p50_ms": ordered[len(ordered) // 2] * 1_000, "p99_ms": ordered[len(ordered) * 99 // 100] * 1_000}


async def start_each(peer: Adapter, kind: str, runs: list[str], argument: int) -> None:
    """Start them with one call each, `STARTS_AT_ONCE` at a time."""
    left = iter(runs)

    async def caller() -> None:
        for run in left:
            await peer.start(kind, run, argument)

    await asyncio.gather(*(caller() for _ in range(STARTS_AT_ONCE)))


async def gather_results(peer: Adapter, runs: list[str]) -> None:
    """Wait for all of them."""
    room = asyncio.Semaphore(peer.waits_at_once)

    async def one(run: str) -> None:
        async with room:
            await peer.result(run)

    await asyncio.gather(*(one(run) for run in runs))


def _names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


async def _until_reached(count: int) -> None:
    while NOTES.reached < count:  # noqa: ASYNC110  only the workflows know
        await asyncio.sleep(0.02)
    await asyncio.sleep(_SETTLE_SECONDS)


async def _warm_up(peer: Adapter) -> None:
    await peer.start("sequence", "warm-0", 20)
    await peer.result("warm-0")


async def w1(peer: Adapter, order: dict[str, Any], talk: Talk) -> dict[str, float]:
    """One run of sequential steps."""
    await _warm_up(peer)
    talk.mark("begin")
    began = time.perf_counter()
    await peer.start("sequence", "one", order["steps"])
    await peer.result("one")
    took = time.perf_counter() - began
    talk.mark("end")
    return {"steps_per_s": order["steps"] / took, "units": order["steps"]}


async def w2(peer: Adapter, order: dict[str, Any], talk: Talk) -> dict[str, float]:
    """Many short runs: each started by a call of its own, or all by one call if the order says `bulk`."""
    await _warm_up(peer)
    runs, steps = _names("crowd", order["runs"]), order["runs"] * order["steps"]
    talk.mark("begin")
    began = time.perf_counter()
    if order.get("bulk"):
        await cast("Bulk", peer).start_many("sequence", runs, order["steps"])
    else:
        await start_each(peer, "sequence", runs, order["steps"])
    await gather_results(peer, runs)
    took = time.perf_counter() - began
    talk.mark("end")
    return {"steps_per_s": steps / took, "runs_per_s": len(runs) / took, "units": steps}


async def w3(peer: Adapter, order: dict[str, Any], talk: Talk) -> dict[str, float]:
    """Start to result, one after the other, for as long as there is time."""
    await _warm_up(peer)
    times: list[float] = []
    talk.mark("begin")
    until = time.monotonic() + order["seconds"]
    for run in _names("short", order["runs"]):
        began = time.perf_counter()
        await peer.run("sequence", run, 1)
        times.append(time.perf_counter() - began)
        if time.monotonic() > until:
            break
    talk.mark("end")
    return {**percentiles(times), "units": len(times)}


async def w4(peer: Adapter, order: dict[str, Any], talk: Talk) -> dict[str, float]:
    """Signal to result, one after the other, for as long as there is time. The result is asked for together with the
    signal: a client that is far from its server needs one round trip for both.
    """
    runs, times = _names("waits", order["runs"]), []
    await start_each(peer, "waiting", runs, 0)
    await _until_reached(len(runs))
    talk.mark("begin")
    until = time.monotonic() + order["seconds"]
    for run in runs:
        began = time.perf_counter()
        await asyncio.gather(peer.signal(run), peer.result(run))
        times.append(time.perf_counter() - began)
        if time.monotonic() > until:
            break
    talk.mark("end")
    return {**percentiles(times), "units": len(times)}


async def w5(peer: Adapter, order: dict[str, Any], talk: Talk) -> dict[str, float]:
    """How long after a sleep is over the code goes on; the sleep begins where the code calls it."""
    runs, seconds = _names("naps", order["runs"]), order["seconds"]
    talk.mark("begin")
    await start_each(peer, "sleeping", runs, seconds)
    while len(NOTES.woke_at) < len(runs):  # noqa: ASYNC110  nobody asks for results meanwhile: that is work, too
        await asyncio.sleep(0.1)
    talk.mark("end")
    late = (NOTES.woke_at[run] - NOTES.slept_at[run] - seconds for run in runs)
    # Who starts slowly has sleeps that end one after the other, which is easier.
    over = max(NOTES.slept_at.values()) - min(NOTES.slept_at.values())
    return {**percentiles(late), "units": len(runs), "over_s": over}


async def w6(peer: Adapter, order: dict[str, Any], talk: Talk) -> dict[str, float]:
    """Many runs; whoever started this process kills it in the middle, and starts it again with `recover`."""
    runs = _names("crash", order["runs"])
    if not order.get("recover"):
        talk.say(starting=True)
        await start_each(peer, "noted", runs, order["steps"])
        talk.say(started=True)
    await gather_results(peer, runs)
    return {"units": len(runs)}


async def w7(peer: Adapter, order: dict[str, Any], talk: Talk) -> dict[str, float]:
    """Runs that only wait: what they hold in memory, and what they cost while nothing happens."""
    first, runs = _names("first", order["runs"] // 5), _names("waits", order["runs"])
    NOTES.expect(first + runs)
    await start_each(peer, "waiting", first, 0)
    await _until_reached(len(first))
    talk.mark("before")
    began = time.perf_counter()
    await start_each(peer, "waiting", runs, 0)
    await _until_reached(len(first) + len(runs))
    took = time.perf_counter() - began - _SETTLE_SECONDS
    await asyncio.sleep(order["settle"])
    talk.mark("begin")
    await asyncio.sleep(order["idle"])
    talk.mark("end")
    return {"units": len(runs), "starts_per_s": len(runs) / took, "stored": len(first) + len(runs)}


async def w8(peer: Adapter, order: dict[str, Any], talk: Talk) -> dict[str, float]:
    """One run at several lengths, and a long one that is left waiting for the next process, which has `resume`."""
    if order.get("resume"):
        began = time.perf_counter()
        await peer.signal("long")
        await peer.result("long")
        return {"resume_s": time.perf_counter() - began, "units": order["history"]}
    await _warm_up(peer)
    rates: dict[str, float] = {}
    for steps in order["lengths"]:
        began = time.perf_counter()
        await peer.start("sequence", f"length-{steps}", steps)
        await peer.result(f"length-{steps}")
        rates[f"steps_per_s_{steps}"] = steps / (time.perf_counter() - began)
        talk.say(length=steps)
    await peer.start("long", "long", order["history"])
    await _until_reached(1)
    await asyncio.sleep(order["settle"])
    return {**rates, "units": sum(order["lengths"])}


WORKLOADS: dict[str, Callable[[Adapter, dict[str, Any], Talk], Awaitable[dict[str, float]]]] = {
    "W1": w1,
    "W2": w2,
    "W3": w3,
    "W4": w4,
    "W5": w5,
    "W6": w6,
    "W7": w7,
    "W8": w8,
}


def main(peer: Adapter) -> None:
    """Do what the order on the command line says, and tell the figures."""
    talk, order = Talk(), json.loads(sys.argv[1])
    if "log" in order:
        NOTES.open(order["log"])
    Path(order["folder"]).mkdir(exist_ok=True)

    async def work() -> None:
        await peer.open(order)
        try:
            figures = await WORKLOADS[order["workload"]](peer, order, talk)
        except Told as why:
            talk.say(refused=str(why))
        else:
            talk.say(figures=figures)
        # A process with long histories may need a while to leave; nobody measures that.
        await peer.close()

    asyncio.run(work())
