"""Triggers and saved views over HTTP."""

from __future__ import annotations

from typing import Any

from stepwell.http import Role
from tests.http.desk import Desk, checkout


async def _started(desk: Desk) -> int:
    return len((await desk.get("/runs?q=workflow:checkout")).json()["runs"])


async def test_a_published_event_starts_runs_until_the_trigger_is_paused_or_deleted(any_desk: Desk) -> None:
    desk = any_desk
    await desk.engine.on("paid", start=checkout, key="customer", name="t1")
    await desk.engine.on("other", start=checkout, name="t2")
    paid = {"topic": "paid", "payload": {"customer": "ann", "amount": 3}}

    assert (await desk.post("/events", paid)).status_code == 202
    assert await _started(desk) == 1
    first = (await desk.get("/triggers?limit=1")).json()
    rest = (await desk.get(f"/triggers?limit=1&after={first['next']}", role=Role.VIEWER)).json()
    assert [one["name"] for one in first["triggers"] + rest["triggers"]] == ["t2", "t1"]
    assert rest["next"] is None
    paused = await desk.post("/triggers/t1/pause", {"reason": "a look"}, role=Role.OPERATOR)
    assert paused.json() == {"name": "t1", "changed": True}
    await desk.post("/events", {**paid, "payload": {"customer": "bo", "amount": 3}})
    assert await _started(desk) == 1
    [found] = (await desk.get("/triggers?state=paused")).json()["triggers"]
    assert (found["name"], found["by"], found["reason"], found["key"]) == ("t1", "the operator", "a look", "customer")

    assert (await desk.post("/triggers/t1/resume")).json()["changed"]
    await desk.post("/events", {**paid, "payload": {"amount": 3}})
    shown = (await desk.get("/triggers/t1")).json()
    assert shown["trigger"]["failure"]["message"] == "the event has no `customer`"
    assert [act["verb"] for act in shown["acts"]] == ["failed", "resumed", "paused", "declared"]
    assert (await desk.ask("DELETE", "/triggers/t1")).json()["changed"]
    assert (await desk.get("/triggers/t1")).status_code == 404
    assert [one["name"] for one in (await desk.get("/triggers?topic=other")).json()["triggers"]] == ["t2"]


async def test_a_view_is_saved_used_and_deleted(any_desk: Desk) -> None:
    desk = any_desk
    await desk.start("approval", key="a")
    await desk.start("payment", key="b")
    view: dict[str, Any] = {"filter": "workflow:approval", "columns": ["key", "status"], "sort": "-created"}

    saved = (await desk.ask("PUT", "/views/mine", json=view)).json()
    assert (saved["owner"], saved["columns"], saved["filter"]) == ("the admin", ["key", "status"], "workflow:approval")
    await desk.ask("PUT", "/views/ours", json={"filter": "workflow:payment", "shared": True})
    assert [run["key"] for run in (await desk.get("/runs?view=mine")).json()["runs"]] == ["a"]
    assert [run["key"] for run in (await desk.get("/runs?view=ours", role=Role.VIEWER)).json()["runs"]] == ["b"]
    assert (await desk.get("/runs?view=ours&q=status:failed")).json()["runs"] == []
    assert [one["name"] for one in (await desk.get("/views")).json()["views"]] == ["mine", "ours"]
    assert [one["name"] for one in (await desk.get("/views", role=Role.VIEWER)).json()["views"]] == ["ours"]

    wrong = await desk.ask("PUT", "/views/mine", json={"filter": "statsu:failed"})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "SW407")
    hidden = await desk.ask("PUT", "/views/secret", json={"filter": "input.customer:ann", "shared": True})
    assert hidden.json()["filter"] == "input.customer:ann"
    blind = {one["name"]: one["filter"] for one in (await desk.get("/views", role=Role.VIEWER)).json()["views"]}
    assert blind["secret"] == "(hidden)"
    assert (await desk.get("/runs?view=secret", role=Role.VIEWER)).status_code == 403
    assert (await desk.ask("DELETE", "/views/ours", params={"shared": True})).json()["name"] == "ours"
    assert (await desk.get("/runs?view=ours")).status_code == 404
