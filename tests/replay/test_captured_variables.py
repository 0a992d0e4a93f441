"""Variables outside of branches, items and loop bodies: right after every replay, or the run stops and says why."""

from __future__ import annotations

import asyncio
import itertools
import logging
from dataclasses import dataclass, field
from typing import Any

import pytest

from stepwell import Break, Context, Continue, SyncContext, workflow
from stepwell.errors import LostChangeError
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger
from tests.replay.sweep import Program, sweep


async def look(number: int) -> int:
    return number


async def end(harness: Harness, flow: Any, *flows: Any, input: Any = None) -> Any:
    """Start a run, let it wait for "go", move it to another worker, and let it end."""
    worker = await harness.worker(flow, *flows)
    client = await harness.client()
    run = await worker.start(flow, input)
    await harness.drain()
    await harness.takeover(worker, flow, *flows)
    await client.signal(run.run_id, "go")
    await harness.drain()
    return run


async def stopped(harness: Harness, flow: Any, named: str, says: str) -> None:
    """A run of it stops before anything is recorded that a replay would not repeat."""
    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    view = await harness.status(run)
    assert (view.status, view.failure and view.failure.code) == ("paused", LostChangeError.code)
    assert named in view.failure.message, view.failure.message
    assert says in f"{view.failure.message} {view.failure.fix}"


# --- join and map: their inner code runs again ---


async def test_what_branches_and_items_write_outside_is_there_after_a_replay(harness: Harness) -> None:
    @workflow
    async def writes(ctx: Context) -> list[Any]:
        seen: dict[int, int] = {}
        order: list[str] = []
        total = 0

        async def one(inner: Context, number: int) -> None:
            nonlocal total
            seen[number] = await inner.step("look", look, number)
            total += number

        async def branch(inner: Context) -> None:
            order.append(await inner.once("name", lambda: "b"))
            await inner.map("inner", one, range(5, 7))

        async def other(inner: Context) -> None:
            await inner.step("look", look, 1)
            order.append("a")

        await ctx.map("items", one, range(5), limit=2)
        await ctx.join("both", {"b": branch, "a": other})
        await ctx.receive("go")
        return [sorted(seen.items()), order, total]

    run = await end(harness, writes)
    assert await harness.result(run) == [[[n, n] for n in range(7)], ["b", "a"], 21]


async def test_failed_branches_are_run_again_too(harness: Harness, ledger: Ledger) -> None:
    @workflow
    async def fails(ctx: Context) -> list[Any]:
        begun: list[str] = []

        async def bad(inner: Context) -> None:
            begun.append("bad")
            inner.fail("no")

        async def bad_item(inner: Context, number: int) -> None:
            begun.append(f"item {await inner.step('look', look, number)}")
            if number:
                raise ValueError("no")

        try:
            await ctx.join("both", {"bad": bad})
        except Exception as error:
            begun.append(type(error).__name__)
        try:
            await ctx.map("items", bad_item, range(2))
        except Exception as error:
            begun.append(type(error).__name__)
        await ctx.receive("go")
        return begun

    run = await end(harness, fails)
    assert await harness.result(run) == ["bad", "JoinError", "item 0", "item 1", "JoinError"]


async def test_a_map_that_was_left_in_the_middle_runs_its_recorded_items_again(harness: Harness) -> None:
    @workflow
    async def writes(ctx: Context) -> list[int]:
        seen: list[int] = []

        async def one(inner: Context, number: int) -> None:
            seen.append(await inner.step("look", look, number))
            if number == 2:
                await inner.receive("go")

        await ctx.map("items", one, range(5))
        return sorted(seen)

    run = await end(harness, writes)
    assert await harness.result(run) == [0, 1, 2, 3, 4]


async def test_a_branch_that_got_another_step_since_it_ended_stops_the_run(harness: Harness, ledger: Ledger) -> None:
    def version(steps: int) -> Any:
        @workflow(name="changed")
        async def changed(ctx: Context) -> None:
            async def branch(inner: Context) -> None:
                for number in range(steps):
                    await inner.step(f"s{number}", ledger.act, number)

            await ctx.join("both", {"one": branch})
            await ctx.receive("go")

        return changed

    worker = await harness.worker(version(1))
    client = await harness.client()
    run = await worker.start(version(1))
    await harness.drain()
    done = list(ledger.lines)
    await harness.takeover(worker, version(2))
    await client.signal(run.run_id, "go")
    await harness.drain()

    view = await harness.status(run)
    assert (view.status, view.failure and view.failure.code) == ("paused", "SW201")
    assert ledger.lines == done


def shared_state(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> list[Any]:
        seen: list[str] = []

        async def item(inner: Context, number: int) -> None:
            seen.append(f"item {number}")
            await inner.step("work", ledger.act, number)
            seen.append(f"done {number}")

        async def asks(inner: Context) -> None:
            seen.append((await inner.receive("go")).payload)

        async def maps(inner: Context) -> None:
            await inner.map("items", item, range(3), limit=2)

        await ctx.join("both", {"a": asks, "b": maps})
        await ctx.step("last", ledger.act, len(seen))
        return [len(seen), seen.count("here")]

    return Program(program, script=(("1s", "go", "here"),), lasts="5s")


@pytest.mark.parametrize("mode", ["live", "yield"])
async def test_shared_variables_of_branches_survive_every_fault(mode: str) -> None:
    outcome = await sweep(shared_state, mode, "crash")

    assert outcome.output == [7, 1]


# --- race, fail_fast, loop: a change stops the run ---


@dataclass
class Totals:
    count: int = 0
    parts: list[int] = field(default_factory=list)


def races(write: Any) -> Any:
    @workflow(name="races")
    async def races(ctx: Context) -> None:
        write_now = write()

        async def branch(inner: Context) -> None:
            await inner.step("look", look, 1)
            write_now()

        await ctx.race("first", {"one": branch})

    return races


def list_write() -> Any:
    seen: list[int] = []
    return lambda: seen.append(1)


def dict_write() -> Any:
    seen: dict[str, dict[str, int]] = {"inner": {}}
    return lambda: seen["inner"].update(a=1)


def set_write() -> Any:
    seen: set[int] = set()
    return lambda: seen.add(1)


def bytes_write() -> Any:
    seen = bytearray(b"abc")
    return lambda: seen.__setitem__(0, 7)


def dataclass_write() -> Any:
    seen = Totals()

    def write() -> None:
        seen.count += 1

    return write


def nested_write() -> Any:
    seen = [Totals()]
    return lambda: seen[0].parts.append(1)


def nonlocal_write() -> Any:
    seen = 0

    def write() -> None:
        nonlocal seen
        seen += 1

    return write


def iterator_write() -> Any:
    seen = iter([1, 2, 3])
    return lambda: next(seen)


def count_write() -> Any:
    seen = itertools.count()
    return lambda: next(seen)


def large_write() -> Any:
    seen = list(range(100_000))
    return lambda: seen.append(1)


@pytest.mark.parametrize(
    "write",
    [
        list_write,
        dict_write,
        set_write,
        bytes_write,
        dataclass_write,
        nested_write,
        nonlocal_write,
        iterator_write,
        count_write,
        large_write,
    ],
)
async def test_a_race_whose_branch_changes_something_outside_stops(harness: Harness, write: Any) -> None:
    await stopped(harness, races(write), "seen", "race first")


async def test_a_loser_of_a_race_that_changes_something_outside_stops_the_run(harness: Harness) -> None:
    @workflow
    async def races(ctx: Context) -> None:
        seen: list[int] = []

        async def loses(inner: Context) -> None:
            seen.append(1)
            await inner.receive("never")

        async def wins(inner: Context) -> None:
            await inner.step("look", look, 1)

        await ctx.race("first", {"loses": loses, "wins": wins})

    await stopped(harness, races, "seen", "race first")


async def test_a_loop_whose_body_changes_something_outside_stops_at_its_first_iteration(
    harness: Harness, ledger: Ledger
) -> None:
    @workflow
    async def loops(ctx: Context) -> None:
        total = 0

        async def body(inner: Context, number: int) -> Continue[int] | Break[None]:
            nonlocal total
            total += await inner.step("work", ledger.act, number) or 1
            return Break(None) if number == 3 else Continue(number + 1)

        await ctx.loop("rounds", body, 0)

    await stopped(harness, loops, "total", "Continue(total)")
    assert len(ledger.lines) == 1


@pytest.mark.parametrize("kind", ["join", "map"])
async def test_fail_fast_branches_that_change_something_outside_stop_the_run(harness: Harness, kind: str) -> None:
    @workflow
    async def quick(ctx: Context) -> None:
        seen: list[int] = []

        async def branch(inner: Context) -> None:
            seen.append(await inner.step("look", look, 1))

        async def item(inner: Context, number: int) -> None:
            seen.append(await inner.step("look", look, number))

        if kind == "join":
            await ctx.join("both", {"one": branch}, on_error="fail_fast")
        else:
            await ctx.map("both", item, range(3), on_error="fail_fast")

    await stopped(harness, quick, "seen", f"{kind} both")


async def test_a_run_that_stopped_for_a_change_goes_on_when_the_code_is_mended(
    harness: Harness, ledger: Ledger
) -> None:
    def version(*, is_mended: bool) -> Any:
        @workflow(name="mended")
        async def mended(ctx: Context) -> int:
            seen: list[int] = []

            async def one(inner: Context) -> int:
                await inner.step("work", ledger.act, 1)
                if not is_mended:
                    seen.append(1)
                return 1

            async def other(inner: Context) -> int:
                await inner.step("slow", ledger.act, 2)
                await inner.receive("never")
                return 2

            winner = await ctx.race("first", {"one": one, "other": other})
            return len(seen) + int(winner.value)

        return mended

    worker = await harness.worker(version(is_mended=False))
    run = await worker.start(version(is_mended=False))
    await harness.drain()
    assert (await harness.status(run)).status == "paused"
    done = sorted(ledger.lines)
    worker = await harness.takeover(worker, version(is_mended=True))
    await worker.do(worker.engine.holds.resume(run.run_id, by="ann"))
    await harness.drain()

    assert await harness.result(run) == 1
    assert sorted(ledger.lines) == done


async def test_what_is_only_used_inside_of_a_body_or_by_others_stops_nothing(harness: Harness, ledger: Ledger) -> None:
    @dataclass
    class Client:
        calls: int = 0

        async def call(self) -> int:
            self.calls += 1  # in a step, which is no workflow code
            return self.calls

    @workflow
    async def benign(ctx: Context) -> list[Any]:
        client, log, latest, own = Client(), logging.getLogger("benign"), {"price": 0}, asyncio.Queue[int]()
        settings = {"rounds": 3}

        async def listens(inner: Context) -> None:
            for number in range(3):
                await inner.step(f"tick{number}", look, number)
                latest["price"] = number  # a branch of a join: done again by every replay

        async def body(inner: Context, found: list[int]) -> Continue[list[int]] | Break[list[int]]:
            log.debug("price %s", latest["price"])
            inner.log.info("round")
            await inner.step("call", client.call)
            found = [*found, latest["price"]]
            return Break(found) if len(found) == settings["rounds"] else Continue(found)

        async def loops(inner: Context) -> int:
            none: list[int] = []
            found = await inner.loop("rounds", body, none)
            return len(found)

        async def races(inner: Context) -> int:
            async def one(deep: Context) -> int:
                mine: list[int] = []
                await asyncio.gather(*(deep.step(f"s{n}", look, n) for n in range(2)))
                mine.append(own.qsize())
                return len(mine) + settings["rounds"]

            return int((await inner.race("first", {"one": one})).value)

        found = await ctx.join("all", {"listens": listens, "loops": loops, "races": races})
        await ctx.receive("go")
        return [found["loops"], found["races"], latest["price"]]

    run = await end(harness, benign)
    assert await harness.result(run) == [3, 4, 2]


async def test_variables_around_the_workflow_belong_to_the_process_and_stop_nothing(harness: Harness) -> None:
    rounds: list[int] = []

    async def body(inner: Context, number: int) -> Continue[int] | Break[int]:
        rounds.append(await inner.step("look", look, number))
        return Break(number) if number == 2 else Continue(number + 1)

    @workflow
    async def loops(ctx: Context) -> int:
        async def again(inner: Context, number: int) -> Continue[int] | Break[int]:
            rounds.append(number)
            return await body(inner, number)

        return await ctx.loop("one", body, 0) + await ctx.loop("two", again, 0)

    worker = await harness.worker(loops)
    run = await worker.start(loops)
    await harness.drain()

    assert await harness.result(run) == 4
    assert len(rounds) == 9


# --- plain functions ---


@pytest.mark.parametrize("kind", ["join", "map", "race", "loop"])
async def test_plain_functions_that_change_something_outside_stop_the_run(harness: Harness, kind: str) -> None:
    @workflow
    def plain(ctx: SyncContext) -> None:
        seen: list[int] = []

        def branch(inner: SyncContext) -> None:
            seen.append(inner.step("look", look, 1))

        def item(inner: SyncContext, number: int) -> Break[None]:
            seen.append(inner.step("look", look, number))
            return Break(None)

        match kind:
            case "join":
                ctx.join("place", {"one": branch})
            case "map":
                ctx.map("place", item, range(2))
            case "race":
                ctx.race("place", {"one": branch})
            case _:
                ctx.loop("place", item, 0)

    await stopped(harness, plain, "seen", f"{kind} place")
