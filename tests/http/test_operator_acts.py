"""What operators do over HTTP: mark an effect as undone, write a run as a test, and wait for what a run publishes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stepwell import Context, Engine, Retry, step, workflow
from stepwell.errors import StepwellError
from stepwell.http import Role, Tokens, app, make_token
from tests.http.desk import Desk, Order

ORDER = {"customer": "ann", "amount": 42}
ONCE = Retry(max_attempts=1)
BLIND, BLIND_TOKEN = make_token("blind", Role.OPERATOR, payloads=False)


async def test_a_run_is_written_as_a_test(desk: Desk) -> None:
    run_id = await desk.start("checkout", ORDER, key="Order-1")
    await desk.get(f"/api/runs/{run_id}/result", params={"wait": 20})

    answer = await desk.get(f"/api/runs/{run_id}/test", role=Role.OPERATOR)

    assert answer.status_code == 200
    body = answer.json()
    assert body["file_name"] == "test_order_1.py"
    assert "from tests.http.desk import checkout" in body["text"]
    assert "stepwell.mock('reserve', returns='reserved for ann')" in body["text"]
    assert (await desk.get(f"/api/runs/{run_id}/test", role=Role.VIEWER)).status_code == 403
    assert (await desk.get("/api/runs/nobody/test")).status_code == 404


async def test_published_state_is_waited_for(tmp_path: Path) -> None:
    @workflow
    async def quoting(ctx: Context) -> None:
        await ctx.receive("begin")
        ctx.state["quote"] = 7
        await ctx.receive("end")

    async with Engine(f"sqlite:///{tmp_path}/q.db", workflows=[quoting]) as engine:
        seeing, token = make_token("seeing", Role.OPERATOR)
        desk = Desk(engine, app(engine, access=Tokens([token, BLIND_TOKEN])))
        run = await engine.start(quoting)
        headers = {"authorization": f"Bearer {seeing}"}
        early = await desk.get(
            f"/api/runs/{run.run_id}/state/value", params={"name": "quote"}, role=None, headers=headers
        )
        waiting = asyncio.create_task(
            desk.get(
                f"/api/runs/{run.run_id}/state/value", params={"name": "quote", "wait": 20}, role=None, headers=headers
            )
        )
        await run.signal("begin")
        late = (await waiting).json()
        hidden = await desk.get(
            f"/api/runs/{run.run_id}/state/value",
            params={"name": "quote"},
            role=None,
            headers={"authorization": f"Bearer {BLIND}"},
        )

    assert (early.json()["is_published"], early.json()["value"]) == (False, None)
    assert (late["run_id"], late["name"], late["is_published"], late["value"]) == (run.run_id, "quote", True, 7)
    assert hidden.json()["value"] == {"hidden": True}


async def test_an_effect_is_marked_as_undone(tmp_path: Path) -> None:
    async def release(order: Order) -> None:
        raise OSError("the stock API does not answer")

    async def reserve(order: Order) -> str:
        return "reserved"

    async def refuse(order: Order) -> None:
        raise OSError("no funds")

    @workflow
    async def saga(ctx: Context, order: Order) -> None:
        await ctx.step("reserve", step(reserve, compensate=step(release, retry=ONCE)), order)
        await ctx.step("charge", step(refuse, retry=ONCE), order)

    async with Engine(f"sqlite:///{tmp_path}/m.db", workflows=[saga]) as engine:
        text, token = make_token("ann", Role.OPERATOR)
        desk, headers = Desk(engine, app(engine, access=Tokens([token]))), {"authorization": f"Bearer {text}"}
        run = await engine.start(saga, Order("ann", 42))
        with pytest.raises(StepwellError):
            await run.result("60s")
        place = f"/api/runs/{run.run_id}/mark-undone"

        silent = await desk.post(place, {"path": "reserve"}, role=None, headers=headers)
        other = await desk.post(place, {"path": "charge", "reason": "by hand"}, role=None, headers=headers)
        done = await desk.post(place, {"path": "reserve", "reason": "by hand"}, role=None, headers=headers)
        with pytest.raises(StepwellError):
            await run.result("60s")
        again = await desk.post(place, {"path": "reserve", "reason": "by hand"}, role=None, headers=headers)

        assert [one.status_code for one in (silent, other, done, again)] == [400, 409, 200, 409]
        assert (await run.status()).status == "compensated"
        [act] = await engine.runs.list_acts(run.run_id)
        assert (act.verb, act.by, act.reason) == ("mark_undone", "ann", "by hand")
