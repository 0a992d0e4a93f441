"""Undoing a completed run over HTTP."""

from __future__ import annotations

from tests.http.desk import Desk


async def test_only_a_completed_run_with_something_to_undo_is_compensated(any_desk: Desk) -> None:
    waiting = await any_desk.start("approval")
    refused = await any_desk.post(f"/api/runs/{waiting}/compensate", {})
    completed = await any_desk.start("checkout", {"customer": "ann", "amount": 1})
    await any_desk.get(f"/api/runs/{completed}/result?wait=20")
    empty = await any_desk.post(f"/api/runs/{completed}/compensate", {"reason": "returned"})

    assert (refused.status_code, refused.json()["code"]) == (409, "SW404")
    assert (empty.status_code, "nothing to undo" in empty.text) == (409, True)
