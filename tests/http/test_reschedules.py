"""Waking a run and moving its deadline over HTTP."""

from __future__ import annotations

import asyncio

from stepwell.http import Role
from tests.http.desk import Desk


async def test_a_run_is_woken_and_its_deadline_is_moved(any_desk: Desk) -> None:
    run_id = await any_desk.start("approval")
    for _ in range(200):
        shown = (await any_desk.get(f"/api/runs/{run_id}")).json()
        if shown["run"]["status"] == "waiting":
            break
        await asyncio.sleep(0.05)

    moved = await any_desk.post(f"/api/runs/{run_id}/reschedule", {"delay": "2h"}, role=Role.OPERATOR)
    assert moved.status_code == 200
    body = moved.json()
    assert (body["run_id"], body["path"], body["due_at"] < body["before"]) == (run_id, "approve", True)
    for _ in range(200):
        woken = await any_desk.post(f"/api/runs/{run_id}/wake", {"reason": "a look at it"})
        if woken.status_code == 200:
            break
        await asyncio.sleep(0.05)
    assert woken.json()["changed"]
    acts = (await any_desk.get(f"/api/runs/{run_id}/acts")).json()["acts"]
    assert [act["verb"] for act in acts] == ["reschedule", "wake"]


async def test_a_deadline_that_cannot_be_moved_is_refused(any_desk: Desk) -> None:
    run_id = await any_desk.start("declined", {"customer": "ann", "amount": 1})
    await any_desk.get(f"/api/runs/{run_id}/result?wait=20")

    ended = await any_desk.post(f"/api/runs/{run_id}/reschedule", {"delay": "2h"})
    both = await any_desk.post(f"/api/runs/{run_id}/reschedule", {"delay": "2h", "until": "2026-12-24T08:00:00Z"})
    naive = await any_desk.post(f"/api/runs/{run_id}/reschedule", {"until": "2026-12-24T08:00:00"})
    woken = await any_desk.post(f"/api/runs/{run_id}/wake", {})

    assert (ended.status_code, ended.json()["code"]) == (409, "SW404")
    assert both.status_code == 400
    assert naive.status_code == 400
    assert (woken.status_code, woken.json()["code"]) == (409, "SW404")
