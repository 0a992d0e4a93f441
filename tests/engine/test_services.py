"""Services: they run exactly when a record is due, in every worker, and a broken one disturbs nobody."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from stepwell import Context, WorkerSettings, workflow
from stepwell.clock import SECOND, Instant, Span
from stepwell.engine.records import Document, Draft, NewLine, RecordKind, Records
from stepwell.model.states import SavedViewState
from stepwell.services.loop import ServiceLoop
from stepwell.stores.base.wakeups import HintKind
from tests.cases.harness import Harness, Node


class Note(msgspec.Struct, frozen=True):
    """A body."""

    text: str = ""


@workflow
async def nothing(ctx: Context) -> None:
    return None


class Closer:
    """A service that closes due records, and remembers when."""

    name = "closer"
    kinds = (RecordKind.VIEW,)

    def __init__(self, node: Node) -> None:
        self.records = Records(node.engine._backend, RecordKind.VIEW, Note)
        self.ran: list[Instant] = []
        self.closed: list[tuple[Instant, str]] = []
        self.again: Instant | None = None
        self.error: Exception | None = None
        self.leaves = False

    async def run_once(self, now: Instant) -> Instant | None:
        self.ran.append(now)
        if self.error is not None:
            raise self.error
        for one in [] if self.leaves else await self.records.due():
            if await self.records.change(one.record.record_id, _closed):
                self.closed.append((now, one.record.record_id))
        again, self.again = self.again, None
        return again


def _closed(it: Document[Note] | None) -> Draft[Note] | None:
    if it is None or not it.record.is_open:
        return None
    return Draft(state=SavedViewState.DELETED, body=it.body, lines=(NewLine("closed"),))


class Stage:
    """Processes that run such a service, and a client that makes records due."""

    def __init__(self, harness: Harness, client: Node) -> None:
        self.harness = harness
        self.client = client
        self.store = client.wire.behind
        self.began = self.store.now()

    async def serve(self, *services: Any, sweep: str = "1h") -> tuple[Node, Closer]:
        """A process whose loop runs a closer, and others."""
        node = await self.harness.client()
        closer = Closer(node)
        settings = WorkerSettings(name=node.process.name, sweep_every=sweep)
        loop = ServiceLoop(node.engine._backend, [*services, closer], settings)
        wakes = (HintKind.DUE, HintKind.CHANGED)
        node.wire.store.wakeups.listen(lambda hint: loop.wake() if hint.kind in wakes else None)
        node.process.executor.spawn(loop.serve(), name="services")
        await self.harness.drain()
        closer.ran.clear()  # every service runs once in the beginning
        return node, closer

    async def remind(self, name: str, seconds: float) -> None:
        """A record that is due so long after the beginning."""
        due = Instant(self.began + round(seconds * SECOND))
        draft = Draft(state=SavedViewState.SAVED, body=Note(), lines=(NewLine("saved"),), due_at=due)
        await self.client.do(Records(self.client.engine._backend, RecordKind.VIEW, Note).change(name, lambda _: draft))

    def after(self, seconds: float) -> Instant:
        return Instant(self.began + round(seconds * SECOND))


@pytest.fixture
async def stage(harness: Harness) -> Stage:
    return Stage(harness, await harness.client())


async def test_a_service_runs_exactly_when_a_record_is_due_also_if_it_is_due_earlier_than_known(stage: Stage):
    _, closer = await stage.serve()
    await stage.remind("late", 100)
    await stage.harness.advance("10s")
    await stage.remind("early", 20)
    await stage.remind("past", -5)
    await stage.harness.advance("200s")

    assert closer.closed == [(stage.after(10), "past"), (stage.after(20), "early"), (stage.after(100), "late")]
    assert closer.ran == [at for at, _ in closer.closed]


async def test_without_hints_the_sweep_finds_what_is_due(stage: Stage):
    node, closer = await stage.serve(sweep="2s")
    node.wire.drops_hints = True
    await stage.remind("unheard", 3)
    await stage.harness.advance("30s")

    assert closer.closed == [(stage.after(10), "unheard")]


async def test_many_processes_act_on_each_record_once(stage: Stage):
    served = [await stage.serve() for _ in range(3)]
    for number in range(6):
        await stage.remind(f"r{number}", 10 + number // 3)
    await stage.harness.advance("1m")

    assert sorted(name for _, closer in served for _, name in closer.closed) == [f"r{number}" for number in range(6)]


async def test_a_service_runs_when_it_asks_for_it(stage: Stage):
    _, closer = await stage.serve()
    closer.again = stage.after(50)
    await stage.remind("first", 5)
    await stage.harness.advance("100s")

    assert closer.ran == [stage.after(5), stage.after(50)]


async def test_a_service_that_leaves_due_records_does_not_keep_the_process_busy(stage: Stage):
    _, closer = await stage.serve()
    closer.leaves = True
    await stage.remind("left", 5)
    await stage.harness.advance("30s")
    assert closer.ran == [stage.after(seconds) for seconds in (5, 6, 8, 12, 20)]

    closer.leaves = False
    await stage.remind("later", 50)
    await stage.harness.advance("1m")
    assert closer.closed == [(stage.after(36), "left"), (stage.after(50), "later")]


class Steady(Closer):
    """Another service, of another kind."""

    name = "steady"
    kinds = (RecordKind.TRIGGER,)

    async def run_once(self, now: Instant) -> Instant | None:
        self.ran.append(now)
        return Instant(now + 10 * SECOND)


async def test_a_service_that_raises_rests_and_is_reported_until_it_works_again(
    stage: Stage, caplog: pytest.LogCaptureFixture
):
    steady = Steady(stage.client)
    node, closer = await stage.serve(steady)
    steady.ran.clear()
    closer.error = RuntimeError("the disk is full")
    await stage.remind("due", 5)
    with caplog.at_level(logging.ERROR, "stepwell.worker"):
        await stage.harness.advance("60s")

    # It rests 1, 2, 4, 8 and 16 seconds, and the other service keeps its own time.
    assert closer.ran == [stage.after(seconds) for seconds in (5, 6, 8, 12, 20, 36)]
    assert steady.ran == [stage.after(seconds) for seconds in range(10, 61, 10)]
    assert "service closer failed; it runs again in 1 s" in caplog.text
    [failing] = await stage.client.do(stage.client.engine.workers.list_failing_services())
    assert (failing.service, failing.worker, failing.times) == ("closer", node.process.name, 6)
    assert failing.message == "RuntimeError: the disk is full"
    assert (failing.last_at - failing.since).total_seconds() == 31

    closer.error = None
    await stage.harness.advance("10s")
    assert closer.closed == [(stage.after(68), "due")]
    assert await stage.client.do(stage.client.engine.workers.list_failing_services()) == []


async def test_a_report_of_a_process_that_is_gone_is_forgotten(stage: Stage):
    node, closer = await stage.serve()
    closer.error = RuntimeError("broken")
    await stage.remind("due", 5)
    await stage.harness.advance("10s")
    node.crash()
    asked = stage.client.engine.workers
    assert len(await stage.client.do(asked.list_failing_services())) == 1

    await stage.harness.advance("16m")
    assert await stage.client.do(asked.list_failing_services()) == []
    await stage.harness.worker(nothing)
    await stage.harness.advance("25h")
    assert await stage.client.do(stage.store.records.next_due([RecordKind.SERVICE])) is None
    assert await stage.client.do(stage.store.records.prune("service", older_than=Span(0), limit=9)) == 1


async def test_a_store_that_does_not_answer_ends_no_loop(stage: Stage):
    node, closer = await stage.serve()
    node.wire.is_down = True
    await stage.remind("due", 5)
    await stage.harness.advance("1m")
    assert closer.closed == []

    node.wire.is_down = False
    await stage.harness.advance("10s")
    assert [name for _, name in closer.closed] == ["due"]
