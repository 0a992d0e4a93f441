"""Dead letters, alerts and retention over HTTP."""

from __future__ import annotations

import json
from base64 import b64decode

import pytest

from stepwell.care import Alert
from stepwell.http import Role
from stepwell.http.routes import dead_letters as letter_routes
from tests.http.desk import Desk
from tests.http.test_hooks import send, signed


async def test_a_message_that_did_not_fit_is_a_letter_until_it_is_edited_or_comes_again(any_desk: Desk) -> None:
    desk = any_desk
    run_id = await desk.start("approval")
    wrong, right = (json.dumps({"run": run, "ok": 1}).encode() for run in (True, run_id))
    assert (await send(desk, "boss", wrong, signed(wrong))).status_code == 422
    assert (await send(desk, "boss", wrong, signed(wrong))).status_code == 422

    [letter] = (await desk.get("/api/dead-letters?kind=hook", role=Role.VIEWER)).json()["letters"]
    assert (letter["kind"], letter["name"], letter["attempts"], letter["code"]) == ("hook", "boss", 2, "SW310")
    assert "original" not in letter
    name = letter["letter"]
    assert (await desk.post(f"/api/dead-letters/{name}/retry", {}, role=Role.VIEWER)).status_code == 403
    assert (await desk.post(f"/api/dead-letters/{name}/retry", {})).status_code == 422
    answer = await desk.post(f"/api/dead-letters/{name}/edit", {"payload": {"run": run_id}}, role=Role.OPERATOR)
    assert answer.status_code in (200, 422), answer.text
    assert (await desk.post(f"/api/dead-letters/{name}/drop", {"reason": ""})).status_code in (400, 422)
    await desk.post(f"/api/dead-letters/{name}/drop", {"reason": "sent by hand"})
    assert (await desk.get("/api/dead-letters")).json()["letters"] == []
    handled = (await desk.get("/api/dead-letters/handled")).json()["letters"]
    assert handled[0]["letter"] == name
    assert (await desk.get(f"/api/dead-letters/{name}")).status_code == 404
    assert right


async def test_many_letters_are_handled_at_once(any_desk: Desk) -> None:
    desk = any_desk
    for number in range(3):
        body = json.dumps({"run": number}).encode()
        message = b"[%d]" % number
        await send(desk, "boss", message, signed(message, message_id=f"m{number}"))
        assert body
    page = (await desk.get("/api/dead-letters?limit=2")).json()
    rest = (await desk.get(f"/api/dead-letters?limit=2&after={page['next']}")).json()
    assert (len(page["letters"]), len(rest["letters"]), rest["next"]) == (2, 1, None)

    done = await desk.post("/api/dead-letters/all", {"kind": "hook", "reason": "noise"})
    assert done.json() == {"handled": 3, "failed": {}}
    assert (await desk.get("/api/dead-letters")).json() == {"letters": [], "next": None}


async def test_rules_are_created_seen_muted_and_deleted(any_desk: Desk) -> None:
    desk = any_desk
    made = await desk.ask("PUT", "/api/alerts/mine", json={"workflow": "declined", "count": 5, "within": "10m"})
    assert made.json() == {"alert": "mine", "changed": True}
    wrong = await desk.ask("PUT", "/api/alerts/other", json={"failed": True, "consecutive": 2})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "SW103")
    await desk.engine.alerts.create(Alert("second", failed=True))

    first = (await desk.get("/api/alerts?limit=1", role=Role.VIEWER)).json()
    rest = (await desk.get(f"/api/alerts?limit=1&after={first['next']}")).json()
    assert [one["name"] for one in first["alerts"] + rest["alerts"]] == ["second", "mine"]
    assert (await desk.post("/api/alerts/mine/acknowledge", {"note": "x"})).json()["changed"] is False
    assert (await desk.post("/api/alerts/mine/mute", {"duration": "2h", "note": "a deploy"})).json()["changed"]
    tested = (await desk.post("/api/alerts/mine/test")).json()
    assert tested["run_id"]
    shown = (await desk.get("/api/alerts/mine")).json()
    assert (shown["alert"]["rule"], shown["alert"]["muted_by"]) == ("declined: 5 failures within 10m", "the admin")
    assert [act["verb"] for act in shown["acts"]] == ["tested", "muted", "created"]
    assert (await desk.ask("DELETE", "/api/alerts/mine")).json()["changed"]
    assert (await desk.get("/api/alerts/mine")).status_code == 404


async def test_only_an_admin_erases_runs(any_desk: Desk) -> None:
    desk = any_desk
    run_id = await desk.start("declined", {"customer": "ann", "amount": 3}, attributes={"customer": "42"})
    await desk.get(f"/api/runs/{run_id}/result", params={"wait": 20})
    body = {"where": "attr.customer:42", "reason": "asked"}

    assert (await desk.post("/api/retention/erase", body, role=Role.OPERATOR)).status_code == 403
    plan = (await desk.post("/api/retention/erase", {**body, "dry_run": True})).json()
    assert plan == {"matched": 1, "runs": 1, "left": []}
    assert (await desk.get(f"/api/runs/{run_id}")).status_code == 200
    assert (await desk.post("/api/retention/erase", body)).json()["runs"] == 1
    assert (await desk.get(f"/api/runs/{run_id}")).status_code == 404
    [act] = [act for act in (await desk.get("/api/holds/acts")).json()["acts"] if act["verb"] == "erase"]
    assert (act["workflow"], act["by"]) == ("declined", "the admin")
    assert "ann" not in json.dumps(act)
    assert (await desk.get("/api/retention")).json() == {"policy": None, "rounds": [], "backup": None}


async def test_a_look_ahead_counts_what_would_be_deleted_and_deletes_nothing(any_desk: Desk) -> None:
    desk = any_desk
    run_id = await desk.start("declined", {"customer": "ann", "amount": 3})
    await desk.get(f"/api/runs/{run_id}/result", params={"wait": 20})

    unsaid = await desk.get("/api/retention/ahead", role=Role.VIEWER)
    assert (unsaid.status_code, unsaid.json()["code"]) == (400, "SW103")
    assert "nothing says how long" in unsaid.json()["title"]
    none = (await desk.get("/api/retention/ahead", role=Role.VIEWER, params={"ended": "1h"})).json()
    assert none == {"runs": 0, "trees": 0, "by_workflow": {}, "kept": {}, "seen": 0, "is_whole": True}
    assert (await desk.get("/api/retention/ahead", params={"ended": "1s"})).status_code == 400
    assert (await desk.get("/api/retention/ahead", params={"ended": "soon"})).status_code == 400


async def test_the_last_backup_is_shown_without_its_place_to_a_viewer(any_desk: Desk) -> None:
    desk = any_desk
    await desk.engine.retention.note_backup("/backups/shop.db", 4_096)

    backup = (await desk.get("/api/retention")).json()["backup"]
    assert (backup["target"], backup["size"]) == ("/backups/shop.db", 4_096)
    assert (await desk.get("/api/retention", role=Role.VIEWER)).json()["backup"] == {**backup, "target": "(hidden)"}


async def test_the_original_bytes_of_a_letter_are_as_they_came(any_desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = any_desk
    message = b'{"run": true, "who": "\xc3\xa9", "pad": "' + b"x" * 300 + b'"}'
    await send(desk, "boss", message, signed(message))
    [letter] = (await desk.get("/api/dead-letters?kind=hook")).json()["letters"]
    path = f"/api/dead-letters/{letter['letter']}/original"

    found = (await desk.get(path)).json()
    assert (found["size"], found["is_whole"], b64decode(found["base64"])) == (len(message), True, message)
    monkeypatch.setattr(letter_routes, "_ORIGINAL_MAX", 100)
    part = (await desk.get(path)).json()
    assert (part["size"], part["is_whole"], b64decode(part["base64"])) == (len(message), False, message[:100])
    refused = await desk.get(path, role=Role.VIEWER)
    assert (refused.status_code, refused.json()["code"]) == (403, "SW801")
    assert (await desk.get("/api/dead-letters/hook-nothing/original")).status_code == 404
