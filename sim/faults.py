"""The store as a simulated process has it: every method is an edge at which something may go wrong.

Before the call: the process crashes or stalls, or the store refuses. After it: the process crashes before it hears,
stalls, or hears that the store did not answer. Hints get lost, late and double. What the real store did is seen by the
checker whatever the process is told.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stepwell.errors import StoreFullError, StoreUnavailableError
from stepwell.stores.base.wakeups import Hint, Listener

if TYPE_CHECKING:
    from sim.process import Process

READS = frozenset(
    {"load", "inbox", "find", "find_many", "find_by_prefix", "detail", "list_runs", "list_workers", "list_held"}
    | {
        "list_audit",
        "list_definitions",
        "tally_runs",
        "next_wake",
        "has_stranded",
        "upcoming_work",
        "orphans",
        "list_unread",
        "list_attribute_kinds",
        "find_question",
    }
    | {"list_holds", "list_acts"}
    | {"due", "count", "list_records"}
    | {"list_events", "next_due", "list_owed", "list_published", "list_streams", "read_stream", "list_progress"}
)
# Performing this twice takes more than the caller hears of: a duplicate of it is a lost acknowledgement.
# The work of a transaction is done by the caller's own process, once for each time that it asks.
_NOT_REPEATABLE = frozenset({"claim", "take", "perform"})
# How much likelier than others a call is to be hit: everything hangs on commits, and most of the talk is about leases.
_WEIGHTS = {"apply": 2.5, "perform": 2.5, "create": 1.5, "claim": 1.5, "cancel": 2.0, "renew": 0.5, "relinquish": 0.5}
_LATE = 0.3  # seconds, after which a worker that leaves gets the answer to what it had asked
_HARMLESS_READ_FAULTS = frozenset({"not_done", "crash_before", "pause_before", "pause_after", "crash_after"})


class FaultyWakeups:
    """Hints that may be lost, late or double, and reach the process in its own time."""

    def __init__(self, process: Process, inner: Any) -> None:
        self._process = process
        self._inner = inner
        self._rng = random.Random(process.world.rng.getrandbits(64))
        self._context = process.lane.context()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hear some of the hints from now on."""
        is_over = False

        def heard(hint: Hint) -> None:
            if not is_over and not self._process.lane.is_dead:
                self._pass_on(hint, deliver)

        def deliver(hint: Hint) -> None:
            if not is_over:
                listener(hint)

        stop = self._inner.listen(heard)

        def unlisten() -> None:
            nonlocal is_over
            is_over = True
            stop()

        return unlisten

    def _pass_on(self, hint: Hint, deliver: Listener) -> None:
        world, mix, rng = self._process.world, self._process.world.mix, self._rng
        is_on = world.are_faults_on or mix.name == "deaf"
        if is_on and rng.random() < mix.hints_dropped:
            world.stats["hints dropped"] += 1
            return
        if is_on and rng.random() < mix.hints_delayed:
            world.stats["hints delayed"] += 1
            world.loop.call_later(rng.uniform(0.001, 1.0), deliver, hint, context=self._context)
        else:
            world.loop.call_soon(deliver, hint, context=self._context)
        if is_on and rng.random() < mix.hints_doubled:
            world.stats["hints doubled"] += 1
            world.loop.call_later(rng.uniform(0.0, 0.5), deliver, hint, context=self._context)


class FaultyWire:
    """Carries the calls of one process to the store, more or less."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._rng = random.Random(process.world.rng.getrandbits(64))

    async def call(
        self, noun: str, method: str, bound: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Perform one call, with whatever goes wrong around it."""
        process, world = self._process, self._world
        is_read = method in READS
        process.requested(method, args)
        world.leaves.asked(process, method, args)
        fault = self._draw(noun, method, is_read)
        await self._linger()
        if not world.are_faults_on:
            fault = None
        world.outages.check(process)
        if world.outages.is_silent(process):
            if not is_read and self._rng.random() < 0.5:
                await world.perform(process, noun, method, bound, args, kwargs)
            await world.outages.wait_in_vain()
        if fault is not None:
            world.note_fault(fault, method, args)
        if fault == "crash_before":
            await process.crash_here()
        elif fault == "pause_before":
            await process.pause_here()
        elif fault == "not_done":
            raise StoreUnavailableError("simulated: the store did not answer, and did nothing")
        elif fault == "disk_full":
            raise StoreFullError("simulated: the disk is full")
        elif fault == "loop_ends" and process.is_worker:
            await world.outages.end_this_loop(process)
        elif fault == "leave" and process.is_worker and process.is_ready:
            world.leave(process, grace=5.0, following=1.0)
        answer = await world.perform(process, noun, method, bound, args, kwargs)
        if fault == "leave":
            await asyncio.sleep(_LATE)
        elif fault == "duplicate":
            await world.perform(process, noun, method, bound, args, kwargs)
        elif fault == "crash_after":
            await process.crash_here()
        elif fault == "pause_after":
            await process.pause_here()
        await self._linger()
        if fault == "ack_lost":
            raise StoreUnavailableError("simulated: the store did not answer, and had done it")
        process.answered(method, args, answer)
        world.leaves.answered(process, method, args)
        world.checker.heard(process, method, args, answer)
        return answer

    def _draw(self, noun: str, method: str, is_read: bool) -> str | None:
        world = self._world
        if not world.are_faults_on:
            return None
        # Where nobody keeps records, services only look whether there are any: single faults are not spent on that.
        is_idle = noun == "records" and not world.clients.desk.is_on
        shot = None if is_idle else world.shot(method)
        if shot is not None:
            return "ack_lost" if shot == "duplicate" and method in _NOT_REPEATABLE else shot
        weight = 0.2 if is_read else _WEIGHTS.get(method, 1.0)
        for fault, rate in world.mix.rates.items():
            if self._rng.random() >= rate * weight:
                continue
            if is_read and fault not in _HARMLESS_READ_FAULTS:
                return None
            if fault == "duplicate" and method in _NOT_REPEATABLE:
                return "ack_lost"
            if fault.startswith(("crash", "pause")) and not world.spend():
                return None
            return fault
        return None

    async def _linger(self) -> None:
        rng, mix = self._rng, self._world.mix
        chance = rng.random()
        if chance < mix.slow and self._world.are_faults_on:
            await asyncio.sleep(rng.random() * mix.slow_max)
        elif chance < 0.5:
            await asyncio.sleep(rng.random() * 0.002)
        elif chance < 0.75:
            await asyncio.sleep(0)
