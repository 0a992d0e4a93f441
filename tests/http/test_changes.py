"""What changes is streamed: which runs, what a run publishes, and the lines of its streams."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from stepwell import Context, Engine, workflow
from stepwell.http import Role, Tokens, app
from tests.http.desk import TOKENS, Desk

Event = tuple[str, str, Any]  # its name, its id, its data


async def _events(desk: Desk, path: str, seconds: float = 0, mark: str = "", **query: Any) -> list[Event]:
    headers = {"last-event-id": mark} if mark else {}
    answer = await desk.get(path, params={"seconds": seconds, **query}, headers=headers)
    assert answer.status_code == 200, answer.text
    told = []
    for block in answer.text.strip().split("\n\n"):
        if block and not block.startswith(":"):
            fields = dict(line.split(": ", 1) for line in block.split("\n"))
            told.append((fields["event"], fields["id"], json.loads(fields["data"])))
    return told


def _moves(told: list[Event]) -> list[tuple[str, str]]:
    return [(run["workflow"], run["status"]) for _, _, data in told for run in data["runs"]]


async def test_a_follower_of_all_runs_learns_what_starts_waits_and_ends(any_desk: Desk) -> None:
    following = asyncio.ensure_future(_events(any_desk, "/api/changes", 1.2))
    await any_desk.followed()
    waiting = await any_desk.start("approval", key="k")
    done = await any_desk.start("checkout", {"customer": "ann", "amount": 1})
    told = await following

    assert len(told) <= 7  # four a second
    while not {("approval", "waiting"), ("checkout", "completed")} <= {*_moves(told)}:
        told += await _events(any_desk, "/api/changes", 0.5, told[-1][1])
    assert [name for name, _, _ in told] == ["runs"] * len(told)
    assert (told[0][2], {data["is_whole"] for _, _, data in told}) == ({"runs": [], "is_whole": True}, {True})
    latest = {run["run_id"]: run for _, _, data in told for run in data["runs"]}
    assert (latest[waiting]["status"], latest[waiting]["key"]) == ("waiting", "k")
    assert (latest[done]["status"], latest[done]["ended_at"] is None) == ("completed", False)
    assert any_desk.application._services.followers == 0


async def test_a_follower_that_comes_back_misses_nothing(any_desk: Desk) -> None:
    [(_, mark, _)] = await _events(any_desk, "/api/changes")
    await any_desk.start("approval")

    missed = await _events(any_desk, "/api/changes", 0.5, mark)
    while ("approval", "waiting") not in _moves(missed):
        missed += await _events(any_desk, "/api/changes", 0.5, missed[-1][1] if missed else mark)
    again = await _events(any_desk, "/api/changes", 0.3, missed[-1][1])
    stranger = await _events(any_desk, "/api/changes", mark="0123456789ab-7")

    assert missed[0][2]["is_whole"] is True
    assert _moves(missed)[-1] == ("approval", "waiting")
    assert _moves(again) == []
    assert stranger[0][2] == {"runs": [], "is_whole": False}


async def test_a_watched_run_is_reported_with_every_commit(any_desk: Desk) -> None:
    engine, run_id = any_desk.engine, await any_desk.start_waiting("payment")
    following = engine.movements.follow(watched=[run_id, "nobody"])

    first = await anext(following)
    await engine.holds.pause(run_id)
    report = await anext(following)
    await following.aclose()

    assert first is not None
    assert report is not None
    assert (first.runs, first.is_whole) == ((), True)
    assert [(run.run_id, run.status) for run in report.runs] == [(run_id, "paused")]


async def test_one_reader_serves_all_followers_and_ends_with_the_last(desk: Desk) -> None:
    movements = desk.engine.movements
    together = await asyncio.gather(*(_events(desk, "/api/changes", 0.4) for _ in range(20)))

    assert [len(told) for told in together] == [1] * 20
    assert movements._reader is not None
    await asyncio.wait_for(movements._reader, 5)


async def test_what_cannot_be_followed_is_refused(desk: Desk) -> None:
    run_id = await desk.start("approval")
    for path, mark in (
        ("/api/changes", "x"),
        ("/api/changes", "a-b"),
        (f"/api/runs/{run_id}/state/changes", "-1"),
        (f"/api/runs/{run_id}/streams/s/changes", "one"),
    ):
        answer = await desk.get(path, headers={"last-event-id": mark})
        assert (answer.status_code, answer.json()["where"]) == (400, "the header last-event-id"), path
    many = await desk.get("/api/changes", params={"runs": ",".join(map(str, range(201)))})
    assert many.status_code == 400


@workflow
async def talking(ctx: Context) -> str:
    words = ctx.stream("words")
    ctx.publish_state({"stage": "first"})
    await words.append("one")
    await words.append("two")
    await ctx.receive("go")
    ctx.publish_state({"stage": "last"})
    await words.append("three")
    return "done"


@pytest.fixture
async def talk(any_url: str) -> Any:
    async with Engine(any_url, workflows=[talking]) as engine:
        yield Desk(engine, app(engine, access=Tokens(TOKENS)))


async def test_published_state_is_read_and_followed(talk: Desk) -> None:
    run_id = await talk.start_waiting("talking")
    path = f"/api/runs/{run_id}/state"

    first = (await talk.get(path)).json()
    blind = (await talk.get(path, role=Role.VIEWER)).json()["published"]
    following = asyncio.ensure_future(_events(talk, f"{path}/changes", 30))
    await talk.followed()
    await talk.post(f"/api/runs/{run_id}/signals", {"name": "go"})
    told = await following
    rest = await _events(talk, f"{path}/changes", 30, told[-1][1])

    assert [(one["name"], one["value"]) for one in first["published"]] == [("", {"stage": "first"})]
    assert [one["value"] for one in blind] == [{"hidden": True}]
    assert [data["published"][0]["value"]["stage"] for _, _, data in told] == ["first", "last"]
    assert rest == []


async def test_a_stream_is_read_in_pages_and_followed_behind_any_line(talk: Desk) -> None:
    run_id = await talk.start_waiting("talking")
    path = f"/api/runs/{run_id}/streams/words"

    names = (await talk.get(f"/api/runs/{run_id}/streams")).json()["streams"]
    page = (await talk.get(path, params={"limit": 1})).json()
    following = asyncio.ensure_future(_events(talk, f"{path}/changes", 30, "1"))
    await talk.followed()
    await talk.post(f"/api/runs/{run_id}/signals", {"name": "go"})
    told = await following
    end = (await talk.get(path, params={"after": 2})).json()
    blind = (await talk.get(path, role=Role.VIEWER)).json()["lines"]

    assert (names, page["next"], page["is_over"]) == (["words"], 1, False)
    assert [(one["offset"], one["kind"], one["value"]) for one in page["lines"]] == [(1, "item", "one")]
    assert [(mark, data["value"]) for _, mark, data in told] == [("2", "two"), ("3", "three")]
    assert ([line["value"] for line in end["lines"]], end["is_over"]) == (["three"], True)
    assert [line["value"] for line in blind] == [{"hidden": True}] * 3
    assert (await talk.get(f"/api/runs/{run_id}/streams/~bad")).status_code == 400
