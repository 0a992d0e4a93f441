"""The record of a run: in pages, as a tree of a bounded size, as it was before, and beside that of another run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from stepwell import Context, Engine, Fatal, step, workflow
from stepwell.http import Role, Tokens, app
from tests.http.desk import TOKENS, Desk

ROWS = 120
HIDDEN = {"hidden": True}


async def read(number: int) -> str:
    return "x" * 5_000 if number == 3 else f"row {number}"


async def reserve(name: str) -> str:
    return f"reserved {name}"


async def release(name: str) -> None:
    return None


async def charge(name: str) -> str:
    if name == "bad":
        raise Fatal("no funds")
    return f"paid {name}"


undoable = step(reserve, compensate=release)


@workflow
async def importing(ctx: Context, name: str) -> int:
    await ctx.step("reserve", undoable, name)
    ctx.publish_state("reserved")

    async def one(ctx: Context, number: int) -> None:
        await ctx.step("read", read, number)

    await ctx.map("rows", one, range(ROWS))
    ctx.publish_state("read")
    await ctx.step("charge", charge, name)
    return ROWS


@pytest.fixture
async def desk(any_url: str) -> AsyncIterator[Desk]:
    async with Engine(any_url, workflows=[importing]) as engine:
        desk = Desk(engine, app(engine, access=Tokens(TOKENS)))
        for name in ("good", "bad"):
            await desk.start("importing", name, key=name)
            await desk.get(f"/api/runs/{name}/result", params={"wait": 60})
        yield desk


def _below(node: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [one for one in node["below"] if one["name"] == name]
    return dict(found)


async def test_lines_are_found_by_kind_and_by_text(desk: Desk) -> None:
    path = "/api/runs/bad/history"
    steps = (await desk.get(path, params={"kinds": "map,step", "text": "ROWS/~11", "limit": 3})).json()
    rest = (await desk.get(path, params={"kinds": "step", "text": "rows/~11", "after": steps["next"]})).json()
    undos = (await desk.get(path, params={"text": "undo done"})).json()
    nothing = (await desk.get(path, params={"text": "nothing like this"})).json()
    wrong = await desk.get(path, params={"kinds": "step,setp"})

    assert (len(steps["entries"]), steps["matching"], rest["matching"], rest["next"]) == (3, 11, 11, None)
    paths = {one["path"] for one in steps["entries"] + rest["entries"]}
    assert paths == {f"rows/~{number}/read" for number in (11, *range(110, 120))}
    assert [(one["path"], one["kind"]) for one in undos["entries"]] == [("reserve~undo", "undo")]
    assert (nothing["entries"], nothing["matching"]) == ([], 0)
    assert (wrong.status_code, wrong.json()["where"]) == (400, "kinds")


async def test_an_undo_that_was_done_has_its_time(desk: Desk) -> None:
    [undo] = (await desk.get("/api/runs/bad/undos")).json()["undos"]

    assert (undo["path"], undo["state"], undo["attempts"]) == ("reserve", "undone", 1)
    assert undo["at"] is not None
    assert undo["took"] >= 0


async def test_a_tree_shows_a_part_and_counts_the_rest(desk: Desk) -> None:
    whole = (await desk.get("/api/runs/good/tree", params={"limit": 100})).json()
    page = (await desk.get("/api/runs/good/tree", params={"under": "rows", "first": 50, "limit": 5})).json()
    nowhere = await desk.get("/api/runs/good/tree", params={"under": "rows/~999"})
    rows = _below(whole["root"], "rows")

    assert [one["path"] for one in whole["root"]["below"]] == ["reserve", "rows", "charge"]
    assert (rows["children"], rows["count"], rows["failed"]) == (ROWS, 2 * ROWS + 1, 0)
    assert [one["number"] for one in rows["below"]] == [*range(20), *range(ROWS - 5, ROWS)]
    assert (rows["entry"]["kind"], rows["began_at"] <= rows["ended_at"]) == ("map", True)
    assert [one["name"] for one in page["root"]["below"]] == [f"~{number}" for number in range(50, 55)]
    assert [one["below"] for one in page["root"]["below"]] == [[]] * 5
    assert (whole["at"], whole["last"], whole["is_past"]) == (whole["last"], 2 * ROWS + 3, False)
    assert (nowhere.status_code, nowhere.json()["code"]) == (404, "SW401")


async def test_a_large_value_is_left_out_of_a_tree_and_read_by_its_line(desk: Desk) -> None:
    tree = (await desk.get("/api/runs/good/tree", params={"under": "rows/~3"})).json()
    [node] = tree["root"]["below"]

    line = (await desk.get(f"/api/runs/good/history/{node['entry']['seq']}")).json()
    blind = (await desk.get(f"/api/runs/good/history/{node['entry']['seq']}", role=Role.VIEWER)).json()

    assert (node["path"], node["entry"]["value"], node["omitted"] > 5_000) == ("rows/~3/read", None, True)
    assert (line["path"], line["value"], blind["value"]) == ("rows/~3/read", "x" * 5_000, HIDDEN)
    for wrong, status in (("0", 404), ("99999", 404), ("x", 400), ("9" * 20, 400)):
        assert (await desk.get(f"/api/runs/good/history/{wrong}")).status_code == status


async def test_a_history_is_read_in_pages_from_any_line(desk: Desk) -> None:
    seen: list[dict[str, Any]] = []
    query = {"limit": 100, "after": 0}
    while True:
        page = (await desk.get("/api/runs/bad/history", params=query)).json()
        seen += page["entries"]
        if page["next"] is None:
            break
        query["after"] = page["next"]

    seqs = [entry["seq"] for entry in seen]
    assert seqs == sorted(set(seqs))
    by_path = {entry["path"]: entry for entry in seen}
    assert (by_path["reserve"]["can_undo"], by_path["reserve"]["is_undone"]) == (True, True)
    assert by_path["charge"]["failure"]["message"] == "no funds"
    assert len(seen) == 2 * ROWS + 4


async def test_a_run_is_seen_as_it_was_after_a_line(desk: Desk) -> None:
    lines = (await desk.get("/api/runs/bad/history", params={"limit": 500})).json()["entries"]
    reserved = next(line["seq"] for line in lines if line["path"] == "reserve")
    mapped = next(line["seq"] for line in lines if line["path"] == "rows")

    then = (await desk.get("/api/runs/bad/tree", params={"at": reserved})).json()
    later = (await desk.get("/api/runs/bad/tree", params={"at": mapped})).json()
    now = (await desk.get("/api/runs/bad/tree", params={"at": 999_999})).json()

    root = then["root"]
    assert (then["at"], then["is_past"], then["moment"]) == (reserved, True, lines[0]["at"])
    assert (root["count"], _below(root, "reserve")["entry"]["is_undone"]) == (1, False)
    assert [one["is_moving"] for one in root["below"] if one["name"] == "rows"] == [True]
    assert [(one["name"], one["is_known"], one["value"]) for one in then["published"]] == [("", False, None)]
    assert (_below(later["root"], "rows")["count"], later["root"]["failed"]) == (2 * ROWS + 1, 0)
    assert (now["is_past"], now["root"]["failed"]) == (False, 1)
    assert _below(now["root"], "reserve")["entry"]["is_undone"] is True
    assert now["published"][0]["value"] == "read"


async def test_the_undo_stack_tells_what_became_of_each_undo(desk: Desk) -> None:
    stack = (await desk.get("/api/runs/bad/undos")).json()["undos"]

    assert [(one["path"], one["state"], one["failure"]) for one in stack] == [("reserve", "undone", None)]
    assert (await desk.get("/api/runs/good/undos")).json()["undos"] == []


async def test_two_runs_are_compared_by_path(desk: Desk) -> None:
    found = (await desk.get("/api/compare/good/bad")).json()
    everything = (await desk.get("/api/compare/good/bad", params={"all": "true"})).json()
    same = (await desk.get("/api/compare/good/good")).json()
    blind = (await desk.get("/api/compare/good/bad", role=Role.VIEWER)).json()

    changed = {one["path"]: one["changes"] for one in found["places"]}
    assert (found["is_same"], found["parts_at"], found["differing"]) == (False, "reserve", 3)
    assert changed == {"reserve": ["value"], "charge": ["status", "value", "failure"], "reserve~undo": []}
    assert (found["facts"]["input"], found["facts"]["status"]) == (["good", "bad"], ["completed", "compensated"])
    assert len(everything["places"]) == found["equal"] + found["differing"]
    assert (same["is_same"], same["places"]) == (True, [])
    # Who may not see values is not told either whether two of them are equal.
    assert {one["path"]: one["changes"] for one in blind["places"]} == {
        "charge": ["status", "failure"],
        "reserve~undo": [],
    }
    assert "input" not in blind["facts"]
