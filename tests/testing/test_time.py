"""One clock for timers, retries, timeouts and deadlines; it moves only when the test lets it."""

from __future__ import annotations

import asyncio
import gc
import socketserver
import threading
import time
from asyncio import events
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from stepwell import Context, StepContext, StepwellError, step, workflow
from stepwell.testing import Kit, SyncKit, kit
from tests.testing.shop import Order, fulfil, plain, quick

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


async def test_every_test_begins_at_the_same_moment(stepwell: Kit):
    assert stepwell.clock.now() == BEGINNING


async def test_time_passes_as_it_is_told_to(stepwell: Kit):
    run = await stepwell.start(fulfil, Order("ann"))

    await stepwell.clock.advance(days=2, hours=23)
    run.assert_not_ran("remind")
    await stepwell.clock.advance("1h")
    run.assert_ran("remind")
    assert await stepwell.clock.advance_to(BEGINNING + timedelta(days=7)) == BEGINNING + timedelta(days=7)
    run.assert_status("compensated", why="second").assert_undone("reserve", "payment/card/charge")


async def test_the_next_timer_is_told(stepwell: Kit):
    assert stepwell.clock.next_timer() is None
    run = await (await stepwell.start(fulfil, Order("ann"))).until_waiting()

    assert stepwell.clock.next_timer() == BEGINNING + timedelta(days=3)
    await run.until("remind")
    assert stepwell.clock.now() == BEGINNING + timedelta(days=3)


def test_a_plain_test_advances_without_await(stepwell: SyncKit):
    run = stepwell.start(plain, Order("ann"))
    stepwell.clock.advance(minutes=59)
    assert run.status == "waiting"

    stepwell.clock.advance(minutes=1)
    assert run.status == "completed"


async def test_a_deadline_is_kept_by_the_same_clock(stepwell: Kit):
    run = await stepwell.start(fulfil, Order("ann"), deadline="2d")
    await stepwell.clock.advance(days=2)

    run.assert_status("compensated", why="DeadlineExceeded").assert_within(2 * 86_400)


async def test_a_step_that_sleeps_takes_virtual_time(stepwell: Kit):
    @step
    async def doze() -> None:
        await asyncio.sleep(3_600)

    @workflow
    async def dozing(ctx: Context) -> None:
        await ctx.step(doze)

    run = await stepwell.run(dozing)

    run.assert_status("completed")
    assert stepwell.clock.now() == BEGINNING + timedelta(hours=1)


async def test_a_step_in_a_thread_may_have_a_loop_of_its_own(stepwell: Kit):
    @step
    def inside() -> int:
        return asyncio.run(asyncio.sleep(0, 7))

    @workflow
    async def threaded(ctx: Context) -> int:
        return await ctx.step(inside)

    (await stepwell.run(threaded)).assert_output(7)


async def test_time_stands_still_while_a_thread_runs(stepwell: Kit):
    @step(timeout="1s")
    async def threaded() -> str:
        import time

        await asyncio.to_thread(time.sleep, 0.02)
        return "done"

    @workflow
    async def waiting(ctx: Context) -> str:
        return await ctx.step(threaded)

    run = await stepwell.run(waiting)

    run.assert_output("done").assert_within(0)


class Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.wfile.write(self.rfile.readline().upper())


@pytest.fixture
def port() -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@step(timeout="10s")
async def call(port: int) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"hello\n")
    answer = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return answer.decode().strip()


@workflow
async def calling(ctx: Context, port: int) -> str:
    return await ctx.step(call, port)


@pytest.mark.stepwell(clock="real")
async def test_a_step_may_talk_to_a_server_in_real_time(stepwell: Kit, port: int):
    (await stepwell.run(calling, port)).assert_output("HELLO")


async def test_a_server_that_answers_at_once_is_heard_in_virtual_time_too(stepwell: Kit, port: int):
    (await stepwell.run(calling, port)).assert_output("HELLO").assert_within(0)


@step(isolate="process")
def shout(text: str) -> str:
    return text.upper()


@workflow
async def shouting(ctx: Context) -> str:
    return await ctx.step(shout, "hello")


async def test_a_step_with_a_process_of_its_own_runs_in_the_process_of_the_test(stepwell: Kit):
    stepwell.slow("shout", seconds=5)

    (await stepwell.run(shouting)).assert_output("HELLO").assert_within(5)


def test_nothing_is_left_of_a_kit():
    with kit() as made:  # whatever is made once for a process is there after this
        made.run(plain, Order("ann"))
    before, collects = set(threading.enumerate()), gc.get_threshold()
    for _ in range(20):
        with kit() as made:
            made.crash_at("reserve", when="after_record")
            made.start(plain, Order("ann"))
            made.run(plain, Order("bob"))
    left = set(threading.enumerate()) - before
    for thread in left:
        thread.join(timeout=10)

    assert not any(thread.is_alive() for thread in left)
    assert gc.get_threshold() == collects


async def test_the_past_cannot_be_advanced_to(stepwell: Kit):
    with pytest.raises(StepwellError, match="has passed"):
        await stepwell.clock.advance_to(BEGINNING - timedelta(seconds=1))


@pytest.mark.stepwell(clock="real")
async def test_a_real_clock_is_there_for_who_needs_it(stepwell: Kit):
    before = datetime.now(UTC)
    run = await stepwell.run(quick, Order("ann"))

    run.assert_output("parcel for ann")
    assert before - timedelta(seconds=1) < stepwell.clock.now() < before + timedelta(minutes=1)
    with pytest.raises(StepwellError, match="the real clock cannot be advanced"):
        await stepwell.clock.advance(days=1)


@pytest.mark.stepwell(clock="real")
async def test_timers_of_a_real_clock_are_waited_for(stepwell: Kit):
    @workflow
    async def nap(ctx: Context) -> str:
        await ctx.sleep("nap", "30ms")
        return "awake"

    run = await stepwell.start(nap)

    assert await run.result() == "awake"
    with pytest.raises(AssertionError, match=r"the run took 0\.0"):
        run.assert_within(0.029)


def test_time_stands_still_while_a_thread_is_busy_also_when_it_has_talked_to_the_engine():
    @step(timeout="10s")
    def work(ctx: StepContext) -> str:
        ctx.checkpoint(1)
        ctx.progress(1, total=2)
        time.sleep(0.2)  # far longer than a loop that guessed would wait
        return "done"

    @workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(work)

    with kit() as stepwell:
        assert stepwell.start(flow).result() == "done"
        assert stepwell.clock.now() == BEGINNING


def test_code_that_is_torn_down_leaves_no_loop_behind() -> None:
    @workflow
    async def waits(ctx: Context) -> None:
        await ctx.sleep("long", "1d")

    with kit(always_replay=False) as stepwell:
        run = stepwell.start(waits)
        run.until_waiting()
        assert stepwell.wait(stepwell.engine.holds.pause(run.run_id, by="ann"))
        assert events._get_running_loop() is None
