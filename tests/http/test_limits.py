"""What a request may bring: each limit at its edge, and what no store could keep faithfully."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from stepwell.http import Limits
from stepwell.http.limits import PAGE_MAX
from tests.http.desk import Desk, open_desk

JSON = {"content-type": "application/json"}
MAX = 100_000


@pytest.mark.parametrize(("extra", "status"), [(-1, 202), (0, 202), (1, 413)])
async def test_a_body_is_taken_up_to_its_limit(tmp_path: Path, extra: int, status: int) -> None:
    frame = '{"topic":"t","payload":""}'
    body = frame.replace('""', f'"{"x" * (MAX + extra - len(frame))}"').encode()
    assert len(body) == MAX + extra
    async with open_desk(f"sqlite:///{tmp_path / 'a.db'}", limits=Limits(body_max=MAX)) as desk:
        whole = await desk.ask("POST", "/api/events", content=body, headers=JSON)

        async def chunks() -> AsyncIterator[bytes]:
            for at in range(0, len(body), 1_000):
                yield body[at : at + 1_000]

        streamed = await desk.ask("POST", "/api/events", content=chunks(), headers=JSON)

    assert (whole.status_code, streamed.status_code) == (status, status)


async def test_a_body_that_never_ends_is_not_read_to_its_end(desk: Desk) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 1 << 30:
            sent += 1 << 16
            yield b"x" * (1 << 16)

    answer = await desk.ask("POST", "/api/events", content=endless(), headers=JSON)

    assert (answer.status_code, answer.json()["code"]) == (413, "SW302")
    assert sent <= (4 << 20) + (1 << 17)


@pytest.mark.parametrize(("depth", "status"), [(62, 202), (65, 400), (100_000, 400)])
async def test_nesting_is_limited(desk: Desk, depth: int, status: int) -> None:
    body = b'{"topic":"t","payload":' + b"[" * depth + b"]" * depth + b"}"

    assert (await desk.ask("POST", "/api/events", content=body, headers=JSON)).status_code == status


@pytest.mark.parametrize(
    "value",
    [
        "NaN",
        "Infinity",
        "-Infinity",
        '{"a":1,"a":2}',
        '"\\ud800"',
        '"\\u0000"',
        "1" * 5_000,
        "1e999",
        "[" + ",".join(["1"] * 100_001) + "]",
        "",
        "'x'",
        "{",
        "\ufeff1",
    ],
)
async def test_json_that_could_not_be_stored_faithfully_is_refused_on_every_store(any_desk: Desk, value: str) -> None:
    body = f'{{"topic":"t","retain":"1h","payload":{value}}}'.encode("utf-8", "surrogatepass")

    answer = await any_desk.ask("POST", "/api/events", content=body, headers=JSON)

    assert answer.status_code in (400, 422), answer.text
    assert (await any_desk.get("/api/events")).json()["events"] == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-type": "application/json; charset=utf-16"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
async def test_only_plain_json_is_taken(desk: Desk, headers: dict[str, str]) -> None:
    answer = await desk.ask("POST", "/api/events", content=b'{"topic":"t"}', headers=headers)

    assert answer.status_code == 415


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"limit": 1}, 200),
        ({"limit": PAGE_MAX}, 200),
        ({"limit": PAGE_MAX + 1}, 400),
        ({"limit": 0}, 400),
        ({"limit": "many"}, 400),
        ({"unknown": 1}, 400),
        ({"cursor": "x"}, 400),
        ({"cursor": "cnVuczo"}, 400),
        ({"q": "status:failed"}, 200),
        ({"q": "status:broken"}, 400),
        ({"q": "x" * 1_025}, 400),
        ({"q": "a\x00b"}, 400),
        ({"q": ["a", "b"]}, 400),
    ],
)
async def test_a_query_is_taken_within_its_bounds(desk: Desk, query: dict[str, Any], status: int) -> None:
    assert (await desk.get("/api/runs", params=query)).status_code == status


async def test_a_wrong_filter_says_what_was_meant(desk: Desk) -> None:
    answer = await desk.get("/api/runs", params={"q": "statsu:failed"})

    assert answer.json()["code"] == "SW407"
    assert "status" in str(answer.json())


@pytest.mark.parametrize(
    "raw", [b"/api/runs?" + query for query in (b"q=%ff", b"q", b"q=" + b"a" * 9_000, b"&a=1" * 60)]
)
async def test_a_query_that_cannot_be_read_is_refused(desk: Desk, raw: bytes) -> None:
    import httpx

    from tests.http.desk import HOST

    answer = await desk.get(str(httpx.URL(HOST, raw_path=raw)))

    assert answer.status_code == 400


@pytest.mark.parametrize("key", ["", "a b", "x" * 201, "é"])
async def test_an_idempotency_key_that_cannot_be_one_is_refused(desk: Desk, key: str) -> None:
    headers: Any = {b"idempotency-key": key.encode("latin-1")}

    answer = await desk.ask("POST", "/api/events", json={"topic": "t"}, headers=headers)

    assert answer.status_code == 400


async def test_a_problem_has_no_stack_statement_or_path_in_it(tmp_path: Path) -> None:
    async with open_desk(f"sqlite:///{tmp_path / 'a.db'}") as desk:

        async def broken(*_: object, **__: object) -> None:
            raise RuntimeError(f"select secret from {tmp_path}")

        desk.engine.workers.list = broken  # type: ignore[method-assign,assignment]
        answer = await desk.get("/api/workers")

    assert (answer.status_code, answer.json()["code"]) == (500, "SW999")
    assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert not any(word in answer.text for word in ("select", str(tmp_path), "RuntimeError", "Traceback", ".py"))


async def test_a_store_that_is_gone_is_503_without_its_place(tmp_path: Path) -> None:
    async with open_desk(f"sqlite:///{tmp_path / 'a.db'}") as desk:
        await desk.engine._backend.store.close()
        answer = await desk.get("/readyz", role=None)

    assert answer.status_code == 503
    assert str(tmp_path) not in answer.text
    assert answer.headers["retry-after"] == "1"
