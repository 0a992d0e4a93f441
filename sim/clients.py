"""Clients and operators: they start, signal, cancel, look, retry and resume, and remember what they were promised."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from sim.coroutines import at_once
from sim.interpreter import PROGRAM
from sim.process import Interrupted, Process, ProcessDied
from sim.programs import walk
from stepwell.clock import span
from stepwell.errors import AlreadyExistsError, NotFoundError, RunError, StoreUnavailableError
from stepwell.model.failures import decode_failure
from stepwell.model.runs import Run
from stepwell.model.signals import Delivery
from stepwell.model.states import TERMINAL, RunStatus, WaitKind

if TYPE_CHECKING:
    from sim.world import World

# Restarts, replies and a clock that was set back take their time.
SLACK = 25.0
UNKNOWN = (ProcessDied, Interrupted, StoreUnavailableError)


@dataclass(slots=True)
class Order:
    """One program that a client wants run, and what it was told."""

    program: dict[str, Any]
    key: str | None
    run_id: str | None
    told: set[str] = field(default_factory=set)  # run ids that were acknowledged


def _names(program: dict[str, Any]) -> list[str]:
    """The signals that a program waits for, and one that it may not."""
    return [name for node in walk(program) for name in node.get("names", ())] + ["c"]


class Clients:
    """All that comes from outside in one seed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = random.Random(world.rng.getrandbits(64))
        self.orders: list[Order] = []
        self.signals_told: dict[str, Delivery] = {}  # by mark
        self.marks: dict[str, str] = {}  # mark -> target
        self.cancels_told: dict[str, bool] = {}
        self.touched: set[str] = set()  # runs that somebody cancelled, or tried to
        self.retried: set[str] = set()
        self.unfinished = 0
        self._marks = 0

    # --- while there are faults ---

    async def run(self) -> None:
        """Everything that clients do while things go wrong."""
        rng = self.rng
        if self.world.is_quiet:
            self.orders = [Order(program, f"key {index}", None) for index, program in enumerate(self.world.programs)]
            await asyncio.gather(*(self._place(order) for order in self.orders))
            await self._wait_quietly()
            return
        for index, program in enumerate(self.world.programs):
            key = rng.choice((None, f"Key {index}", f"key {index}"))
            run_id = f"own-{index}" if rng.random() < 0.2 else None
            self.orders.append(Order(program, key, run_id))
        await asyncio.gather(*(self._story(order) for order in self.orders), self._idle_talk())

    async def _wait_quietly(self) -> None:
        """Send what is waited for, and look after what stands still, until all is done."""
        until = self.world.loop.time() + self.world.shape.faulty_seconds
        while self.world.loop.time() < until:
            await asyncio.sleep(0.2)
            left = [row for row in self.world.checker.rows_now.values() if row.status not in TERMINAL]
            if not left:
                return
            await self._feed(left)

    async def _story(self, order: Order) -> None:
        """One order: placed, perhaps twice, signalled before, while and after it runs, perhaps cancelled."""
        rng = self.rng
        begin = rng.uniform(0, 2)
        acts = [self._later(begin, self._place(order))]
        if order.key and rng.random() < 0.4:
            acts.append(self._later(rng.uniform(0, 3), self._place(order)))
        for _ in range(rng.choice((0, 1, 2, 4, 6))):
            acts.append(self._later(self._soon(begin), self._send(order, rng.choice((None, None, "once")))))
        if rng.random() < 0.35:
            acts.append(self._later(self._soon(begin), self._cancel(order)))
        if rng.random() < 0.4:
            acts.append(self._later(self._soon(begin), self._look(order)))
        if rng.random() < 0.3:
            acts.append(self._later(self._soon(begin), self._await(order)))
        if rng.random() < 0.15:
            acts.append(self._later(self._soon(begin), self._evict(order)))
        await asyncio.gather(*acts)

    def _soon(self, begin: float) -> float:
        """A time at which something is likely to be going on; sometimes any time."""
        rng = self.rng
        return rng.uniform(0, 5) if rng.random() < 0.3 else begin + rng.expovariate(1 / 0.5)

    async def _later(self, seconds: float, act: Any) -> None:
        await asyncio.sleep(seconds)
        await act

    async def _ask(self, question: Any, *, is_cancellable: bool = True) -> Any:
        """Ask some process that lives."""
        process = await self._somebody()
        mix = self.world.mix
        cancel_after = None
        if is_cancellable and self.world.are_faults_on and self.rng.random() < mix.cancelled_calls:
            cancel_after = self.rng.choice((0.0, 0.0005, 0.001, 0.01))
            self.world.stats["calls cancelled"] += 1
        return await process.ask(question, cancel_after=cancel_after)

    async def _somebody(self) -> Process:
        while True:
            ready = [one for one in self.world.processes.values() if one.is_ready and not one.lane.is_paused]
            if ready:
                return self.rng.choice(ready)
            await asyncio.sleep(0.05)

    async def _place(self, order: Order) -> None:
        for _ in range(50):
            try:
                handle = await self._ask(
                    lambda engine: engine.start(PROGRAM, order.program, key=order.key, run_id=order.run_id)
                )
            except UNKNOWN:
                if order.key is None and order.run_id is None:
                    return  # asking again would be another run
                await asyncio.sleep(0.1)
            except AlreadyExistsError:
                return
            else:
                self._told(order, handle)
                return

    def _told(self, order: Order, handle: Any) -> None:
        world = self.world
        if handle.run_id not in world.checker.rows_now:
            world.violate("I14", handle.run_id, "a start was acknowledged, and there is no such run")
        # A successor in a chain has an input of its own.
        if not handle.same_input and world.checker.rows_now[handle.run_id].generation == 1:
            world.violate("I14", handle.run_id, "the same start was reported as another input")
        order.told.add(handle.run_id)
        if order.key is not None and len(order.told) > 1 and not self._is_chain(order.told):
            world.violate("I14", handle.run_id, f"one key within its window gave {sorted(order.told)}")

    def _is_chain(self, told: set[str]) -> bool:
        """Whether all of them are one chain of continue-as-new."""
        rows = self.world.checker.rows_now
        roots = set()
        for run_id in told:
            row = rows[run_id]
            while row.previous is not None:
                row = rows[row.previous.run_id]
            roots.add(row.run_id)
        return len(roots) == 1

    def _target(self, order: Order) -> str | None:
        if order.key is not None and self.rng.random() < 0.5:
            return order.key
        return sorted(order.told)[0] if order.told else order.run_id

    async def _send(self, order: Order, dedup: str | None) -> None:
        target = self._target(order)
        if target is None:
            return
        self._marks += 1
        mark = f"s{self._marks}"
        name = self.rng.choice(_names(order.program))
        if_missing = "hold" if target == order.key else "drop"
        self.marks[mark] = target
        for _ in range(1 if dedup is None else self.rng.randint(1, 3)):
            try:
                answer = await self._ask(
                    lambda engine: engine.signal(
                        target, name, {"mark": mark}, dedup_key=dedup and mark, if_missing=if_missing
                    )
                )
            except UNKNOWN:
                await asyncio.sleep(0.05)
                continue
            if answer is not Delivery.DUPLICATE or mark not in self.signals_told:
                self.signals_told.setdefault(mark, answer)
            if answer is Delivery.DELIVERED and not self.world.checker.signals.stores[mark]:
                self.world.violate("I21", target, f"signal {mark} was acknowledged and is not stored")

    async def _cancel(self, order: Order) -> None:
        target = self._target(order)
        if target is None:
            return
        compensate = self.rng.random() < 0.6
        family = self.rng.random() < 0.3
        rows = self.world.checker.rows_now
        if family:
            active = sorted(run_id for run_id, row in rows.items() if row.status not in TERMINAL)
            target = self.rng.choice(active) if active else target
        self.touched.add(target)
        try:
            done = await self._ask(lambda engine: engine.cancel(target, "not needed", compensate=compensate))
        except (*UNKNOWN, NotFoundError):
            return
        if done and target in rows:
            self.cancels_told[target] = compensate

    async def _look(self, order: Order) -> None:
        target = self._target(order)
        if target is None:
            return
        try:
            await self._ask(lambda engine: engine.status(target))
            await self._ask(lambda engine: engine.explain(target))
            await self._ask(lambda engine: engine.history(target))
        except (*UNKNOWN, NotFoundError):
            return

    async def _await(self, order: Order) -> None:
        """Wait for a result; what is told is what is stored, and stays so."""
        target = self._target(order)
        if target is None:
            return
        try:
            value = await self._ask(lambda engine: engine.result(target, timeout=self.rng.choice((0.5, 5.0))))
        except (*UNKNOWN, NotFoundError, RunError):
            return
        stored = [
            row for row in self.world.checker.rows_now.values() if row.status is RunStatus.COMPLETED and row.output
        ]
        if value not in [msgspec.json.decode((row.output or b"?null")[1:]) for row in stored]:
            self.world.violate("I11", target, "a result was told that is not stored")

    async def _evict(self, order: Order) -> None:
        target = self._target(order)
        if target is None:
            return
        try:
            await self._ask(lambda engine: engine.evict(target))
        except (*UNKNOWN, NotFoundError):
            return

    async def _idle_talk(self) -> None:
        """Operators look around while things go wrong."""
        for _ in range(self.rng.randint(0, 3)):
            await asyncio.sleep(self.rng.uniform(0.5, 2.0))
            try:
                await self._ask(lambda engine: engine.recover())
            except UNKNOWN:
                pass
            if self.rng.random() < 0.5:
                await self._operate(self.rng.random() < 0.5)

    # --- when the faults have stopped ---

    async def settle(self, seconds: float) -> None:
        """Operators and clients do their part until every run has ended."""
        world = self.world
        until = world.loop.time() + seconds
        while not world.checker.violations:
            await asyncio.sleep(0.5)
            left = [row for row in world.checker.rows_now.values() if row.status not in TERMINAL]
            if not left and not await self._operate(True):
                return
            if world.loop.time() > until:
                self._report_unfinished(left)
                return
            self._check_progress(left)
            await self._operate(True)
            await self._feed(left)

    def _check_progress(self, left: list[Run]) -> None:
        """Long after the last fault, nothing belongs to the dead, and nothing that is ready lies about."""
        world, checker = self.world, self.world.checker
        settings = world.shape.settings
        bound = settings.lease_span / 1e6 + 2 * span(settings.sweep_every) / 1e6 + SLACK
        if world.loop.time() < world.calm_at + bound:
            return
        for row in left:
            owner = checker.incarnations.get(row.owner or "")
            if owner is not None and owner.lane.is_dead:
                world.violate("L2", row.run_id, f"still owned by {owner.name}, which died long ago")
            if row.wake_at is not None and row.wake_at < checker.inspector.now() - bound * 1e6:
                world.violate("L2", row.run_id, f"ready since {row.wake_at}, and nobody takes it")

    def _report_unfinished(self, left: list[Run]) -> None:
        self.unfinished = len(left)
        for row in left:
            due = (
                ""
                if row.wake_at is None
                else f", due in {(row.wake_at - self.world.checker.inspector.now()) / 1e6:.3f} s"
            )
            self.world.violate("L1", row.run_id, f"still {row.status} (epoch {row.epoch}, owner {row.owner}{due})")

    async def _operate(self, is_mending: bool) -> bool:
        """Resume what was set aside and retry what failed; whether anything was."""
        acted = False
        for row in tuple(self.world.checker.rows_now.values()):
            match row.status:
                case RunStatus.PAUSED:
                    acted |= await self._resume(row)
                case RunStatus.COMPENSATION_FAILED if is_mending:
                    acted |= bool(await self._try(lambda engine, at=row.run_id: engine.resume_rollback(at)))
                case RunStatus.FAILED if row.run_id not in self.retried and self._may_retry(row):
                    self.retried.add(row.run_id)
                    acted |= bool(await self._try(lambda engine, at=row.run_id: engine.retry(at)))
                case _:
                    pass
        return acted

    def _may_retry(self, row: Run) -> bool:
        failure = decode_failure(row.failure) if row.failure else None
        return row.parent is None and failure is not None and "until mended" in failure.message

    async def _resume(self, row: Run) -> bool:
        failure = decode_failure(row.failure) if row.failure else None
        if failure is None or failure.code != "SW202":
            self.world.violate("I9", row.run_id, f"paused: {failure.summary if failure else 'nobody knows why'}")
            return False
        self.world.mend(row.run_id)
        self.world.stats["set aside"] += 1
        return bool(await self._try(lambda engine: engine.resume(row.run_id)))

    async def _try(self, question: Any) -> Any:
        try:
            return await self._ask(question, is_cancellable=False)
        except (*UNKNOWN, NotFoundError):
            return False

    async def _feed(self, left: list[Run]) -> None:
        """Send what runs wait for without a deadline."""
        for row in left:
            if row.status is not RunStatus.WAITING or row.wake_at is not None:
                continue
            detail = at_once(self.world.checker.inspector.views.detail(row.run_id))
            waits = detail.history.waits if detail is not None else ()
            for wait in waits:
                if wait.kind is WaitKind.SIGNAL:
                    self._marks += 1
                    mark, name = f"s{self._marks}", wait.names[0] if wait.names else "c"
                    self.marks[mark] = row.run_id
                    answer = await self._try(
                        lambda engine, name=name, mark=mark: engine.signal(
                            row.run_id, name, {"mark": mark}, if_missing="drop"
                        )
                    )
                    if answer:
                        self.signals_told[mark] = answer
