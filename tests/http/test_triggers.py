"""Triggers and saved views over HTTP."""

from __future__ import annotations

from typing import Any

from stepwell.http import Role
from tests.http.desk import Desk, checkout


async def _started(desk: Desk) -> int:
    return len((await desk.get("/api/runs?q=workflow:checkout")).json()["runs"])


async def test_a_published_event_starts_runs_until_the_trigger_is_paused_or_deleted(any_desk: Desk) -> None:
    desk = any_desk
    await desk.engine.on("paid", start=checkout, key="customer", name="t1")
    await desk.engine.on("other", start=checkout, name="t2")
    paid = {"topic": "paid", "payload": {"customer": "ann", "amount": 3}}

    assert (await desk.post("/api/events", paid)).status_code == 202
    assert await _started(desk) == 1
    first = (await desk.get("/api/triggers?limit=1")).json()
    rest = (await desk.get(f"/api/triggers?limit=1&after={first['next']}", role=Role.VIEWER)).json()
    assert [one["name"] for one in first["triggers"] + rest["triggers"]] == ["t2", "t1"]
    assert rest["next"] is None
    paused = await desk.post("/api/triggers/t1/pause", {"reason": "a look"}, role=Role.OPERATOR)
    assert paused.json() == {"name": "t1", "changed": True}
    await desk.post("/api/events", {**paid, "payload": {"customer": "bo", "amount": 3}})
    assert await _started(desk) == 1
    [found] = (await desk.get("/api/triggers?state=paused")).json()["triggers"]
    assert (found["name"], found["by"], found["reason"], found["key"]) == ("t1", "the operator", "a look", "customer")

    assert (await desk.post("/api/triggers/t1/resume")).json()["changed"]
    await desk.post("/api/events", {**paid, "payload": {"amount": 3}})
    shown = (await desk.get("/api/triggers/t1")).json()
    assert shown["trigger"]["failure"]["message"] == "the event has no `customer`"
    assert [act["verb"] for act in shown["acts"]] == ["failed", "resumed", "paused", "declared"]
    assert (await desk.ask("DELETE", "/api/triggers/t1")).json()["changed"]
    assert (await desk.get("/api/triggers/t1")).status_code == 404
    assert [one["name"] for one in (await desk.get("/api/triggers?topic=other")).json()["triggers"]] == ["t2"]


async def test_a_view_is_saved_used_and_deleted(any_desk: Desk) -> None:
    desk = any_desk
    await desk.start("approval", key="a")
    await desk.start("payment", key="b")
    view: dict[str, Any] = {"filter": "workflow:approval", "columns": ["key", "status"], "sort": "-created"}

    saved = (await desk.ask("PUT", "/api/views/mine", json=view)).json()
    assert (saved["owner"], saved["columns"], saved["filter"]) == ("the admin", ["key", "status"], "workflow:approval")
    await desk.ask("PUT", "/api/views/ours", json={"filter": "workflow:payment", "shared": True})
    assert [run["key"] for run in (await desk.get("/api/runs?view=mine")).json()["runs"]] == ["a"]
    assert [run["key"] for run in (await desk.get("/api/runs?view=ours", role=Role.VIEWER)).json()["runs"]] == ["b"]
    assert (await desk.get("/api/runs?view=ours&q=status:failed")).json()["runs"] == []
    assert [one["name"] for one in (await desk.get("/api/views")).json()["views"]] == ["mine", "ours"]
    assert [one["name"] for one in (await desk.get("/api/views", role=Role.VIEWER)).json()["views"]] == ["ours"]

    wrong = await desk.ask("PUT", "/api/views/mine", json={"filter": "statsu:failed"})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "SW407")
    hidden = await desk.ask("PUT", "/api/views/secret", json={"filter": "input.customer:ann", "shared": True})
    assert hidden.json()["filter"] == "input.customer:ann"
    blind = {one["name"]: one["filter"] for one in (await desk.get("/api/views", role=Role.VIEWER)).json()["views"]}
    assert blind["secret"] == "(hidden)"
    assert (await desk.get("/api/runs?view=secret", role=Role.VIEWER)).status_code == 403
    assert (await desk.ask("DELETE", "/api/views/ours", params={"shared": True})).json()["name"] == "ours"
    assert (await desk.get("/api/runs?view=ours")).status_code == 404
