"""Runs are started, seen and steered, the same on every store."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta

import pytest

from stepwell.http import Role
from stepwell.model.ledger import chain_of
from tests.http.desk import Desk

ORDER = {"customer": "ann", "amount": 42}


async def test_a_run_is_started_awaited_and_seen_in_every_form(any_desk: Desk) -> None:
    run_id = await any_desk.start("checkout", ORDER, key="Order-1", tags={"team": "a"})

    result = await any_desk.get(f"/api/runs/{run_id}/result", params={"wait": 20})
    shown = (await any_desk.get("/api/runs/order-1")).json()
    history = (await any_desk.get(f"/api/runs/{run_id}/history")).json()
    tree = (await any_desk.get(f"/api/runs/{run_id}/tree")).json()
    why = (await any_desk.get(f"/api/runs/{run_id}/why")).json()

    assert (result.status_code, result.json()["output"]) == (200, {"text": "reserved for ann", "amount": 42})
    assert (shown["run"]["run_id"], shown["run"]["status"], shown["run"]["input"]) == (run_id, "completed", ORDER)
    assert [(entry["path"], entry["value"]) for entry in history["entries"]] == [("reserve", "reserved for ann")]
    assert [node["path"] for node in tree["root"]["below"]] == ["reserve"]
    assert why["sentence"].endswith("has completed.")


async def test_a_signal_moves_a_waiting_run_on(any_desk: Desk) -> None:
    run_id = await any_desk.start("approval")

    early = await any_desk.get(f"/api/runs/{run_id}/result")
    sent = await any_desk.post(f"/api/runs/{run_id}/signals", {"name": "approve", "payload": 7})
    late = await any_desk.get(f"/api/runs/{run_id}/result", params={"wait": 20})

    assert early.status_code == 202
    assert (sent.status_code, sent.json()) == (202, {"delivery": "delivered"})
    assert late.json()["output"] == "approved 7"


async def test_a_start_with_a_key_happens_once(any_desk: Desk) -> None:
    body, key = {"workflow": "checkout", "input": ORDER}, {"idempotency-key": "once-1"}

    answers = await asyncio.gather(*(any_desk.post("/api/runs", body, headers=key) for _ in range(8)))
    other = await any_desk.post("/api/runs", {**body, "priority": 3}, headers=key)

    assert len({answer.json()["run"]["run_id"] for answer in answers}) == 1
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert (other.status_code, other.json()["code"]) == (409, "SW408")
    assert len((await any_desk.get("/api/runs")).json()["runs"]) == 1


async def test_a_run_is_started_with_attributes_and_found_by_them(any_desk: Desk) -> None:
    attributes = {
        "region": "eu",
        "amount": {"number": "42.10"},
        "exact": {"number": "0.1000000000000000000001"},
        "big": 2**60,
        "vip": True,
        "due": {"time": "2026-12-01T10:00:00+01:00"},
    }
    run_id = await any_desk.start("approval", attributes=attributes, title="Order for Ann")
    await any_desk.start("approval")

    shown = (await any_desk.get(f"/api/runs/{run_id}")).json()["run"]
    assert (shown["title"], shown["started_by"]) == ("Order for Ann", "the admin")
    assert shown["attributes"] == {
        "amount": 42.1,
        "big": 2**60,
        "due": "2026-12-01T09:00:00Z",
        "exact": "0.1000000000000000000001",
        "region": "eu",
        "vip": True,
    }
    for where in ("attr.exact:0.1000000000000000000001", "sort:-attr.amount", 'title:ann started_by:"the admin"'):
        page = (await any_desk.get("/api/runs", params={"q": where})).json()
        assert [run["run_id"] for run in page["runs"]] == [run_id]
    wrong = await any_desk.get("/api/runs", params={"q": "attr.region:>5"})
    assert (wrong.status_code, wrong.json()["code"], wrong.json()["fix"]) == (400, "SW407", 'write attr.region:>"5"')


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"attributes": {"a b": 1}}, "SW103"),
        ({"attributes": {"a": {"time": "2026-12-01T10:00:00"}}}, "SW310"),
        ({"attributes": {"a": {}}}, "SW400"),
        ({"attributes": {"a": {"number": "1e5"}}}, "SW310"),
        ({"attributes": {"a": None}}, "SW310"),
        ({"attributes": {"a": [1]}}, "SW310"),
        ({"attributes": {f"a{number}": 1 for number in range(33)}}, "SW103"),
        ({"title": "two\nlines"}, "SW103"),
        ({"title": ""}, "SW310"),
        ({"by": "somebody else"}, "SW310"),
    ],
)
async def test_a_start_with_attributes_that_cannot_be_stored_is_refused(
    desk: Desk, body: dict[str, object], code: str
) -> None:
    answer = await desk.post("/api/runs", {"workflow": "approval", **body})

    assert (answer.status_code, answer.json()["code"]) == (400, code), answer.text
    assert (await desk.get("/api/runs")).json()["runs"] == []


async def test_a_signal_with_a_key_is_delivered_once(any_desk: Desk) -> None:
    run_id = await any_desk.start("approval")
    body, key = {"name": "approve", "payload": 1}, {"idempotency-key": "yes-1"}

    first = await any_desk.post(f"/api/runs/{run_id}/signals", body, headers=key)
    again = await any_desk.post(f"/api/runs/{run_id}/signals", body, headers=key)
    other = await any_desk.post(f"/api/runs/{run_id}/signals", {**body, "payload": 2}, headers=key)

    assert first.json() == {"delivery": "delivered"}
    assert (again.status_code, again.json()["delivery"]) == (200, "duplicate")
    assert other.status_code == 409


@pytest.mark.parametrize("far", ["400000d", "999999999w"])
async def test_who_says_longer_than_a_hundred_years_means_a_hundred(any_desk: Desk, far: str) -> None:
    body = {"workflow": "approval", "delay": far, "dedup": far, "max_suspend": far}
    started = await any_desk.post("/api/runs", {**body, "key": "patient"})
    hurried = await any_desk.post("/api/runs", {**body, "deadline": far})
    run = started.json()["run"]

    assert (started.status_code, run["status"]) == (201, "pending")
    begins = datetime.fromisoformat(run["wake_at"]) - datetime.fromisoformat(run["created_at"])
    assert begins == timedelta(days=36_500)
    assert (hurried.status_code, hurried.json()["code"]) == (400, "SW103")


async def test_pages_follow_each_other_without_gap_or_overlap(any_desk: Desk) -> None:
    started = [await any_desk.start("checkout", ORDER) for _ in range(7)]

    seen: list[str] = []
    query = {"limit": "3"}
    while True:
        page = (await any_desk.get("/api/runs", params=query)).json()
        seen += [run["run_id"] for run in page["runs"]]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]

    assert sorted(seen) == sorted(started)
    assert len(seen) == len(set(seen))


async def test_failed_runs_are_retried_paused_ones_resumed_and_others_refused(any_desk: Desk) -> None:
    failed, paused = await any_desk.start("declined", ORDER), await any_desk.start("confused", ORDER)
    for run_id in (failed, paused):
        await any_desk.get(f"/api/runs/{run_id}/result", params={"wait": 20})

    refused = await any_desk.post(f"/api/runs/{failed}/resume", role=Role.OPERATOR)
    retried = await any_desk.post(f"/api/runs/{failed}/retry", role=Role.OPERATOR)
    resumed = await any_desk.post(f"/api/runs/{paused}/resume", role=Role.OPERATOR)
    acts = (await any_desk.get(f"/api/runs/{failed}/acts")).json()["acts"]

    assert (refused.status_code, refused.json()["code"]) == (409, "SW404")
    assert (retried.status_code, retried.json()["changed"]) == (200, True)
    assert (resumed.status_code, resumed.json()["changed"]) == (200, True)
    assert [(act["verb"], act["by"], act["before"]) for act in acts] == [("retry", "the operator", "failed")]


async def test_failed_runs_are_repaired_with_a_plan_first(any_desk: Desk) -> None:
    failed = await any_desk.start("declined", ORDER)
    await any_desk.get(f"/api/runs/{failed}/result", params={"wait": 20})

    skippable = (await any_desk.get(f"/api/runs/{failed}/skippable")).json()
    planned = await any_desk.post(f"/api/runs/{failed}/rewind", {"path": "charge", "dry_run": True}, role=Role.OPERATOR)
    unknown = await any_desk.post(f"/api/runs/{failed}/rewind", {"path": "nowhere"}, role=Role.OPERATOR)
    wrong = await any_desk.post(f"/api/runs/{failed}/skip", {"path": "charge", "result": [1]}, role=Role.OPERATOR)
    edited = await any_desk.post(
        f"/api/runs/{failed}/redrive",
        {"from": "/", "version": "new", "input": ORDER, "dry_run": True},
        role=Role.OPERATOR,
    )
    skipped = await any_desk.post(f"/api/runs/{failed}/skip", {"path": "charge", "result": "cash"}, role=Role.OPERATOR)
    result = await any_desk.get(f"/api/runs/{failed}/result", params={"wait": 20})
    again = await any_desk.post(f"/api/runs/{failed}/redrive", {}, role=Role.OPERATOR)
    forked = await any_desk.post(f"/api/runs/{failed}/fork", {"from": "charge", "key": "again"}, role=Role.OPERATOR)

    assert (planned.status_code, planned.json()["dropped"], planned.json()["is_applied"]) == (200, ["charge"], False)
    assert (planned.json()["is_rehearsed"], planned.json()["following"]) == (True, ["charge"])
    assert (planned.json()["kept_count"], planned.json()["dropped_count"]) == (0, 1)
    assert [(one["path"], one["kind"], one["schema"]) for one in skippable["places"]] == [
        ("charge", "step", {"type": "string"})
    ]
    assert (unknown.status_code, unknown.json()["code"]) == (404, "SW401")
    assert (wrong.status_code, wrong.json()["code"]) == (422, "SW310")
    assert (edited.json()["has_new_input"], edited.json()["kept"]) == (True, [])
    assert (skipped.status_code, skipped.json()["supplied"]) == (200, ["charge"])
    assert result.json()["output"] == "cash"
    assert (again.status_code, again.json()["code"]) == (409, "SW404")
    assert (await any_desk.get("/api/runs/again")).json()["run"]["forked_from"] == failed
    assert forked.json()["fork_id"] is not None
    acts = (await any_desk.get(f"/api/runs/{failed}/acts")).json()["acts"]
    assert [(act["verb"], act["by"]) for act in acts] == [("skip", "the operator"), ("fork", "the operator")]


async def test_what_can_be_skipped_is_told_with_the_type_of_its_result(any_desk: Desk) -> None:
    waiting = await any_desk.start_waiting("approval")
    done = await any_desk.start("checkout", ORDER)
    await any_desk.get(f"/api/runs/{done}/result", params={"wait": 20})

    [place] = (await any_desk.get(f"/api/runs/{waiting}/skippable")).json()["places"]
    nothing = (await any_desk.get(f"/api/runs/{done}/skippable")).json()
    skipped = await any_desk.post(f"/api/runs/{waiting}/skip", {"path": place["path"], "result": 5})

    assert (place["kind"], place["names"], place["schema"]) == ("receive", ["approve"], {"type": "integer"})
    assert (nothing["places"], nothing["why_not"]) == ([], f"run {done} is completed, and cannot be reopened")
    assert (skipped.status_code, skipped.json()["supplied"]) == (200, [place["path"]])


async def test_cancelling_twice_is_no_mistake(any_desk: Desk) -> None:
    run_id = await any_desk.start("approval")

    first = await any_desk.post(f"/api/runs/{run_id}/cancel", {"reason": "not needed"})
    again = await any_desk.post(f"/api/runs/{run_id}/cancel")

    assert (first.status_code, first.json()["changed"]) == (200, True)
    assert (again.status_code, again.json()["changed"]) == (200, False)


async def test_every_act_stands_in_the_audit_between_two_lines_of_one_chain(any_desk: Desk) -> None:
    run_id = await any_desk.start("approval")
    await any_desk.post(f"/api/runs/{run_id}/cancel", role=Role.OPERATOR)
    await any_desk.post(f"/api/runs/{run_id}/retry", role=Role.OPERATOR)

    page = (await any_desk.get("/api/audit")).json()["acts"]
    stored = list(reversed(await any_desk.application._services.ledger.list_acts(limit=100)))

    assert [(act["act"], act["who"], act["outcome"]) for act in reversed(page)] == [
        ("start_run", "the admin", "asked"),
        ("start_run", "the admin", "201"),
        ("cancel_run", "the operator", "asked"),
        ("cancel_run", "the operator", "200"),
        ("retry_run", "the operator", "asked"),
        ("retry_run", "the operator", "409"),
    ]
    assert page[2]["target"] == run_id
    chain = ""
    for act in stored:
        assert chain_of(chain, act) == act.chain
        chain = act.chain
    assert chain_of("", stored[0]._replace(who="somebody else")) != stored[0].chain


async def test_events_reach_runs_and_are_kept(any_desk: Desk) -> None:
    key = {"idempotency-key": "packed-1"}
    body = {"topic": "packed", "payload": {"order": 1}, "retain": "1h"}

    first = await any_desk.post("/api/events", body, headers=key)
    again = await any_desk.post("/api/events", body, headers=key)
    kept = (await any_desk.get("/api/events", params={"topic": "packed"})).json()["events"]

    assert first.status_code == again.status_code == 202
    assert first.json()["event_id"] == again.json()["event_id"]
    assert [event["payload"] for event in kept] == [{"order": 1}]


async def test_a_signal_to_an_ended_run_names_its_end_and_is_held_for_its_key_alone(any_desk: Desk) -> None:
    run_id = await any_desk.start("checkout", ORDER, key="order-1")
    await any_desk.get(f"/api/runs/{run_id}/result", params={"wait": 20})
    body = {"name": "approve", "payload": 5}

    by_key = await any_desk.post("/api/runs/order-1/signals", body)
    by_id = await any_desk.post(f"/api/runs/{run_id}/signals", {**body, "if_missing": "hold"})

    for answer in (by_key, by_id):
        assert (answer.status_code, answer.json()["code"]) == (409, "SW403")
        assert answer.json()["title"].endswith("has ended: it is completed")
    assert (await any_desk.get("/api/signals/held")).json()["signals"] == []
    held = await any_desk.post("/api/runs/order-1/signals", {**body, "if_missing": "hold"})
    assert held.json() == {"delivery": "held"}
    [one] = (await any_desk.get("/api/signals/held")).json()["signals"]
    assert (one["target"], one["payload"]) == ("order-1", 5)


async def test_signals_that_nobody_reads_are_found(desk: Desk) -> None:
    body = {"name": "approve", "payload": 5, "if_missing": "hold"}

    sent = await desk.post("/api/runs/nobody-yet/signals", body)
    held = (await desk.get("/api/signals/held")).json()["signals"]
    unread = (await desk.get("/api/signals/unread")).json()["signals"]

    assert sent.json() == {"delivery": "held"}
    assert [(one["target"], one["payload"], one["is_held"]) for one in held] == [("nobody-yet", 5, True)]
    assert unread == []


async def test_workflows_tell_their_types(desk: Desk) -> None:
    found = {each["name"]: each for each in (await desk.get("/api/workflows")).json()["workflows"]}

    assert set(found) == {"checkout", "approval", "payment", "declined", "confused"}
    assert found["approval"]["signals"] == [{"name": "approve", "payload": {"type": "integer"}}]
    assert set(found["checkout"]["input"]["$defs"]["Order"]["properties"]) == {"customer", "amount"}
    assert (await desk.get("/api/workflows/chekout")).json()["title"].endswith("Did you mean 'checkout'?")


async def test_a_workflow_that_only_workers_know_is_started_by_name_and_no_other(desk: Desk) -> None:
    from stepwell import Engine
    from stepwell.http import Tokens, app
    from tests.http.desk import TOKENS

    client = Engine(desk.engine._backend.store)
    stranger = Desk(client, app(client, access=Tokens(TOKENS)))

    started = await stranger.post(
        "/api/runs", {"workflow": "checkout", "input": ORDER}, headers={"idempotency-key": "s"}
    )
    unknown = await stranger.post("/api/runs", {"workflow": "os.system", "input": "id"})

    assert started.status_code == 201
    assert (unknown.status_code, unknown.json()["code"]) == (404, "SW402")


async def test_an_input_that_does_not_fit_names_all_that_is_wrong(desk: Desk) -> None:
    answer = await desk.post("/api/runs", {"workflow": "checkout", "input": {"amount": "4O"}})

    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert answer.json()["code"] == "SW310"
    assert len(answer.json()["violations"]) == 2


async def _events(desk: Desk, path: str, **more: object) -> list[dict[str, str]]:
    answer = await desk.get(path, **more)
    assert answer.status_code == 200, answer.text
    found = []
    for block in answer.text.strip().split("\n\n"):
        if block and not block.startswith(":"):
            found.append(dict(line.split(": ", 1) for line in block.split("\n")))
    return found


async def test_a_follower_is_told_everything_and_goes_on_behind_any_event(any_desk: Desk) -> None:
    run_id = await any_desk.start("approval")
    following = asyncio.ensure_future(_events(any_desk, f"/api/runs/{run_id}/changes", params={"seconds": 30}))
    await asyncio.sleep(0.2)
    await any_desk.post(f"/api/runs/{run_id}/signals", {"name": "approve", "payload": 1})
    told = await following

    later = await _events(any_desk, f"/api/runs/{run_id}/changes", headers={"last-event-id": told[0]["id"]})
    over = await any_desk.get(f"/api/runs/{run_id}/changes", headers={"last-event-id": told[-1]["id"]})

    assert json.loads(told[-1]["data"])["status"] == "completed"
    assert [event["event"] for event in told].count("entry") == 1
    assert [event["event"] for event in later] == ["entry", "run"]
    assert over.status_code == 204
    assert any_desk.application._services.followers == 0


@pytest.mark.parametrize("mark", ["x", "1", "-a", "1-é", "9" * 40 + "-a"])
async def test_what_is_no_event_id_is_refused(desk: Desk, mark: str) -> None:
    run_id = await desk.start("approval")

    answer = await desk.get(f"/api/runs/{run_id}/changes", headers={b"last-event-id": mark.encode()})

    assert answer.status_code == 400
