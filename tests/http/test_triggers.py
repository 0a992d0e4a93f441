"""Triggers and saved views over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

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


@pytest.mark.parametrize("act", ["pause", "resume", "delete"])
async def test_an_act_is_told_apart_from_one_that_changes_nothing_and_one_on_no_trigger(desk: Desk, act: str) -> None:
    async def ask(name: str) -> tuple[int, Any]:
        done = await (
            desk.ask("DELETE", f"/api/triggers/{name}") if act == "delete" else desk.post(f"/api/triggers/{name}/{act}")
        )
        return done.status_code, done.json()

    await desk.engine.on("paid", start=checkout, name="it's 100% ours?")
    if act == "resume":
        await desk.engine.triggers.pause("it's 100% ours?")

    name = "it's%20100%25%20ours%3F"
    assert await ask(name) == (200, {"name": "it's 100% ours?", "changed": True})
    status, again = await ask(name)
    assert (status, again.get("changed")) == ((404, None) if act == "delete" else (200, False))
    status, missing = await ask("its")
    assert (status, missing["code"]) == (404, "SW401")


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "/api/triggers?state=broken", None, "SW310"),
        ("GET", "/api/triggers?limit=0", None, "SW310"),
        ("POST", "/api/triggers/t/pause", {"reason": 7}, "SW310"),
        ("POST", "/api/triggers/t/pause", {"why": "typo"}, "SW310"),
        ("PUT", "/api/views/mine", {"columns": ["statu"]}, "SW103"),
        ("PUT", "/api/views/mine", {"columns": ["key"] * 51}, "SW310"),
        ("PUT", "/api/views/mine", {"columns": ["attr.a b"]}, "SW103"),
        ("PUT", "/api/views/mine", {"sort": "tok"}, "SW103"),
        ("PUT", "/api/views/mine", {"sort": "took status:failed"}, "SW103"),
        ("PUT", "/api/views/mine", {"filter": "attr.amount:>"}, "SW407"),
        ("PUT", "/api/views/mine", {"filtre": "status:failed"}, "SW310"),
        ("PUT", "/api/views/~mine", {}, "SW102"),
    ],
)
async def test_what_makes_no_sense_is_refused_with_the_reason(
    desk: Desk, method: str, path: str, body: Any, code: str
) -> None:
    await desk.engine.on("paid", start=checkout, name="t")

    answer = await desk.ask(method, path, **({} if body is None else {"json": body}))

    problem = answer.json()
    assert (answer.status_code, problem["code"], bool(problem["title"])) == (400, code, True), problem
    assert (await desk.get("/api/views")).json() == {"views": []}
    assert (await desk.engine.triggers.get("t")).state == "active"


async def test_a_view_has_attributes_as_columns_and_order_and_another_caller_has_another_of_its_name(
    desk: Desk,
) -> None:
    for amount in (7, 42, 5):
        await desk.start("approval", key=f"k{amount}", attributes={"amount": amount})
    await desk.start("approval", key="without")
    await desk.ask("PUT", "/api/views/big", json={"sort": "-attr.amount", "columns": ["key", "attr.amount"]})
    await desk.ask("PUT", "/api/views/big", json={"filter": "-attr.amount:*"}, role=Role.OPERATOR)

    assert [run["key"] for run in (await desk.get("/api/runs?view=big")).json()["runs"]] == ["k42", "k7", "k5"]
    other_order = await desk.get("/api/runs?view=big&q=attr.amount:>5 sort:attr.amount")
    assert [run["key"] for run in other_order.json()["runs"]] == ["k7", "k42"]
    others = await desk.get("/api/runs?view=big", role=Role.OPERATOR)
    assert [run["key"] for run in others.json()["runs"]] == ["without"]
    assert (await desk.get("/api/views/big", role=Role.VIEWER)).status_code == 404
    assert (await desk.ask("DELETE", "/api/views/big", role=Role.OPERATOR)).status_code == 200
    assert (await desk.get("/api/views/big")).json()["columns"] == ["key", "attr.amount"]


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
