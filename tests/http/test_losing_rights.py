"""A token that is taken back, is over or is changed ends what it began: streams, long polls and slow requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from stepwell import Engine
from stepwell.clock import Instant, SystemClock
from stepwell.http import Role, Token, TokenFile, app, make_token
from stepwell.http.routes import OPERATIONS
from stepwell.http.streaming import MEDIA
from stepwell.http.tokens import revoke, write_tokens
from tests.http.desk import WORKFLOWS


class Hands(SystemClock):
    """A clock that is moved by hand, and goes on by itself between."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> Instant:
        return Instant(SystemClock().now() + int(self.ahead * 1_000_000))

    def monotonic(self) -> float:
        return SystemClock().monotonic() + self.ahead


class Door:
    """An API with one token in a file."""

    def __init__(self, engine: Engine, path: Path) -> None:
        self.engine, self.path, self.hands = engine, path, Hands()
        self.text, token = make_token("ann", Role.OPERATOR, lasts="1h", now=self.hands.now())
        self.token: Token = token
        write_tokens(path, [token])
        self.api = app(engine, access=TokenFile(path, clock=self.hands), clock=self.hands)
        transport = httpx.ASGITransport(app=self.api)
        self.client = httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers={"authorization": f"Bearer {self.text}"}
        )

    def take_back(self) -> None:
        revoke(self.path, "ann")

    def remove(self) -> None:
        write_tokens(self.path, [])

    def break_file(self) -> None:
        self.path.write_bytes(b"nonsense\n")

    def expire(self) -> None:
        self.hands.ahead += 3_601

    def demote(self) -> None:
        from msgspec.structs import replace

        write_tokens(self.path, [replace(self.token, payloads=False)])


@asynccontextmanager
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    async with Engine(f"sqlite:///{tmp_path / 'a.db'}", workflows=WORKFLOWS) as engine:
        yield Door(engine, tmp_path / "tokens")


WAYS = [Door.take_back, Door.remove, Door.break_file, Door.expire, Door.demote]


STREAMS = [
    "/api/runs/{run}/changes",
    "/api/changes",
    "/api/runs/{run}/state/changes",
    "/api/runs/{run}/streams/s/changes",
]


def test_every_stream_is_among_those_that_may_lose_their_right() -> None:
    assert sorted(one.path for one in OPERATIONS if one.media == MEDIA) == sorted(
        path.replace("/s/", "/{stream}/") for path in STREAMS
    )


@pytest.mark.parametrize(
    ("lose", "path"), [*((way, STREAMS[0]) for way in WAYS), *((Door.take_back, path) for path in STREAMS[1:])]
)
async def test_a_stream_ends_when_its_token_no_longer_counts(
    tmp_path: Path, lose: Callable[[Door], None], path: str
) -> None:
    async with door(tmp_path) as opened:
        run = await opened.engine.start("approval")
        follow = asyncio.ensure_future(opened.client.get(path.replace("{run}", run.run_id), timeout=None))
        while not opened.api._services.followers:  # noqa: ASYNC110  nothing tells when it has begun
            await asyncio.sleep(0.01)
        lose(opened)
        answer = await asyncio.wait_for(follow, 60)  # without the check it would go on for an hour

    last = answer.text.rstrip().rpartition("\n\n")[2]
    assert last.startswith("event: problem")
    assert json.loads(last.partition("data: ")[2])["status"] == 401


@pytest.mark.parametrize("lose", WAYS, ids=[each.__name__ for each in WAYS])
async def test_a_long_poll_tells_nothing_to_a_token_that_no_longer_counts(
    tmp_path: Path, lose: Callable[[Door], None]
) -> None:
    async with door(tmp_path) as opened:
        run = await opened.engine.start("approval")
        poll = asyncio.ensure_future(
            opened.client.get(f"/api/runs/{run.run_id}/result", params={"wait": 60}, timeout=None)
        )
        await asyncio.sleep(0.05)
        lose(opened)
        opened.hands.ahead += 2
        await opened.engine.signal(run.run_id, "approve", 42)
        answer = await poll

    assert answer.status_code == 401
    assert "42" not in answer.json()["title"]


async def test_an_act_whose_body_came_slowly_is_not_done_for_a_token_that_was_taken_back(tmp_path: Path) -> None:
    async with door(tmp_path) as opened:

        async def drip() -> AsyncIterator[bytes]:
            yield b'{"workflow": "approval", '
            opened.take_back()
            opened.hands.ahead += 2
            yield b'"key": "k"}'

        answer = await opened.client.post("/api/runs", content=drip(), headers={"content-type": "application/json"})
        found = await opened.engine.status("k")

    assert answer.status_code == 401
    assert found is None
