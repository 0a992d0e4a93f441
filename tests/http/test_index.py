"""The path / names the API, and what a start says about a run that was there already."""

from __future__ import annotations

from tests.http.desk import Desk


async def test_the_root_names_the_api_and_links_to_its_parts(desk: Desk) -> None:
    body = (await desk.get("/api/")).json()

    assert body["name"] == "stepwell"
    for path in body["links"].values():
        assert (await desk.get(f"/api/{path}")).status_code == 200


async def test_a_browser_gets_a_page(desk: Desk) -> None:
    answer = await desk.get("/api/", headers={"accept": "text/html,application/xhtml+xml"})

    assert answer.headers["content-type"].startswith("text/html")
    assert '<a href="openapi.json">openapi</a>' in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


async def test_an_unknown_path_says_where_the_paths_are(desk: Desk) -> None:
    problem = (await desk.get("/nothing")).json()

    assert (problem["status"], problem["title"]) == (404, "this API has no such path")
    assert problem["fix"] == "GET /api/openapi.json lists every path"


async def test_a_start_that_finds_an_ended_run_says_so(desk: Desk) -> None:
    body = {"workflow": "declined", "input": {"customer": "ann", "amount": 42}, "key": "k"}
    first = (await desk.post("/api/runs", body)).json()
    await desk.get(f"/api/runs/{first['run']['run_id']}/result?wait=20")

    again = await desk.post("/api/runs", body)

    assert (first["note"], first["advice"]) == ("", [])
    assert (again.status_code, again.json()["is_new"]) == (200, False)
    assert again.json()["note"] == "nothing was started: this run was there already, and is failed"
    assert [one["path"] for one in again.json()["advice"]] == [f"/api/runs/{first['run']['run_id']}/retry"]


async def test_system_runs_are_listed_on_request(desk: Desk) -> None:
    await desk.start("approval")
    await desk.post("/api/bulks", {"verb": "pause", "where": "workflow:approval"})

    async def listed(query: str) -> list[str]:
        return sorted(run["workflow"] for run in (await desk.get(f"/api/runs{query}")).json()["runs"])

    assert await listed("") == ["approval"]
    assert await listed("?system=true") == ["approval", "stepwell.bulk"]
    assert await listed("?q=workflow:stepwell.bulk") == ["stepwell.bulk"]


async def test_advice_in_a_problem_names_the_request(desk: Desk) -> None:
    problem = (await desk.get("/api/runs/nobody")).json()

    assert problem["fix"] == "GET /api/runs"
    assert [(one["verb"], one["method"], one["path"]) for one in problem["advice"]] == [("list", "GET", "/api/runs")]
