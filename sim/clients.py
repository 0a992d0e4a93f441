"""Clients and operators: they start, signal, cancel, look, retry and resume, and remember what they were promised."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from sim.desk import Desk
from sim.interpreter import PROGRAM, TYPED
from sim.neighbours import NEVER
from sim.operators import Operators
from sim.pauses import Pauses
from sim.process import UNKNOWN, Process
from sim.programs import walk
from sim.starts import Starters, draw_description, draw_options
from sim.wakers import Wakers
from stepwell.errors import AlreadyExistsError, AskRefused, NotFoundError, RunError
from stepwell.model.signals import Delivery
from stepwell.model.states import TERMINAL, RunStatus

if TYPE_CHECKING:
    from sim.world import World


@dataclass(slots=True)
class Order:
    """One program that a client wants run, and what it was told."""

    program: dict[str, Any]
    key: str | None
    run_id: str | None
    told: set[str] = field(default_factory=set)  # run ids that were acknowledged
    options: dict[str, Any] = field(default_factory=dict)
    is_replaced: bool = False  # somebody started it in the place of itself


def _names(program: dict[str, Any]) -> list[str]:
    """The signals that a program waits for, and one that it may not."""
    return [name for node in walk(program) for name in node.get("names", ()) if name != NEVER] + ["c"]


def _headers(program: dict[str, Any]) -> dict[str, Any]:
    """The headers that a program says it was started with."""
    return {"headers": program["headers"]} if program.get("headers") else {}


class Clients:
    """All that comes from outside in one seed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = random.Random(world.rng.getrandbits(64))
        # A stream of its own, so that what is chosen by it leaves the stories of old seeds alike.
        self._side = random.Random(self.rng.getstate()[1][1])
        self.news = random.Random(f"news {world.seed}")  # apart, so that old seeds without events stay alike
        self.orders: list[Order] = []
        self.signals_told: dict[str, Delivery] = {}  # by mark
        self.marks: dict[str, str] = {}  # mark -> target
        self.cancels_told: dict[str, bool] = {}
        self.touched: set[str] = set()  # runs that somebody cancelled, or tried to
        self.operators = Operators(self)
        # A stream of its own, so that what is chosen by it leaves the rest of old seeds alike.
        self.side = random.Random(f"{world.seed}/starts")
        self.starters = Starters(self, self.side)
        self.pauses = Pauses(self)
        self.wakers = Wakers(self)
        self._said = random.Random(f"said {world.seed}")
        self.desk = Desk(self)
        self._misfits = random.Random(f"misfits {world.seed}")
        self._marks = 0
        self._events = 0
        self._sent: dict[tuple[str, str], str] = {}  # marks of what runs send, by run and path

    # --- while there are faults ---

    async def run(self) -> None:
        """Everything that clients do while things go wrong."""
        rng = self.rng
        if self.world.is_quiet:
            self.orders = [
                Order(program, f"key {index}", None, options=_headers(program))
                for index, program in enumerate(self.world.programs)
            ]
            await asyncio.gather(*(self._place(order) for order in self.orders))
            await self._wait_quietly()
            return
        for index, program in enumerate(self.world.programs):
            key = rng.choice((None, f"Key {index}", f"key {index}"))
            run_id = f"own-{index}" if rng.random() < 0.2 else None
            options = {**draw_options(self.side), **draw_description(self._said), **_headers(program)}
            self.orders.append(Order(program, key, run_id, options=options))
        debounced = [self.starters.debounce(one) for one in self.starters.debounced]
        stories = [self._story(order) for order in self.orders]
        await asyncio.gather(
            *stories,
            self._idle_talk(),
            *self._first_signals(),
            *debounced,
            *self.pauses.stories(),
            *self.wakers.stories(),
            *self.desk.stories(),
        )

    @property
    def has_limits(self) -> bool:
        """Whether any run may fail because its time is over."""
        return any("deadline" in order.options or "max_suspend" in order.options for order in self.orders)

    async def _wait_quietly(self) -> None:
        """Send what is waited for, and look after what stands still, until all is done."""
        until = self.world.loop.time() + self.world.shape.faulty_seconds
        while self.world.loop.time() < until:
            await asyncio.sleep(0.2)
            left = [row for row in self.world.checker.rows_now.values() if row.status not in TERMINAL]
            if not left:
                return
            await self.operators.feed(left)

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
        topics = [node["topic"] for node in walk(order.program) if "topic" in node]
        for _ in range(self.news.choice((1, 3, 6)) if topics else 0):
            acts.append(self._later(begin + self.news.expovariate(1 / 0.7), self._publish(self.news.choice(topics))))
        if rng.random() < 0.4:
            acts.append(self._later(self._soon(begin), self._look(order)))
        if rng.random() < 0.3:
            acts.append(self._later(self._soon(begin), self._await(order)))
        if rng.random() < 0.15:
            acts.append(self._later(self._soon(begin), self._evict(order)))
        acts += [
            self._later(self._side.uniform(0, 4), self._question(order)) for _ in range(self._side.choice((0, 0, 1, 3)))
        ]
        if order.key and self.side.random() < 0.15:
            acts.append(self._later(begin + self.side.expovariate(1 / 0.5), self.starters.replace(order)))
        await asyncio.gather(*acts)

    def _soon(self, begin: float) -> float:
        """A time at which something is likely to be going on; sometimes any time."""
        rng = self.rng
        return rng.uniform(0, 5) if rng.random() < 0.3 else begin + rng.expovariate(1 / 0.5)

    async def _later(self, seconds: float, act: Any) -> None:
        await asyncio.sleep(seconds)
        await act

    async def ask(self, question: Any, *, is_cancellable: bool = True) -> Any:
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
                handle = await self.ask(
                    lambda engine: engine.start(
                        PROGRAM, order.program, key=order.key, run_id=order.run_id, **order.options
                    )
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
        if order.is_replaced:
            return
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
        return self._target_by(self.rng, order)

    def _target_by(self, rng: random.Random, order: Order) -> str | None:
        if order.key is not None and rng.random() < 0.5:
            return order.key
        return sorted(order.told)[0] if order.told else order.run_id

    async def _send(self, order: Order, dedup: str | None) -> None:
        target = self._target(order)
        if target is None:
            return
        mark = self.new_mark(target)
        name = self.rng.choice(_names(order.program))
        if_missing, payload = "hold" if target == order.key else "drop", self._payload(name, mark)
        for _ in range(1 if dedup is None else self.rng.randint(1, 3)):
            try:
                answer = await self.ask(
                    lambda engine: engine.signal(target, name, payload, dedup_key=dedup and mark, if_missing=if_missing)
                )
            except UNKNOWN:
                await asyncio.sleep(0.05)
                continue
            if answer is not Delivery.DUPLICATE or mark not in self.signals_told:
                self.signals_told.setdefault(mark, answer)
            if answer is Delivery.DELIVERED and not self.world.checker.signals.stores[mark]:
                self.world.violate("I21", target, f"signal {mark} was acknowledged and is not stored")

    async def _question(self, order: Order) -> None:
        """Ask a run something; the answer is the one to this very question."""
        target = self._target_by(self._side, order)
        if target is None:
            return
        mark, name = self.new_mark(target), self._side.choice(_names(order.program))
        timeout, payload = self._side.choice((0.5, 5.0)), self._payload(name, mark)
        try:
            answer = await self.ask(lambda engine: engine.ask(target, name, payload, timeout=timeout, dedup_key=mark))
        except AskRefused as refused:
            answer = f"refused {mark}" if "size" in payload else refused.title
        except (*UNKNOWN, NotFoundError, AlreadyExistsError, RunError):
            return
        if answer not in ({"answer": mark}, f"refused {mark}") and "before it replied" not in answer:
            self.world.violate("I21", target, f"question {mark} was answered {answer!r}")
        self.world.stats["questions answered"] += 1

    def _first_signals(self) -> list[Any]:
        """Several clients at once, each with a signal for a run that may not be there yet."""
        if self._side.random() >= 0.3:
            return []
        receive = {"op": "receive_many", "id": "many1", "names": ["a"], "timeout": 2.0, "count": 2}
        program = {"body": {"op": "seq", "id": "seq2", "items": [receive]}, "ending": None, "continues": 0}
        count = self._side.randint(2, 4)
        return [self._later(self._side.uniform(0, 2), self._signal_or_start(program)) for _ in range(count)]

    async def _signal_or_start(self, program: dict[str, Any]) -> None:
        key = "first signals"
        mark = self.new_mark(key)
        try:
            handle = await self.ask(
                lambda engine: engine.runs.signal_or_start(PROGRAM, program, "a", {"mark": mark}, key=key)
            )
        except UNKNOWN:
            return
        self.signals_told[mark] = Delivery.DELIVERED
        if handle.run_id not in self.world.checker.rows_now or not self.world.checker.signals.stores[mark]:
            self.world.violate("I21", handle.run_id, f"signal {mark} was acknowledged and is not stored")

    async def _publish(self, topic: str) -> None:
        news = self.news
        self._events += 1
        event_id = news.choice((None, f"event {self._events}"))
        options: dict[str, Any] = {
            "deliver": news.choice(("all", "one")),
            "retain": news.choice((None, None, 1.0, 60.0)),
            "event_id": event_id,
        }
        payload = {"mark": f"e{self._events}", "n": news.randint(0, 1)}
        for _ in range(1 if event_id is None else news.randint(1, 3)):
            try:
                await self.ask(lambda engine: engine.publish(topic, payload, **options))
            except UNKNOWN:
                await asyncio.sleep(0.05)
        holders = self.world.checker.events.holders()
        if holders and news.random() < 0.3:
            target = news.choice(holders)
            self.touched.add(target)
            try:
                await self.ask(lambda engine: engine.cancel(target, "has an event", compensate=news.random() < 0.5))
            except (*UNKNOWN, NotFoundError):
                pass

    def _payload(self, name: str, mark: str) -> dict[str, Any]:
        """What is sent under a name. If that has a type, it fits as often as not."""
        fits = name != TYPED.name or self._misfits.random() < 0.5
        return {"mark": mark} if fits else {"mark": mark, "size": "large"}

    def new_mark(self, target: str) -> str:
        """A mark that no other signal carries."""
        self._marks += 1
        mark = f"s{self._marks}"
        self.marks[mark] = target
        return mark

    def mark_of(self, run_id: str, path: str, target: str) -> str:
        """The mark of what a run sends at a place, the same whenever its code runs."""
        if (run_id, path) not in self._sent:
            self._sent[run_id, path] = self.new_mark(target)
        return self._sent[run_id, path]

    def marks_of_runs(self) -> set[str]:
        """The marks of all that runs send."""
        return set(self._sent.values())

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
            done = await self.ask(lambda engine: engine.cancel(target, "not needed", compensate=compensate))
        except (*UNKNOWN, NotFoundError):
            return
        if done and target in rows:
            self.cancels_told[target] = compensate

    async def _look(self, order: Order) -> None:
        target = self._target(order)
        if target is None:
            return
        try:
            await self.ask(lambda engine: engine.status(target))
            await self.ask(lambda engine: engine.explain(target))
            await self.ask(lambda engine: engine.runs.history(target))
        except (*UNKNOWN, NotFoundError):
            return

    async def _await(self, order: Order) -> None:
        """Wait for a result; what is told is what is stored, and stays so."""
        target = self._target(order)
        if target is None:
            return
        try:
            value = await self.ask(lambda engine: engine.result(target, timeout=self.rng.choice((0.5, 5.0))))
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
            await self.ask(lambda engine: engine.workers.evict(target))
        except (*UNKNOWN, NotFoundError):
            return

    async def _idle_talk(self) -> None:
        """Operators look around while things go wrong."""
        for _ in range(self.rng.randint(0, 3)):
            await asyncio.sleep(self.rng.uniform(0.5, 2.0))
            try:
                await self.ask(lambda engine: engine.workers.recover())
            except UNKNOWN:
                pass
            if self.rng.random() < 0.5:
                await self.operators.operate(self.rng.random() < 0.5)
