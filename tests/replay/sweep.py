"""Run a program with one fault at every call to the store, and demand the same outcome each time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from stepwell import Handle, Workflow
from stepwell.clock import Duration, span
from stepwell.errors import RunError, StoreUnavailableError
from stepwell.model.commits import Verdict
from stepwell.model.locations import format_path
from stepwell.views import RunView
from tests.cases.harness import Harness, Node
from tests.cases.ledger import Ledger
from tests.cases.stores import STORES

FaultKind = Literal["crash", "lost", "pause"]
Moment = Literal["before", "after"]

CANCEL = "~cancel"
ASK = "~ask "  # before the name of a signal that asks; its answer counts as an effect
PUBLISH = "~publish "  # and the topic
PAUSE = "~pause"  # a run, or the workflow that is the payload
RESUME = "~resume"
SWEPT = ("runs.", "signals.", "events.", "outbox.", "holds.", "transactions.", "views.next_wake")
SETTINGS: dict[str, Any] = {"lease": "3s", "sweep_every": "2s"}
TAKEOVER = "6s"  # lease and sweep
_LOOK = span("500ms")  # how often it is looked whether the run has ended
STANDSTILL = "20s"  # after which a fault and the steps under way are over


@dataclass
class Program:
    """What is run, what is sent to it and when, and how long it takes at most."""

    workflow: Workflow[Any, Any]
    input: Any = None
    others: tuple[Workflow[Any, Any], ...] = ()
    script: tuple[tuple[Duration, str, Any], ...] = ()
    lasts: Duration = 0
    outlasts: Duration = 0  # how long others go on with what it did when it has ended
    settings: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)  # of its start


Build = Callable[[Ledger], Program]


class Fault(NamedTuple):
    """What happens to the worker at its n-th call to the store."""

    kind: FaultKind
    moment: Moment
    number: int


class Outcome(NamedTuple):
    """How the run ended, and what its bodies did."""

    status: str
    output: Any
    failure: str
    effects: dict[str, int]


class Execution:
    """One execution of a program, with or without a fault."""

    def __init__(self, build: Build, mode: str, store: str, fault: Fault | None) -> None:
        self.ledger = Ledger()
        self.program = build(self.ledger)
        self.harness = Harness(STORES[store](), mode)
        self.fault = fault
        self.calls = 0
        self.struck = asyncio.Event()
        self.committed: set[str] = set()  # idempotency keys of the steps that were durable when the fault struck
        self.before_fault = 0  # how many bodies had run by then
        self.asking: list[asyncio.Future[None]] = []
        self.still: list[str] = []  # what had happened when the run stood still

    async def run(self) -> Outcome:
        """From the start to the end of the run; the store has no orphan then."""
        program, harness = self.program, self.harness
        flows = (program.workflow, *program.others)
        client = await harness.client()
        worker = await harness.worker(*flows, **SETTINGS, **program.settings)
        self._arm(worker)
        relief = asyncio.ensure_future(self._relieve(flows))
        run = await self._start(worker, client)
        for wait, name, payload in program.script:
            await harness.advance(wait)
            if name == CANCEL:
                await client.do(client.engine.cancel(run.run_id))
            elif name.startswith(ASK):
                self.asking.append(asyncio.ensure_future(self._ask(client, name.removeprefix(ASK), payload)))
            elif name.startswith(PUBLISH):
                await client.publish(name.removeprefix(PUBLISH), payload, retain="1h")
            elif name == PAUSE:
                await self._pause(client, payload)
            elif name == RESUME:
                await self._resume(client, payload)
            else:
                await client.signal("program", name, payload, if_missing="drop")
        await self._let_end(run)
        if worker.process.is_stopped and self.fault is not None and self.fault.kind == "pause":
            worker.resume()
            await harness.advance(TAKEOVER)
        relief.cancel()
        assert self.fault is None or self.struck.is_set()
        return await self._read(run)

    async def _let_end(self, run: Handle[Any]) -> None:
        """Let time pass until the run has ended, or it should have. What an idle worker asks for then is not swept."""
        faulty = 0 if self.fault is None else span(TAKEOVER)
        left = span(self.program.lasts) + faulty
        await self.harness.drain()
        while left > 0 and not (await self._last_of(run)).is_ended:
            await self._pass(min(_LOOK, left))
            left -= _LOOK
        if self.program.outlasts:
            await self._pass(span(self.program.outlasts) + faulty)

    async def _pass(self, micros: int) -> None:
        await self.harness.advance(timedelta(microseconds=micros))

    async def _last_of(self, run: Handle[Any]) -> RunView:
        view = await self.harness.status(run)
        while view.successor is not None:
            view = await self.harness.status(view.successor)
        return view

    async def _ask(self, client: Node, name: str, payload: Any) -> None:
        try:
            answer = await client.do(client.engine.ask("program", name, payload))
        except RunError as error:
            answer = f"{error.code} {error.why or error.title}"
        self.ledger.lines.append(f"answer {answer}")

    async def _pause(self, client: Node, workflow: str | None) -> None:
        """Nothing happens any more once the owner was told, is dead or has been taken for dead."""
        engine = client.engine
        pausing = (
            engine.holds.pause_workflow(workflow, by="ann") if workflow else engine.holds.pause("program", by="ann")
        )
        assert await client.do(pausing), "it was paused already"
        await self.harness.advance(STANDSTILL)
        self.still = list(self.ledger.lines)

    async def _resume(self, client: Node, workflow: str | None) -> None:
        assert self.ledger.lines == self.still, "something happened while it was paused"
        engine = client.engine
        view = await self.harness.status("program")
        expected = ("paused",) if workflow is None else ("pending", "waiting")
        assert view.status in expected, f"{view.status} at {self.fault}, after {self.still}"
        resuming = (
            engine.holds.resume_workflow(workflow, by="ann") if workflow else engine.holds.resume("program", by="ann")
        )
        assert await client.do(resuming), "that it was paused is forgotten"

    async def _relieve(self, flows: tuple[Workflow[Any, Any], ...]) -> None:
        await self.struck.wait()
        if self.fault is not None and self.fault.kind != "lost":
            await self.harness.worker(*flows, **SETTINGS, **self.program.settings)

    async def _start(self, worker: Node, client: Node) -> Handle[Any]:
        program = self.program
        options = {"key": "program", **program.options}
        starting = asyncio.ensure_future(worker.start(program.workflow, program.input, **options))
        await self.harness.drain()
        if not starting.done():
            await self.harness.advance("1s")
        if starting.done():
            return starting.result()
        return await client.start(program.workflow, program.input, **options)

    async def _read(self, run: Handle[Any]) -> Outcome:
        view = await self._last_of(run)
        if view.is_ended:
            await asyncio.gather(*self.asking)
        await self.harness.close()
        failure = view.failure.summary if view.failure is not None else ""
        return Outcome(view.status, view.output, failure, dict(Counter(self.ledger.lines)))

    def _arm(self, worker: Node) -> None:
        async def strike(name: str) -> None:
            if not name.startswith(SWEPT):
                return
            self.calls += 1
            fault = self.fault
            if fault is None or self.calls != fault.number:
                return
            self._note_committed()
            self.struck.set()
            match fault.kind:
                case "crash":
                    worker.crash()
                case "pause":
                    worker.pause()
                case "lost":
                    raise StoreUnavailableError("the call was lost on its way")

        setattr(worker.wire, self.fault.moment if self.fault is not None else "before", strike)

    def _note_committed(self) -> None:
        names: dict[str, tuple[str, ...]] = {}
        for _, commit, applied in self.harness.answers:
            if applied.verdict is Verdict.APPLIED:
                known = names[commit.run_id] = names.get(commit.run_id, ()) + commit.names
                self.committed |= {f"{commit.run_id}:{format_path(e.location, known)}" for e in commit.entries}
        self.before_fault = len(self.ledger.keys)

    @property
    def repeated(self) -> set[str]:
        """Bodies that ran after the fault although their result was durable before it."""
        return self.committed & set(self.ledger.keys[self.before_fault :])


async def reference(build: Build, mode: str, store: str = "sqlite") -> tuple[Outcome, int]:
    """The outcome without any fault, and how many calls to the store that takes."""
    execution = Execution(build, mode, store, None)
    return await execution.run(), execution.calls


async def sweep(build: Build, mode: str, *kinds: FaultKind, store: str = "sqlite") -> Outcome:
    """Execute with each kind of fault before and after every call; the outcome that all of them had."""
    expected, calls = await reference(build, mode, store)
    for kind in kinds or ("crash", "lost", "pause"):
        moments: tuple[Moment, ...] = ("before", "after") if kind != "pause" else ("before",)
        for moment in moments:
            for number in range(1, calls + 1):
                fault = Fault(kind, moment, number)
                execution = Execution(build, mode, store, fault)
                _check(expected, await execution.run(), execution, fault)
    return expected


def _check(expected: Outcome, outcome: Outcome, execution: Execution, fault: Fault) -> None:
    assert outcome[:3] == expected[:3], f"{fault}: {outcome} instead of {expected}"
    assert execution.repeated == set(), f"{fault}: durable steps ran again"
    assert outcome.effects.keys() == expected.effects.keys(), f"{fault}: other steps than without it"
    # A body that was running when its process died runs again, once; when only an answer was lost, none does.
    factor = 1 if fault.kind == "lost" else 2
    too_often = {name: n for name, n in outcome.effects.items() if not 1 <= n / expected.effects[name] <= factor}
    assert too_often == {}, f"{fault}: {too_often} instead of {expected.effects}"
