"""Pausing over HTTP: a run, a workflow, everything; and the chain of causes as JSON."""

from __future__ import annotations

from stepwell.http import Role
from tests.http.desk import Desk


async def test_a_run_is_paused_with_who_and_why_and_resumed(any_desk: Desk) -> None:
    run_id = await any_desk.start("approval")
    paused = (await any_desk.post(f"/api/runs/{run_id}/pause", {"reason": "a look at it"}, role=Role.OPERATOR)).json()
    assert paused["changed"]
    again = await any_desk.post(f"/api/runs/{run_id}/pause", {})

    shown = (await any_desk.get(f"/api/runs/{run_id}")).json()
    assert again.status_code == 200
    assert (shown["run"]["hold"]["by"], shown["run"]["hold"]["reason"]) == ("the operator", "a look at it")
    why = (await any_desk.get(f"/api/runs/{run_id}/why")).json()
    assert [one["kind"] for one in why["chain"]][-1] == "paused"
    assert why["chain"][-1]["next"] == [
        {
            "verb": "resume",
            "target": run_id,
            "options": {},
            "note": "",
            "method": "POST",
            "path": f"/api/runs/{run_id}/resume",
            "command": f"stepwell resume {run_id}",
        }
    ]

    assert (await any_desk.post(f"/api/runs/{run_id}/resume")).json()["changed"]
    acts = (await any_desk.get(f"/api/runs/{run_id}/acts")).json()["acts"]
    assert [(act["verb"], act["by"]) for act in acts] == [("pause", "the operator"), ("resume", "the admin")]


async def test_an_ended_run_is_not_paused(any_desk: Desk) -> None:
    run_id = await any_desk.start("declined", {"customer": "ann", "amount": 1})
    await any_desk.get(f"/api/runs/{run_id}/result?wait=20")

    answer = await any_desk.post(f"/api/runs/{run_id}/pause", {})

    assert (answer.status_code, answer.json()["code"]) == (409, "SW404")


async def test_workflows_are_paused_and_resumed(any_desk: Desk) -> None:
    paused = (await any_desk.post("/api/workflows/approval/pause", {"reason": "the bank is down"})).json()
    assert paused == {"workflow": "approval", "is_paused": True, "changed": True}
    assert not (await any_desk.post("/api/workflows/approval/pause", {})).json()["changed"]
    assert (await any_desk.post("/api/holds/pause", {})).json()["workflow"] is None
    run_id = await any_desk.start("approval")

    holds = (await any_desk.get("/api/holds", role=Role.VIEWER)).json()["holds"]
    assert [(one["workflow"], one["by"], one["reason"]) for one in holds] == [
        (None, "the admin", ""),
        ("approval", "the admin", "the bank is down"),
    ]
    chain = (await any_desk.get(f"/api/runs/{run_id}/why")).json()["chain"]
    assert [one["kind"] for one in chain] == ["all paused", "workflow paused"]
    lines = (await any_desk.get("/api/audit?limit=2")).json()["acts"]
    assert any(line["act"] == "POST /api/runs" or "run" in line["act"] for line in lines)

    assert (await any_desk.post("/api/holds/resume")).json() == {"workflow": None, "is_paused": False, "changed": True}
    assert (await any_desk.post("/api/workflows/approval/resume")).json()["changed"]
    assert (await any_desk.get("/api/holds")).json() == {"holds": []}
    acts = (await any_desk.get("/api/holds/acts", role=Role.VIEWER)).json()["acts"]
    assert [(one["verb"], one["workflow"], one["by"], one["reason"]) for one in acts] == [
        ("resume", "approval", "the admin", ""),
        ("resume", None, "the admin", ""),
        ("pause", None, "the admin", ""),
        ("pause", "approval", "the admin", "the bank is down"),
    ]
    assert (await any_desk.get("/api/holds/acts?limit=1")).json()["acts"] == acts[:1]
    assert (await any_desk.get("/api/holds/acts?limit=0")).status_code == 400


async def test_an_unknown_workflow_is_404(any_desk: Desk) -> None:
    answer = await any_desk.post("/api/workflows/aproval/pause", {})

    assert (answer.status_code, answer.json()["code"]) == (404, "SW402")
