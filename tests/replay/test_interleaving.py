"""Code with concurrent branches takes the same interleaving on every replay as it did the first time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepwell import Context, Retry, StepContext, step, workflow
from stepwell.virtual.loop import VirtualLoop
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger
from tests.cases.stores import STORES


@dataclass(frozen=True)
class Do:
    """A step that takes so long."""

    tenths: int


@dataclass(frozen=True)
class Rest:
    """A sleep."""

    seconds: int


@dataclass(frozen=True)
class Hear:
    """A signal, whichever comes next."""


@dataclass(frozen=True)
class HearSoon:
    """A signal, if it comes in time."""

    seconds: int


@dataclass(frozen=True)
class Keep:
    """A value that is produced once."""


@dataclass(frozen=True)
class Retrying:
    """A step that fails before it succeeds."""

    delay: int


@dataclass(frozen=True)
class Child:
    """Another run that sleeps."""

    seconds: int


@dataclass(frozen=True)
class All:
    """Several things at once."""

    parts: tuple[tuple[Any, ...], ...]


LEAVES = st.one_of(
    st.builds(Do, st.integers(0, 30)),
    st.builds(Rest, st.integers(0, 4)),
    st.just(Hear()),
    st.builds(HearSoon, st.integers(0, 3)),
    st.just(Keep()),
    st.builds(Retrying, st.integers(0, 3)),
    st.builds(Child, st.integers(0, 3)),
)
PARTS = st.recursive(
    st.lists(LEAVES, min_size=1, max_size=3).map(tuple),
    lambda inner: st.lists(
        st.one_of(LEAVES, st.builds(All, st.lists(inner, min_size=2, max_size=3).map(tuple))), min_size=1, max_size=3
    ).map(tuple),
    max_leaves=8,
)


def build(program: tuple[Any, ...], traces: list[list[str]], ledger: Ledger) -> Any:
    """A workflow that runs a program and leaves a trace of the order in which its code went on."""

    async def work(name: str, tenths: int) -> None:
        ledger.note(name)
        await asyncio.sleep(tenths / 10)

    async def flaky(info: StepContext) -> None:
        if info.attempt < 3:
            raise ConnectionError("again")

    @workflow(name="random")
    async def flow(ctx: Context) -> list[str]:
        trace: list[str] = []
        traces.append(trace)

        async def run(parts: tuple[Any, ...], at: str) -> None:
            for number, part in enumerate(parts):
                here = f"{at}.{number}"
                match part:
                    case Do(tenths):
                        await ctx.step(here, work, here, tenths)
                    case Rest(seconds):
                        await ctx.sleep(here, seconds)
                    case Hear():
                        trace.append(f"{here} hears {(await ctx.receive(name=here)).payload}")
                    case HearSoon(seconds):
                        heard = await ctx.receive_many(name=here, timeout=seconds, count=1)
                        trace.append(f"{here} hears {[message.payload for message in heard]}")
                    case Keep():
                        trace.append(f"{here} keeps {await ctx.once(here, lambda: len(trace))}")
                    case Retrying(delay):
                        policy = Retry(initial=delay, factor=1, jitter=0)
                        await ctx.step(here, step(flaky, retry=policy))
                    case Child(seconds):
                        trace.append(f"{here} has {await ctx.child(sleeper, seconds, name=here)}")
                    case All(inner):
                        await asyncio.gather(*[run(each, f"{here}-{n}") for n, each in enumerate(inner)])
                    case _:
                        raise AssertionError(part)
                trace.append(f"{here} at {ctx.now().timestamp()}")

        await run(program, "p")
        trace.append("before the last wait")
        await ctx.receive("finish")
        return trace

    return flow


@workflow
async def sleeper(ctx: Context, seconds: int) -> int:
    await ctx.sleep("pause", seconds)
    return seconds


def ears(program: tuple[Any, ...]) -> int:
    return sum(
        1
        if isinstance(part, Hear | HearSoon)
        else sum(ears(inner) for inner in part.parts)
        if isinstance(part, All)
        else 0
        for part in program
    )


async def live_through(program: tuple[Any, ...], mode: str) -> tuple[list[list[str]], Ledger, list[str]]:
    traces: list[list[str]] = []
    ledger = Ledger()
    flow = build(program, traces, ledger)
    harness = Harness(STORES["sqlite"](), mode)
    options: dict[str, Any] = {"lease": "5s", "sweep_every": "2s"}
    worker = await harness.worker(flow, sleeper, **options)
    client = await harness.client()
    run = await client.start(flow)
    await harness.advance("1s")
    for number in range(ears(program)):
        await client.signal(run.run_id, "any", number)
        await harness.advance("700ms")
        if number % 2:
            worker.crash()
            worker = await harness.worker(flow, sleeper, **options)
    await harness.advance("1m")
    worker.crash()
    worker = await harness.worker(flow, sleeper, **options)
    await client.signal(run.run_id, "finish")
    await harness.advance("10s")
    result = await harness.result(run)
    seen = [list(trace) for trace in traces]
    await harness.close()
    return seen, ledger, result


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(PARTS, st.sampled_from(["live", "yield"]))
def test_every_replay_of_a_random_program_goes_the_same_way(program: tuple[Any, ...], mode: str):
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        traces, ledger, result = runner.run(live_through(program, mode))

    assert len(traces) > 1
    for trace in traces:
        assert trace == result[: len(trace)]
    assert max(ledger.counts.values(), default=0) <= 1 + len(traces)


async def test_a_receive_in_two_branches_gives_each_the_same_message_again(harness: Harness, ledger: Ledger):
    seen: list[list[str]] = []

    @workflow
    async def flow(ctx: Context) -> list[str]:
        found: list[str] = []
        seen.append(found)

        async def listen(name: str) -> None:
            for _ in range(2):
                found.append(f"{name} {(await ctx.receive('m', name=name)).payload}")

        await asyncio.gather(listen("a"), listen("b"))
        await ctx.receive("go")
        return found

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    for number in range(4):
        await worker.signal(run.run_id, "m", number)
        await harness.drain()
    worker = await harness.takeover(worker, flow)
    await worker.signal(run.run_id, "go")
    await harness.drain()

    result = await harness.result(run)
    assert sorted(line.split()[1] for line in result) == ["0", "1", "2", "3"]
    assert all(found == result[: len(found)] for found in seen)
