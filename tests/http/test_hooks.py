"""Signed messages come in once, as signals or events; everything else is refused before it is parsed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from stepwell import InvalidInputError
from stepwell.clock import SystemClock
from stepwell.errors import InvalidOptionError
from stepwell.http import Hook, Limits, hooks
from stepwell.http.routes import hooks as hook_routes
from stepwell.sinks.signatures import keys_of, sign, verify_signature
from tests.http.desk import SECRET, Desk, open_desk


def signed(
    body: bytes, *, secret: str = SECRET, message_id: str = "m1", late: int = 0, said: bytes | None = None
) -> dict[str, str]:
    at = SystemClock().now() // 1_000_000 - late
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": sign(keys_of(secret), message_id, at, body if said is None else said),
        "content-type": "application/json",
    }


async def send(desk: Desk, hook: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
    return await desk.ask("POST", f"/api/hooks/{hook}", role=None, content=body, headers=headers)


async def test_a_message_becomes_one_signal_also_after_its_run_has_ended(any_desk: Desk) -> None:
    run_id = await any_desk.start("payment")
    body = json.dumps({"data": {"run": run_id}}).encode()
    headers = signed(body)

    first = await send(any_desk, "bank", body, headers)
    result = (await any_desk.get(f"/api/runs/{run_id}/result", params={"wait": 20})).json()
    again = await send(any_desk, "bank", body, headers)
    held = (await any_desk.get("/api/signals/held")).json()["signals"]

    assert (first.json(), again.json()) == (
        {"delivery": "delivered", "reached": 1},
        {"delivery": "duplicate", "reached": 0},
    )
    assert result["output"] == f"paid {{'data': {{'run': '{run_id}'}}}}"
    assert held == []


async def test_a_message_to_an_ended_run_names_its_end_each_time_it_comes(any_desk: Desk) -> None:
    run_id = await any_desk.start("payment")
    body = json.dumps({"data": {"run": run_id}}).encode()
    await send(any_desk, "bank", body, signed(body))
    await any_desk.get(f"/api/runs/{run_id}/result", params={"wait": 20})

    for _ in range(2):
        answer = await send(any_desk, "bank", body, signed(body, message_id="m2"))
        assert (answer.status_code, answer.json()["code"]) == (409, "SW403")
    assert (await any_desk.get("/api/signals/held")).json()["signals"] == []


@pytest.mark.parametrize("message", [b"{}", b'{"run": true}', b'{"run": {"a": 1}}', b"[1]", b"null"])
async def test_a_message_that_names_no_run_is_refused_and_may_come_again(desk: Desk, message: bytes) -> None:
    answers = [await send(desk, "boss", message, signed(message)) for _ in range(2)]

    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(422, InvalidInputError.code)] * 2


async def test_a_message_becomes_one_event(any_desk: Desk) -> None:
    body = b'{"order": 1}'
    headers = signed(body)

    first = await send(any_desk, "shop", body, headers)
    replayed = await send(any_desk, "shop", body, headers)
    audit = (await any_desk.get("/api/audit")).json()["acts"]

    assert (first.status_code, first.json()["delivery"]) == (200, "delivered")
    assert (replayed.status_code, replayed.json()["delivery"]) == (200, "duplicate")
    assert [(act["who"], act["after"]) for act in audit] == [("hook shop", "duplicate"), ("hook shop", "delivered")]


async def test_both_of_two_secrets_count(desk: Desk) -> None:
    body = b"{}"

    answers = [
        await send(desk, "shop", body, signed(body, secret=secret, message_id=secret[:6]))
        for secret in (SECRET, "an older secret of the two")
    ]

    assert [answer.status_code for answer in answers] == [200, 200]


@pytest.mark.parametrize(
    ("hook", "change"),
    [
        ("shop", {"webhook-signature": "v1,AAAA"}),
        ("shop", {"webhook-signature": ""}),
        ("shop", {"webhook-timestamp": "soon"}),
        ("shop", {"webhook-timestamp": "0"}),
        ("shop", {"webhook-id": "another"}),
        ("nothing", {}),
    ],
)
async def test_what_is_not_signed_just_so_is_refused(desk: Desk, hook: str, change: dict[str, str]) -> None:
    answer = await send(desk, hook, b"{}", {**signed(b"{}"), **change})

    assert (answer.status_code, answer.json()["code"]) == (401, "SW431")
    assert (await desk.get("/api/audit")).json()["acts"] == []


@pytest.mark.parametrize("late", [-301, 301])
async def test_a_stale_message_is_refused(desk: Desk, late: int) -> None:
    assert (await send(desk, "shop", b"{}", signed(b"{}", late=late))).status_code == 401


@pytest.mark.parametrize("bit", range(0, 96, 7))
async def test_every_flipped_bit_is_noticed(desk: Desk, bit: int) -> None:
    body = bytearray(b'{"order": 1}')
    headers = signed(bytes(body))
    body[bit // 8] ^= 1 << bit % 8

    assert (await send(desk, "shop", bytes(body), headers)).status_code == 401


async def test_the_signature_is_checked_before_the_body_is_parsed(desk: Desk) -> None:
    garbage = b"[" * 5_000

    assert (await send(desk, "shop", garbage, signed(b"{}"))).status_code == 401
    assert (await send(desk, "shop", garbage, signed(garbage))).status_code == 400


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-signature": ""},
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": "v2," + "A" * 44},
        {"webhook-signature": " ".join(["v1," + "A" * 43 + "="] * 11)},
        {"webhook-timestamp": "soon"},
        {"webhook-timestamp": "0"},
        {"webhook-id": ""},
        {"webhook-id": "x" * 201},
    ],
)
async def test_a_message_that_no_hook_could_take_is_refused_before_its_body_is_read(
    desk: Desk, change: dict[str, str]
) -> None:
    read = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(100):
            read += 1
            yield b"x" * 1_000

    headers = {**signed(b""), **change}
    answers = [
        await desk.ask("POST", f"/api/hooks/{hook}", role=None, content=body(), headers=headers)
        for hook in ("shop", "nothing")
    ]

    assert [answer.status_code for answer in answers] == [401, 401]
    assert _told(answers[0]) == _told(answers[1])
    assert read == 0


def _told(answer: httpx.Response) -> str:
    return answer.text.replace(answer.headers["x-request-id"], "")


@pytest.mark.parametrize(
    "secret", [SECRET, "another", "\x00 no hook has this secret", hooks.STRANGER], ids=["right", "wrong", "old", "own"]
)
@pytest.mark.parametrize("size", [2, 100, 2_000_000])
async def test_nobody_learns_by_an_answer_which_hooks_there_are(desk: Desk, secret: str, size: int) -> None:
    """`nothing` is no hook; `boss` is one, and is asked with a wrong secret."""
    body = b"[" + b" " * (size - 2) + b"]"
    wrong = "not this one" if secret == SECRET else secret
    unknown = await send(desk, "nothing", body, signed(body, secret=secret))
    known = await send(desk, "boss", body, signed(body, secret=wrong if wrong != hooks.STRANGER else "x"))

    assert unknown.status_code == known.status_code == (401 if size < 1_000_000 else 413)
    assert unknown.json()["code"] == known.json()["code"]
    if secret != hooks.STRANGER:
        assert _told(unknown) == _told(known)


async def test_an_unknown_hook_costs_as_many_signatures_as_a_known_one(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    def counting(secret: Any, *args: Any, **more: Any) -> str:
        counted.append(len(keys_of(secret)))
        return verify_signature(secret, *args, **more)

    monkeypatch.setattr(hook_routes, "verify_signature", counting)
    for hook in ("shop", "bank", "nothing"):  # of which only the first has two secrets
        await send(desk, hook, b"{}", signed(b"{}", secret="wrong"))

    assert counted == [2, 2, 2]


async def test_messages_that_are_not_checked_yet_are_kept_within_bounds(tmp_path: Path) -> None:
    limits = Limits(hook_body_max=1_000, hook_buffer_max=1_500)
    async with open_desk(f"sqlite:///{tmp_path / 'a.db'}", limits=limits) as desk:
        more, begun = asyncio.Event(), asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield b" " * 900
            begun.set()
            await more.wait()
            yield b"{}"

        first = asyncio.ensure_future(send(desk, "shop", slow(), signed(b" " * 900 + b"{}")))  # type: ignore[arg-type]
        await begun.wait()
        body = b" " * 700 + b"{}"
        over = await send(desk, "shop", body, signed(body, message_id="m2"))
        small = await send(desk, "shop", b"{}", signed(b"{}", message_id="m3"))
        more.set()
        whole = await first
        after = await send(desk, "shop", body, signed(body, message_id="m2"))
        large = await send(desk, "shop", b" " * 1_001, signed(b" " * 1_001))

    assert (over.status_code, small.status_code, whole.status_code, after.status_code) == (503, 200, 200, 200)
    assert over.headers["retry-after"] == "1"
    assert large.status_code == 413
    assert desk.application._services.unsigned_bytes == 0


@pytest.mark.parametrize("how", [{}, {"topic": "a", "signal": "b", "run": "c"}, {"signal": "b"}, {"run": "c"}])
def test_a_hook_says_what_becomes_of_its_messages(how: dict[str, str]) -> None:
    with pytest.raises(InvalidOptionError):
        Hook(name="x", secret=SECRET, **how)
