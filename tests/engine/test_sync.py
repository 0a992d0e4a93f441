"""The engine without asyncio: the same verbs, from any thread."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stepwell import Context, Fatal, NotFoundError, RunFailed, Start, SyncEngine, workflow
from stepwell.sinks import EmittedEvent, handler


@workflow
async def greets(ctx: Context, name: str) -> str:
    return f"hello {name}, {(await ctx.receive('mood')).payload}"


@workflow
async def fails(ctx: Context) -> None:
    ctx.fail("no")


def test_a_run_is_started_signalled_and_awaited(tmp_path: Path) -> None:
    with SyncEngine(f"sqlite:///{tmp_path}/sync.db", workflows=[greets]) as engine:
        run = engine.start(greets, "ann", key="K")
        run.signal("mood", "cheerful")

        assert run.result("60s") == "hello ann, cheerful"
        assert engine.status("k").status == "completed"
        assert [entry.kind for entry in engine.runs.history("k")] == ["receive"]
        assert "completed" in engine.explain("k").sentence
        assert [view.run_id for view in engine.runs.list()] == [run.run_id]
        assert engine.runs.handle(greets, "k").result("60s") == "hello ann, cheerful"


def test_errors_reach_the_caller_as_they_are() -> None:
    with SyncEngine("memory:", workflows=[fails, greets]) as engine:
        with pytest.raises(RunFailed, match="Failure: no"):
            engine.start(fails).result("60s")
        with pytest.raises(NotFoundError):
            engine.signal("nobody", "hello")
        assert engine.cancel(engine.start(greets, "bo").run_id) is True


def test_many_threads_may_call_it_at_once() -> None:
    def one(number: int) -> str:
        run = engine.start(greets, str(number))
        engine.signal(run.run_id, "mood", number)
        return run.result("60s")

    with SyncEngine("memory:", workflows=[greets]) as engine, ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(40))) == [f"hello {n}, {n}" for n in range(40)]
        assert len(engine.runs.start_many(greets, [Start("a"), Start("b")])) == 2


def test_an_engine_that_is_not_open_says_so() -> None:
    with pytest.raises(RuntimeError, match="with"):
        SyncEngine("memory:", workflows=[greets]).status("k")


@workflow
async def emits(ctx: Context) -> str:
    return await ctx.emit("told", 1)


def test_a_synchronous_engine_relays_events_and_replays_dead_letters() -> None:
    got: list[EmittedEvent] = []

    def refuse_once(event: EmittedEvent) -> None:
        got.append(event)
        if len(got) == 1:
            raise Fatal("no")

    with SyncEngine("memory:", workflows=[emits], sinks=[handler(refuse_once)]) as engine:
        event_id = engine.start(emits).result("60s")
        while not engine.outbox.list_dead():
            time.sleep(0.01)
        assert engine.outbox.replay(event_id) == 1
        while engine.outbox.list_pending():
            time.sleep(0.01)
        assert engine.outbox.drop(event_id) == 0
    assert [event.id for event in got] == [event_id] * 2


def test_starts_take_the_same_words_as_those_of_the_engine(tmp_path: Path) -> None:
    @workflow
    async def echo(ctx: Context, number: int) -> int:
        return number

    with SyncEngine(f"sqlite:///{tmp_path}/shop.db", workflows=[echo]) as engine:
        run = engine.start(echo, 1, key="k", priority=3, tags={"vip"}, deadline="1h", max_suspend="1m")
        assert run.result() == 1
        view = run.status()
        assert (view.priority, view.tags, view.deadline_at is not None) == (3, {"vip": ""}, True)
        again = engine.runs.start_many(echo, [Start(2, key="k", priority=9)], on_conflict="replace")[0]
        assert (again.result(), again.is_new, again.replaced, again.status().priority) == (2, True, None, 9)
        debounced = [engine.runs.start_debounced(echo, number, key="d", quiet="50ms") for number in (1, 2)]
        assert debounced[0].run_id == debounced[1].run_id
        assert debounced[1].result() == 2


def test_a_synchronous_engine_acts_on_many_runs() -> None:
    @workflow
    async def waits(ctx: Context) -> object:
        return (await ctx.receive("go")).payload

    with SyncEngine("memory:", workflows=[waits]) as engine:
        runs = [engine.start(waits).run_id for _ in range(3)]
        assert {run.run_id for run in engine.bulks.match("workflow:waits")} == set(runs)
        bulk = engine.bulks.start("cancel", "workflow:waits", by="ann")
        while not engine.bulks.get(bulk.name).is_over:
            time.sleep(0.01)

        assert (engine.bulks.get(bulk.name).done, engine.bulks.abort(bulk.name)) == (3, False)
        assert {item.run_id for item in engine.bulks.items(bulk.name)} == set(runs)
        assert [one.name for one in engine.bulks.list()] == [bulk.name]
