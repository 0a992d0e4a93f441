"""Rehearsals: what a run could not go on with is found without running a body."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, Engine, Fatal, SyncContext, Workflow, step, workflow
from stepwell.codec.json_codec import JsonCodec
from stepwell.environment import system_environment
from stepwell.errors import ReplayError
from stepwell.ids import RunId
from stepwell.model.runs import History, Run
from stepwell.model.states import RunStatus, WaitKind
from stepwell.model.waits import Wait
from stepwell.replay.rehearsals import rehearse
from stepwell.stores.sqlite.store import SqliteStore

bodies: list[str] = []


async def note(what: str) -> str:
    bodies.append(what)
    return what


async def undo_note(what: str) -> None:
    bodies.append(f"undo {what}")


async def refuse(what: str) -> None:
    raise Fatal(what)


async def refuse_to_undo(what: str) -> None:
    raise Fatal(f"cannot undo {what}")


@workflow
async def trip(ctx: Context, name: str) -> str:
    first, second = await asyncio.gather(ctx.step("a", note, name), ctx.step("b", note, name))
    answer = await ctx.receive("go", timeout="1d")
    await ctx.step("c", note, f"{first}{second}{answer.payload}")
    return name


@workflow
def plain_trip(ctx: SyncContext, name: str) -> str:
    first = ctx.step("a", note, name)
    answer = ctx.receive("go", timeout="1d")
    return f"{first}{answer.payload}"


@workflow
async def doomed(ctx: Context, name: str) -> None:
    await ctx.step(step(note, name="a", compensate=undo_note), name)
    await ctx.step(step(note, name="b", compensate=refuse_to_undo), name)
    await ctx.step("c", refuse, name)


async def record(which: Workflow[Any, Any], *, status: str) -> tuple[Run, History]:
    """What is recorded of a run of it that has come as far as a status."""
    store = SqliteStore(system_environment(), ":memory:")
    async with Engine(store, workflows=[which]) as engine:
        handle = await engine.start(which, "x")
        while (await engine.status(handle.run_id)).status != status:  # noqa: ASYNC110  another task waits
            await asyncio.sleep(0.001)
        run = await store.views.find(handle.run_id)
        [history] = await store.runs.load([RunId(handle.run_id)])
    bodies.clear()
    assert run is not None
    return run, history


def _rehearse(which: Workflow[Any, Any], run: Run, history: History) -> ReplayError | None:
    found = rehearse(which, run, history, JsonCodec())
    assert bodies == []
    return found


@pytest.mark.parametrize("which", [trip, plain_trip])
async def test_a_run_goes_on_with_the_code_that_recorded_it_from_every_place(which: Workflow[Any, Any]) -> None:
    run, history = await record(which, status="waiting")

    assert _rehearse(which, run, history) is None
    for last in range(len(history.entries)):
        earlier = run._replace(last_seq=last, status=RunStatus.PENDING)
        assert _rehearse(which, earlier, history._replace(entries=history.entries[:last], waits=())) is None


@pytest.mark.parametrize("which", [trip, plain_trip])
async def test_a_lost_entry_is_missed(which: Workflow[Any, Any]) -> None:
    run, history = await record(which, status="waiting")

    found = _rehearse(which, run, history._replace(entries=history.entries[1:]))

    assert found is not None
    assert found.title in (
        "the code stops before 1 recorded operation",
        "the run waits at go, and the code does not reach it",
    )
    assert "it asks for a" in found.why


async def test_a_wait_that_the_code_does_not_come_to_is_found() -> None:
    run, history = await record(trip, status="waiting")
    elsewhere = Wait(history.entries[0].location, WaitKind.RETRY, 1)

    found = _rehearse(trip, run, history._replace(waits=(elsewhere,)))

    assert found is not None
    assert found.title == "the run waits at a, and the code does not reach it"


async def test_code_that_ends_too_early_is_found() -> None:
    run, history = await record(trip, status="waiting")

    @workflow(name="trip")
    async def raises(ctx: Context, name: str) -> str:
        await ctx.step("a", note, name)
        raise KeyError("b")

    @workflow(name="trip")
    async def returns(ctx: Context, name: str) -> str:
        await asyncio.gather(ctx.step("a", note, name), ctx.step("b", note, name))
        return name

    raised, returned = _rehearse(raises, run, history), _rehearse(returns, run, history)

    assert raised is not None
    assert raised.why == "recorded: step b · now: it raises KeyError: 'b'"
    assert returned is not None
    assert returned.why.endswith("now: it returns")


async def test_what_the_engine_itself_calls_a_divergence_is_one() -> None:
    run, history = await record(trip, status="waiting")

    @workflow(name="trip")
    async def changed(ctx: Context, name: str) -> str:
        return await ctx.once("a", lambda: name)

    found = _rehearse(changed, run, history)

    assert found is not None
    assert found.code == "SW201"


async def test_a_rollback_must_find_its_compensations(monkeypatch: pytest.MonkeyPatch) -> None:
    run, history = await record(doomed, status="compensation_failed")

    @workflow(name="doomed")
    async def doomed_no_more(ctx: Context, name: str) -> None:
        pass

    assert _rehearse(doomed, run, history) is None
    assert _rehearse(doomed_no_more, run, history) is None
    monkeypatch.setattr("stepwell.replay.compensations.find_compensation", lambda name: None)
    for status in (RunStatus.COMPENSATION_FAILED, RunStatus.COMPENSATING, RunStatus.CANCELLING):
        assert _rehearse(doomed, run._replace(status=status), history) is None
        found = _rehearse(doomed_no_more, run._replace(status=status), history)
        assert found is not None
        assert "this worker does not know the compensation" in found.title


async def test_what_has_ended_needs_no_rehearsal() -> None:
    run, history = await record(trip, status="waiting")

    assert _rehearse(trip, run._replace(status=RunStatus.COMPLETED), history._replace(entries=())) is None
