"""Pages of the whole store: findings, versions, failures in groups, histograms, topics, waits, and the outbox."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Context, Engine, Fatal, workflow
from stepwell.http import Role, Tokens, app
from stepwell.sinks.base import EmittedEvent
from stepwell.sinks.handlers import handler
from tests.http.desk import TOKENS, Desk, until

ORDER = {"customer": "ann", "amount": 42}


async def _end(desk: Desk, *names: str) -> list[str]:
    """Start these workflows, and wait for their ends."""
    ids = [await desk.start(name, ORDER, key=f"{name}-{number}") for number, name in enumerate(names)]
    for run_id in ids:
        await desk.get(f"/api/runs/{run_id}/result", params={"wait": 20})
    return ids


async def test_the_doctor_tells_what_needs_a_person_with_the_request_that_helps(any_desk: Desk) -> None:
    await _end(any_desk, "declined", "confused")

    found = (await any_desk.get("/api/doctor", role=Role.OPERATOR)).json()
    blind = (await any_desk.get("/api/doctor", role=Role.VIEWER)).json()
    whole = (await any_desk.get("/api/doctor", params={"whole": "true"})).json()

    needs = {one["check"]: one for one in found["needs"]}
    assert (found["is_quick"], needs["failed"]["verdict"]) == (True, "warn")
    assert needs["failed"]["fix"] == "POST /api/runs/declined-0/retry"
    assert [(one["method"], one["path"], one["command"]) for one in needs["failed"]["advice"]] == [
        ("POST", "/api/runs/declined-0/retry", "stepwell retry declined-0")
    ]
    assert (needs["failed"]["filter"], needs["failed"]["runs"]) == ("status:failed", 1)
    [example] = needs["failed"]["examples"]
    assert (example["key"], example["workflow"], example["status"]) == ("declined-0", "declined", "failed")
    assert example["advice"]["path"] == "/api/runs/declined-0/retry"
    assert example["why"]
    assert needs["changed code"]["filter"] == "status:paused"
    assert blind["store"] == []
    only = (await any_desk.get("/api/doctor", params={"store": "false"})).json()
    assert (only["store"], [one["check"] for one in only["needs"]]) == ([], [one["check"] for one in found["needs"]])
    assert blind["needs"] == found["needs"]
    quick, everything = ([one["check"] for one in each["store"]] for each in (found, whole))
    assert set(everything) - set(quick) <= {"integrity", "audit"}
    assert ("schema" in quick) == ("audit" in everything) == (any_desk.engine._backend.opened.diagnosis() is not None)


async def test_versions_tell_who_needs_and_who_serves_them(any_desk: Desk) -> None:
    await _end(any_desk, "checkout", "declined")
    await any_desk.start("approval")

    found = {one["workflow"]: one for one in (await any_desk.get("/api/versions")).json()["versions"]}

    assert found["declined"]["runs"] == {"failed": 1}
    assert (found["declined"]["may_retire"], found["declined"]["reason"]) == (False, "1 failed run could be retried")
    assert (found["approval"]["live"], found["checkout"]["runs"]) == (1, {"completed": 1})
    assert [len(one["served_by"]) for one in found.values()] == [1] * len(found)


async def test_a_workflow_tells_how_its_runs_went_and_what_an_input_looks_like(any_desk: Desk) -> None:
    await _end(any_desk, "declined", "declined")
    await any_desk.post("/api/workflows/declined/pause", {"reason": "the bank is down"})

    found = (await any_desk.get("/api/workflows/declined")).json()
    health, [version] = found["health"], found["workflows"]

    assert (health["runs"], health["failed"], health["completed"], health["p50"]) == (2, 2, 0, None)
    assert [(group["type"], group["path"], group["count"]) for group in health["errors"]] == [("Fatal", "charge", 2)]
    assert (found["hold"]["reason"], found["versions"][0]["redrivable"]) == ("the bank is down", 2)
    assert (version["sample"], version["needs_input"]) == ({"customer": "", "amount": 0}, True)
    assert version["source"].startswith("desk.py:")
    assert (await any_desk.post("/api/runs", {"workflow": "declined", "input": version["sample"]})).status_code == 201


async def test_failures_are_grouped_by_what_they_have_in_common(any_desk: Desk) -> None:
    first, *_ = await _end(any_desk, "declined", "checkout", "declined")

    found = (await any_desk.get("/api/errors", params={"q": "workflow:declined since:1h"})).json()
    none = (await any_desk.get("/api/errors", params={"q": "status:completed"})).json()
    cut = (await any_desk.get("/api/errors", params={"limit": 1})).json()
    [group] = found["groups"]

    assert (group["workflow"], group["path"], group["type"], group["message"]) == (
        *("declined", "charge", "Fatal", "no funds"),
    )
    assert (group["count"], group["versions"], group["statuses"]) == (2, {"1": 2}, {"failed": 2})
    assert [one["key"] for one in group["samples"]] == ["declined-2", "declined-0"]
    assert group["samples"][1]["run_id"] == first
    assert none["groups"] == []
    assert (cut["scanned"], cut["is_whole"], found["is_whole"]) == (1, False, True)
    listed = (await any_desk.get("/api/runs", params={"q": group["filter"]})).json()["runs"]
    assert [run["key"] for run in listed] == ["declined-2", "declined-0"]


async def test_a_group_of_failures_names_all_of_its_runs(any_desk: Desk) -> None:
    ids = await _end(any_desk, *["declined"] * 7)
    [group] = (await any_desk.get("/api/errors", params={"q": "workflow:declined"})).json()["groups"]

    whole = (await any_desk.get(f"/api/errors/{group['fingerprint']}")).json()
    narrowed = (await any_desk.get(f"/api/errors/{group['fingerprint']}", params={"q": "key:declined-3"})).json()
    other = await any_desk.get(f"/api/errors/{group['fingerprint']}", params={"q": "status:completed"})

    assert (len(group["samples"]), [one["run_id"] for one in whole["samples"]]) == (5, ids[::-1])
    assert {**whole, "samples": group["samples"]} == group
    assert [one["key"] for one in narrowed["samples"]] == ["declined-3"]
    assert (other.status_code, other.json()["code"]) == (404, "SW401")


async def test_runs_are_counted_and_shown_over_time(any_desk: Desk) -> None:
    await _end(any_desk, "declined", "checkout")
    await any_desk.start("approval")

    whole = (await any_desk.get("/api/runs/histogram", params={"bins": 5, "last": "1h"})).json()
    ranged = (await any_desk.get("/api/runs/histogram", params={"q": "since:10m status:failed", "bins": 10})).json()
    counts = [
        (await any_desk.get("/api/runs/count", params=query)).json()
        for query in ({}, {"q": "status:failed"}, {"limit": 2}, {"q": "workflow:approval", "limit": 1})
    ]

    assert [(one["runs"], one["failed"]) for one in whole["bins"]] == [(0, 0)] * 4 + [(3, 1)]
    assert (whole["is_whole"], whole["counted_since"] == whole["since"]) == (True, True)
    assert sum(one["runs"] for one in ranged["bins"]) == 1
    assert (len(ranged["bins"]), round(ranged["seconds"])) == (10, 60)
    assert [(one["runs"], one["is_more"]) for one in counts] == [(3, False), (1, False), (2, True), (1, False)]


async def test_a_page_of_runs_tells_where_each_is_and_why(any_desk: Desk) -> None:
    await _end(any_desk, "declined", "checkout")
    waiting = await any_desk.start("approval")
    await any_desk.get(f"/api/runs/{waiting}/why")

    page = (await any_desk.get("/api/runs", params={"reasons": "true", "payloads": "false"})).json()
    told = {run["workflow"]: (one["where"], one["why"]) for run, one in zip(page["runs"], page["reasons"], strict=True)}

    assert told["declined"] == ("charge", "Fatal: no funds")
    assert told["checkout"] == ("", "")
    assert {run["input"] for run in page["runs"]} == {None}
    assert (await any_desk.get("/api/runs")).json()["reasons"] is None


async def test_topics_and_waits_tell_who_waits_for_what(any_desk: Desk) -> None:
    for _ in range(2):
        await any_desk.start_waiting("approval")
    await any_desk.post("/api/events", {"topic": "packed", "payload": 1, "retain": "1h"})

    topics = (await any_desk.get("/api/topics")).json()["topics"]
    [group] = (await any_desk.get("/api/waits")).json()["waits"]

    assert [(one["topic"], one["waiting"], one["kept"], one["published"]) for one in topics] == [("packed", 0, 1, 1)]
    assert (group["kind"], group["names"], group["workflow"], group["runs"]) == ("signal", ["approve"], "approval", 2)
    assert group["next_due_at"] is not None

    await any_desk.post("/api/events", {"topic": "lost"})
    recent = (await any_desk.get("/api/events/recent", role=Role.VIEWER)).json()["events"]
    assert [(one["topic"], one["reached"], one["kept_until"] is None) for one in recent] == [
        ("lost", 0, True),
        ("packed", 0, False),
    ]
    assert [
        one["topic"]
        for one in (await any_desk.get("/api/events/recent", params={"topic": "packed", "limit": 1})).json()["events"]
    ] == ["packed"]


async def test_a_signal_that_no_run_read_is_delivered_to_another(any_desk: Desk) -> None:
    await any_desk.post("/api/runs/later/signals", {"name": "approve", "payload": 5, "if_missing": "hold"})
    [held] = (await any_desk.get("/api/signals/held")).json()["signals"]
    path = f"/api/signals/{held['number']}/redeliver"

    nobody = await any_desk.post(path)
    run_id = await any_desk.start("approval")
    sent = await any_desk.post(path, {"to": run_id})
    gone = await any_desk.post(path)
    result = await any_desk.get(f"/api/runs/{run_id}/result", params={"wait": 20})

    assert (nobody.json(), sent.json()) == ({"delivery": "missing"}, {"delivery": "delivered"})
    assert (gone.status_code, gone.json()["fix"]) == (404, "GET /api/signals/unread")
    assert result.json()["output"] == "approved 5"
    assert (await any_desk.post("/api/signals/x/redeliver")).status_code == 400


@workflow
async def shipping(ctx: Context) -> str:
    await ctx.emit("shipped", {"parcel": 7})
    return "shipped"


async def test_dead_letters_are_listed_sent_again_and_dropped(any_url: str) -> None:
    refused, sent = [True], list[Any]()

    async def send(event: EmittedEvent) -> None:
        if refused:
            raise Fatal("503")
        sent.append(event.payload)

    async with Engine(any_url, workflows=[shipping], sinks=[handler(send, name="shop")]) as engine:
        desk = Desk(engine, app(engine, access=Tokens(TOKENS)))
        for key in ("a", "b"):
            await desk.start("shipping", key=key)

        async def both() -> Any:
            found = (await desk.get("/api/outbox/dead", params={"limit": 2})).json()["events"]
            return found if len(found) == 2 else None

        async def all_sent() -> bool:
            return bool(sent) and not (await desk.get("/api/outbox")).json()["events"]

        dead = await until(both)
        page = (await desk.get("/api/outbox/dead", params={"limit": 1})).json()
        [sink] = (await desk.get("/api/outbox/sinks", role=Role.VIEWER)).json()["sinks"]
        blind = (await desk.get("/api/outbox/dead", role=Role.VIEWER)).json()["events"]
        refused.clear()
        first, second = (one["event_id"] for one in dead)
        replayed = await desk.post(f"/api/outbox/{first}/replay", {"sink": "shop"})
        dropped = await desk.post(f"/api/outbox/{second}/drop")
        again = await desk.post(f"/api/outbox/{second}/drop")
        await until(all_sent)
        rest = [(await desk.get(path)).json()["events"] for path in ("/api/outbox", "/api/outbox/dead")]
        assert (await desk.get("/api/outbox/sinks")).json() == {"sinks": []}

    assert [(one["name"], one["sink"], one["failure"], one["payload"]) for one in dead] == [
        ("shipped", "shop", "Fatal: 503", {"parcel": 7})
    ] * 2
    assert (len(page["events"]), page["next"]) == (1, dead[0]["number"])
    assert sink == {"sink": "shop", "pending": 0, "failing": 0, "dead": 2, "oldest_at": None, "failure": "Fatal: 503"}
    assert blind[0]["payload"] == {"hidden": True}
    assert (replayed.json(), dropped.json()["sinks"]) == ({"event_id": first, "sinks": 1}, 1)
    assert (again.status_code, again.json()["fix"]) == (404, "GET /api/outbox/dead")
    assert (sent, rest) == ([{"parcel": 7}], [[], []])


@pytest.mark.parametrize("query", [{"bins": 0}, {"bins": 501}, {"last": "soon"}, {"q": "regoin:eu"}])
async def test_a_histogram_that_makes_no_sense_is_refused(desk: Desk, query: dict[str, Any]) -> None:
    assert (await desk.get("/api/runs/histogram", params=query)).status_code == 400
