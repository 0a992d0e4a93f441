"""A pause with a fault at every call to the store, of the owner or of whoever pauses: nothing is lost or done twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple

import pytest

from stepwell import Context, Engine, Handle, Retry, StepContext, step, workflow
from stepwell.errors import StoreUnavailableError
from tests.cases.harness import Harness, Node
from tests.cases.ledger import Ledger
from tests.cases.stores import STORES
from tests.replay.sweep import PAUSE, RESUME, SETTINGS, STANDSTILL, Build, Moment, Program, sweep

# --- faults of the owner ---


def slow(ledger: Ledger) -> Any:
    """A step body that is under way for a while after its effect."""

    async def act(info: StepContext, value: Any) -> Any:
        await ledger.act(info)
        await asyncio.sleep(3)
        return value

    return act


def in_a_step(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> list[int]:
        return [await ctx.step(name, slow(ledger), number) for number, name in enumerate(("a", "b", "c"))]

    script = (("4s", PAUSE, None), ("5s", RESUME, None))
    return Program(program, script=script, lasts="12s")


def in_branches(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> list[int]:
        async def branch(name: str, number: int) -> int:
            await ctx.step(f"{name} first", slow(ledger), number)
            return int(await ctx.step(f"{name} second", slow(ledger), number))

        return list(await asyncio.gather(branch("x", 1), branch("y", 2)))

    return Program(program, script=(("500ms", PAUSE, None), ("5s", RESUME, None)), lasts="12s")


def in_waits(ledger: Ledger) -> Program:
    """The timer ends and the signal comes while it is paused."""

    @workflow
    async def program(ctx: Context) -> list[Any]:
        await ctx.step("a", ledger.act, None)
        await ctx.sleep("nap", "12s")
        got = (await ctx.receive("go")).payload
        return [got, await ctx.step("b", ledger.act, "b")]

    script = (("8s", PAUSE, None), (0, "go", 7), ("5s", RESUME, None))
    return Program(program, script=script, lasts="2s")


def between_attempts(ledger: Ledger) -> Program:
    async def flaky(info: StepContext) -> int:
        ledger.lines.append(f"attempt {info.attempt}")
        if info.attempt < 3:
            raise ConnectionError("no")
        return info.attempt

    @workflow
    async def program(ctx: Context) -> int:
        return await ctx.step(step(flaky, retry=Retry(max_attempts=3, initial="8s", factor=1, jitter=0)))

    return Program(program, script=(("1s", PAUSE, None), ("5s", RESUME, None)), lasts="18s")


def over_a_child(ledger: Ledger) -> Program:
    """The child ends while its parent is paused."""

    @workflow
    async def below(ctx: Context) -> str:
        await ctx.sleep("nap", "8s")
        return str(await ctx.step("work", ledger.act, "below"))

    @workflow
    async def program(ctx: Context) -> list[str]:
        found = await ctx.child(below)
        return [found, str(await ctx.step("after", ledger.act, "after"))]

    return Program(program, others=(below,), script=(("1s", PAUSE, None), ("5s", RESUME, None)), lasts="2s")


def continued(ledger: Ledger) -> Program:
    """It continues as new while it is to be given up: whoever continues it is paused."""

    @workflow
    async def program(ctx: Context, number: int) -> int:
        await ctx.step("work", slow(ledger), number)
        if number < 3:
            ctx.continue_as_new(number + 1)
        return number

    return Program(program, 0, script=(("500ms", PAUSE, None), ("5s", RESUME, None)), lasts="14s")


def its_workflow(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> list[int]:
        await ctx.sleep("nap", "500ms")
        return [await ctx.step(name, slow(ledger), number) for number, name in enumerate(("a", "b", "c"))]

    script = (("1s", PAUSE, "program"), ("5s", RESUME, "program"))
    return Program(program, script=script, lasts="12s")


SWEEPS: dict[str, tuple[Build, Any]] = {
    "in a step": (in_a_step, [0, 1, 2]),
    "in branches": (in_branches, [1, 2]),
    "in waits": (in_waits, [7, "b"]),
    "between attempts": (between_attempts, 3),
    "over a child": (over_a_child, ["below", "after"]),
    "continued": (continued, 3),
    "its workflow": (its_workflow, [0, 1, 2]),
}


@pytest.mark.parametrize("name", SWEEPS)
async def test_a_fault_of_the_owner_at_any_call_changes_nothing(mode: str, name: str) -> None:
    build, output = SWEEPS[name]

    outcome = await sweep(build, mode)

    assert (outcome.status, outcome.output) == ("completed", output)


# --- faults of whoever pauses ---

Situation = Literal["nobody serves it", "in a step", "waiting", "its owner is dead", "its owner dies while it is held"]
Act = Callable[[Engine, str], Awaitable[bool]]


class Target(NamedTuple):
    """What is paused, and how one sees who did it."""

    pause: Act
    resume: Act
    list_verbs: Callable[[Engine, str], Awaitable[list[tuple[str, str]]]]


async def _verbs_of_run(engine: Engine, run_id: str) -> list[tuple[str, str]]:
    return [(act.verb, act.by) for act in await engine.runs.list_acts(run_id)]


async def _verbs_of_workflows(engine: Engine, run_id: str) -> list[tuple[str, str]]:
    return [(act.verb, act.by) for act in reversed(await engine.holds.list_acts())]


TARGETS = {
    "run": Target(
        lambda engine, run_id: engine.holds.pause(run_id, by="ann", reason="a look at it"),
        lambda engine, run_id: engine.holds.resume(run_id, by="ben"),
        _verbs_of_run,
    ),
    "workflow": Target(
        lambda engine, _: engine.holds.pause_workflow("flow", by="ann", reason="a look at it"),
        lambda engine, _: engine.holds.resume_workflow("flow", by="ben"),
        _verbs_of_workflows,
    ),
    "all": Target(
        lambda engine, _: engine.holds.pause_workflow(None, by="ann", reason="a look at it"),
        lambda engine, _: engine.holds.resume_workflow(None, by="ben"),
        _verbs_of_workflows,
    ),
}


class Fault(NamedTuple):
    """What happens to an operator at the n-th call that an act of theirs makes to the store."""

    kind: Literal["crash", "lost"]
    moment: Moment
    number: int


class Operators:
    """They ask until they know: one whose process died is followed by another who asks for the same."""

    def __init__(self, harness: Harness, run_id: str) -> None:
        self._harness = harness
        self._run_id = run_id
        self.calls = 0

    async def act(self, act: Act, fault: Fault | None) -> None:
        """Do it, with the fault, as often as that takes."""
        node = await self._harness.client()
        self.calls = 0

        async def strike(_: str) -> None:
            self.calls += 1
            if fault is not None and self.calls == fault.number:
                if fault.kind == "lost":
                    raise StoreUnavailableError("the call was lost")
                node.crash()

        setattr(node.wire, fault.moment if fault is not None else "before", strike)
        asking = asyncio.ensure_future(node.do(_coroutine(act(node.engine, self._run_id))))
        await self._harness.advance("1s")
        assert asking.done() == (fault is None or fault.kind == "lost")
        if asking.done():
            asking.result()
        else:
            other = await self._harness.client()
            await other.do(_coroutine(act(other.engine, self._run_id)))


async def _coroutine(work: Awaitable[bool]) -> bool:
    return await work


class Story:
    """A run that is paused in some situation and resumed, with a fault in one of the two acts."""

    def __init__(self, mode: str, situation: Situation, target: Target) -> None:
        self.harness = Harness(STORES["sqlite"](), mode)
        self.ledger = Ledger()
        self.situation = situation
        self.target = target
        self.is_open = asyncio.Event()

    def flow(self) -> Any:
        async def gated(info: StepContext) -> None:
            await self.ledger.act(info)
            await self.is_open.wait()

        @workflow
        async def flow(ctx: Context) -> str:
            await ctx.step("one", gated)
            got = (await ctx.receive("go")).payload
            return str(await ctx.step("two", self.ledger.act, got))

        return flow

    async def tell(self, pausing: Fault | None, resuming: Fault | None) -> tuple[int, int]:
        """From the start to the end; how many calls each of the acts made."""
        harness, target, flow = self.harness, self.target, self.flow()
        client = await harness.client()
        owner, run = await self._begin(flow, client)
        operators = Operators(harness, run.run_id)
        await operators.act(target.pause, pausing)
        first = operators.calls
        if self.situation == "its owner dies while it is held":
            assert owner is not None
            owner.crash()
        self.is_open.set()
        await client.signal(run.run_id, "go", "went")
        if self.situation not in ("in a step", "waiting"):
            await harness.worker(flow, **SETTINGS)
        await harness.advance(STANDSTILL)
        assert (await harness.status(run)).status in (
            ("paused",) if target is TARGETS["run"] else ("pending", "waiting")
        )
        assert "flow:two" not in self.ledger.lines

        await operators.act(target.resume, resuming)
        await harness.advance("3s")

        assert await harness.result(run) == "went"
        expected = 2 if "dead" in self.situation or "dies" in self.situation else 1
        assert self.ledger.counts == {"flow:one": expected, "flow:two": 1}
        verbs = await target.list_verbs(client.engine, run.run_id)
        assert verbs == [("pause", "ann"), ("resume", "ben")]
        await harness.close()
        return first, operators.calls

    async def _begin(self, flow: Any, client: Node) -> tuple[Node | None, Handle[Any]]:
        if self.situation == "nobody serves it":
            return None, await client.start(flow)
        owner = await self.harness.worker(flow, **SETTINGS)
        run = await owner.start(flow)
        await self.harness.drain()
        if self.situation == "waiting":
            self.is_open.set()
            await self.harness.drain()
        elif self.situation == "its owner is dead":
            owner.crash()
        return owner, run


SITUATIONS: tuple[Situation, ...] = (
    "nobody serves it",
    "in a step",
    "waiting",
    "its owner is dead",
    "its owner dies while it is held",
)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("situation", SITUATIONS)
async def test_a_fault_of_whoever_pauses_or_resumes_at_any_call_changes_nothing(
    mode: str, situation: Situation, target: str
) -> None:
    counts = await Story(mode, situation, TARGETS[target]).tell(None, None)

    assert min(counts) >= 1
    for which, calls in enumerate(counts):
        for kind in ("crash", "lost"):
            for moment in ("before", "after"):
                for number in range(1, calls + 1):
                    faults: list[Fault | None] = [None, None]
                    faults[which] = Fault(kind, moment, number)
                    await Story(mode, situation, TARGETS[target]).tell(faults[0], faults[1])
