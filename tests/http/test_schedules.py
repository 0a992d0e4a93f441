"""Schedules over HTTP."""

from __future__ import annotations

from typing import Any

from stepwell.http import Role
from tests.http.desk import Desk

NIGHTLY: dict[str, Any] = {
    "name": "Nightly",
    "workflow": "checkout",
    "cron": "0 6 * * 1-5",
    "timezone": "Europe/Berlin",
    "input": {"customer": "ann {{fire_date}}", "amount": 3},
    "overlap": "allow",
}


async def test_a_schedule_is_created_changed_paused_and_deleted(any_desk: Desk) -> None:
    desk = any_desk
    made = await desk.post("/api/schedules", NIGHTLY)
    assert (made.status_code, made.headers["location"]) == (201, "schedules/nightly")
    body = made.json()
    assert (body["name"], body["state"], body["when"], body["window_seconds"]) == (
        "nightly",
        "active",
        "At 06:00 on Monday through Friday, Europe/Berlin",
        None,
    )
    assert (await desk.post("/api/schedules", NIGHTLY)).status_code == 409
    blind = (await desk.get("/api/schedules", role=Role.VIEWER)).json()["schedules"][0]
    assert blind["input"] == {"hidden": True}
    changed = await desk.ask("PATCH", "/api/schedules/nightly", json={"jitter": "30s", "window": "1h"})
    again = await desk.ask("PATCH", "/api/schedules/nightly", json={"jitter": "30s"})
    assert (changed.json(), again.json()["changed"]) == ({"name": "nightly", "changed": True}, False)
    paused = await desk.post("/api/schedules/nightly/pause", {"reason": "a look"}, role=Role.OPERATOR)
    assert paused.json()["changed"]
    [listed] = (await desk.get("/api/schedules?state=paused&workflow=checkout")).json()["schedules"]
    assert (listed["by"], listed["reason"], listed["jitter_seconds"], listed["next_at"]) == (
        "the operator",
        "a look",
        30.0,
        None,
    )
    shown = (await desk.get("/api/schedules/nightly")).json()
    assert [act["verb"] for act in shown["acts"]] == ["paused", "updated", "created"]
    assert len(shown["next"]) == 5
    assert (await desk.post("/api/schedules/nightly/resume")).json()["changed"]
    assert (await desk.post("/api/schedules/nightly/use-code")).status_code == 409
    assert (await desk.ask("DELETE", "/api/schedules/nightly")).json()["changed"]
    assert (await desk.get("/api/schedules/nightly")).status_code == 404


async def test_runs_are_started_by_hand_and_for_the_past(any_desk: Desk) -> None:
    desk = any_desk
    await desk.post("/api/schedules", NIGHTLY | {"paused": True})
    begun = (await desk.post("/api/schedules/nightly/trigger", {})).json()
    run = (await desk.get(f"/api/runs/{begun['run_id']}")).json()["run"]
    assert (run["key"], run["started_by"], run["attributes"]["stepwell.schedule"]) == (
        begun["key"],
        "the admin",
        "nightly",
    )
    span = {"since": "2026-01-05T00:00:00+01:00", "until": "2026-01-12T00:00:00+01:00"}
    planned = (await desk.post("/api/schedules/nightly/backfill", span | {"dry_run": True})).json()
    done = (await desk.post("/api/schedules/nightly/backfill", span)).json()
    assert (planned["new"], planned["is_dry_run"], done["new"], done["existing"]) == (5, True, 5, 0)
    assert done["ticks"][0]["local_time"] == "2026-01-05T06:00:00+01:00"
    over = await desk.post("/api/schedules/nightly/backfill", span | {"limit": 4})
    assert (over.status_code, "more than 4 ticks" in over.json()["title"]) == (400, True)
    query = "since=2026-01-05T00:00:00%2B01:00&until=2026-01-07T00:00:00%2B01:00"
    ticks = (await desk.get(f"/api/schedules/nightly/preview?{query}")).json()["ticks"]
    assert [one["fate"] for one in ticks] == ["started", "started"]


async def test_times_are_tried_before_they_are_a_schedule(any_desk: Desk) -> None:
    desk = any_desk
    found = (await desk.get("/api/schedule-times?cron=0%206%20*%20*%20*&timezone=Asia/Tokyo&count=2")).json()
    ticks = found["ticks"]
    assert found["when"] == "At 06:00 every day, Asia/Tokyo"
    assert [one["local_time"][10:] for one in ticks] == ["T06:00:00+09:00"] * 2
    for query, words in {
        "cron=0%200%2030%202%20*": "is never due",
        "cron=0%200%20*%20*%20*&timezone=Mars": "no time zone",
        "every=0s": "cannot be a schedule",
        "": "no times",
    }.items():
        wrong = await desk.get(f"/api/schedule-times?{query}")
        assert (wrong.status_code, words in wrong.json()["title"]) == (400, True), query
    wrong = await desk.post("/api/schedules", NIGHTLY | {"input": {"customer": 7}})
    assert wrong.status_code == 422
    unknown = await desk.post("/api/schedules", NIGHTLY | {"workflow": "nothing"})
    assert unknown.status_code == 404
