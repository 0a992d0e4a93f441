"""Acts on many runs over HTTP: planned, ordered once, looked at page by page, and stopped."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell.http import Role
from tests.http.desk import Desk


async def until_over(desk: Desk, name: str) -> dict[str, Any]:
    while True:
        bulk: dict[str, Any] = (await desk.get(f"/api/bulks/{name}")).json()
        if bulk["ended_at"] is not None:
            return bulk
        await asyncio.sleep(0.02)


async def test_an_act_is_planned_then_done_to_all_that_match(any_desk: Desk) -> None:
    runs = [await any_desk.start_waiting("approval") for _ in range(3)]
    order = {"verb": "cancel", "where": "workflow:approval", "options": {"reason": "closing"}}

    plan = (await any_desk.post("/api/bulks", {**order, "dry_run": True})).json()
    assert (plan["state"], plan["matched"], plan["name"]) == ("planned", 3, None)
    assert sorted(plan["sample"]) == sorted(runs)
    assert plan["statuses"] == {"waiting": 3}
    assert {(one["run_id"], one["workflow"], one["status"]) for one in plan["samples"]} == {
        (run_id, "approval", "waiting") for run_id in runs
    }
    assert (await any_desk.get("/api/bulks")).json() == {"bulks": []}

    begun = await any_desk.post("/api/bulks", order, role=Role.OPERATOR)
    assert (begun.status_code, begun.json()["name"], begun.json()["by"]) == (202, "bulk-1", "the operator")
    over = await until_over(any_desk, "bulk-1")
    assert (over["state"], over["matched"], over["done"], over["refused"]) == ("done", 3, 3, 0)
    assert (await any_desk.get(f"/api/runs/{runs[0]}")).json()["run"]["reason"] == "closing"
    acts = (await any_desk.get(f"/api/runs/{runs[0]}/acts")).json()["acts"]
    assert [(act["verb"], act["by"]) for act in acts] == [("cancel", "the operator by bulk-1")]
    assert [one["name"] for one in (await any_desk.get("/api/bulks", role=Role.VIEWER)).json()["bulks"]] == ["bulk-1"]

    first = (await any_desk.get("/api/bulks/bulk-1/items?limit=2")).json()
    rest = (await any_desk.get(f"/api/bulks/bulk-1/items?limit=2&after={first['next']}")).json()
    items = first["items"] + rest["items"]
    assert (len(first["items"]), first["next"], rest["next"]) == (2, 2, None)
    assert {item["run_id"]: item["outcome"] for item in items} == dict.fromkeys(runs, "done")
    assert {(item["key"], item["workflow"], item["version"]) for item in items} == {(None, "approval", 1)}
    assert over["reason"] == "closing"

    again = (await any_desk.post("/api/bulks", {**order, "where": "key:bulk-1,nobody", "dry_run": True})).json()
    assert (again["matched"], again["statuses"], again["samples"]) == (0, {}, [])


async def test_the_same_order_with_the_same_key_is_one_act(any_desk: Desk) -> None:
    await any_desk.start("approval")
    order, headers = {"verb": "pause", "where": "workflow:approval"}, {"idempotency-key": "once"}

    names = [(await any_desk.post("/api/bulks", order, headers=headers)).json()["name"] for _ in range(3)]

    assert names == ["bulk-1"] * 3
    assert len((await any_desk.get("/api/bulks")).json()["bulks"]) == 1
    await until_over(any_desk, "bulk-1")


async def test_named_runs_are_acted_upon_and_refusals_say_why(any_desk: Desk) -> None:
    run_id = await any_desk.start_waiting("approval")
    assert (await any_desk.post("/api/bulks", {"verb": "retry", "runs": [run_id, "nobody"]})).status_code == 202
    over = await until_over(any_desk, "bulk-1")
    items = {item["run_id"]: item for item in (await any_desk.get("/api/bulks/bulk-1/items")).json()["items"]}

    plan = (await any_desk.post("/api/bulks", {"verb": "retry", "runs": [run_id, "nobody"], "dry_run": True})).json()
    refused = (await any_desk.get("/api/bulks/bulk-1/items?outcome=refused&limit=1")).json()
    done = (await any_desk.get("/api/bulks/bulk-1/items?outcome=done")).json()

    assert (over["matched"], over["refused"]) == (2, 2)
    assert (plan["matched"], plan["statuses"]) == (1, {"waiting": 1})
    assert (len(refused["items"]), refused["next"], done) == (1, 1, {"items": [], "next": None})
    assert (items["nobody"]["workflow"], items[run_id]["workflow"]) == (None, "approval")
    assert items[run_id]["status"] == "waiting"
    assert "nobody" in items["nobody"]["why"]


async def test_one_that_is_over_is_not_stopped(any_desk: Desk) -> None:
    await any_desk.post("/api/bulks", {"verb": "pause", "where": "status:paused"})
    await until_over(any_desk, "bulk-1")

    assert (await any_desk.post("/api/bulks/bulk-1/abort")).json()["state"] == "done"
    for path in ("/api/bulks/bulk-7", "/api/bulks/x/items"):
        assert (await any_desk.get(path)).status_code == 404
    assert (await any_desk.post("/api/bulks/bulk-7/abort")).status_code == 404


@pytest.mark.parametrize(
    "order",
    [
        {"verb": "destroy", "where": "status:failed"},
        {"verb": "cancel"},
        {"verb": "cancel", "where": "status:failed", "runs": ["a"]},
        {"verb": "cancel", "where": "status:faild"},
        {"verb": "cancel", "where": "status:failed", "options": {"by": "somebody else"}},
        {"verb": "cancel", "where": "status:failed", "options": {"compensate": 3}},
        {"verb": "rewind", "where": "status:failed"},
        {"verb": "cancel", "where": "status:faild", "dry_run": True},
    ],
)
async def test_what_cannot_be_meant_is_400_and_nothing_is_stored(desk: Desk, order: dict[str, Any]) -> None:
    assert (await desk.post("/api/bulks", order)).status_code == 400
    assert (await desk.get("/api/bulks")).json() == {"bulks": []}
