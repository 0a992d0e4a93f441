"""Refused callers leave a line without secrets, and an address that fails often has to wait; memory stays bounded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from stepwell import Engine
from stepwell.clock import Instant, SystemClock
from stepwell.http import Limits, Role, Tokens, app
from stepwell.http.refusals import Buckets, address_of
from tests.http.desk import HOOKS, TEXTS, TOKENS, Desk, open_desk
from tests.http.test_hooks import send, signed

LOGGER = "stepwell.http.refused"


class Hands(SystemClock):
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> Instant:
        return SystemClock().now()

    def monotonic(self) -> float:
        return self.at


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == LOGGER]


async def test_each_refusal_leaves_a_line_without_secrets(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    wrong = "swt_0123456789ab_a-secret-that-is-nobodys"
    await desk.ask("GET", "/api/runs", role=None)
    await desk.ask("GET", f"/api/runs/{wrong}", role=None, headers={"authorization": f"Bearer {wrong}"})
    await desk.post("/api/runs", {"workflow": "checkout"}, role=Role.VIEWER)
    await desk.get("/api/runs", headers={"host": "evil.example"})
    await send(desk, "shop", b"{}", signed(b"{}", secret="another secret"))

    said = lines(caplog)
    assert [line.split(":")[0] for line in said] == [
        "refused 401 SW800",
        "refused 401 SW800",
        "refused 403 SW801",
        "refused 421 SW802",
        "refused 401 SW431",
    ]
    assert "start_run by the viewer from 127.0.0.1" in said[2]
    assert "take_message by an unknown caller" in said[4]
    assert not any(secret in line for secret in (wrong, *TEXTS.values()) for line in said)


async def test_a_throttled_caller_leaves_a_line_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with open_desk(f"sqlite:///{tmp_path / 'a.db'}", limits=Limits(rate=0.001, burst=1)) as desk:
        answers = [await desk.get("/api/workers") for _ in range(2)]

    assert answers[1].status_code == 429
    assert int(answers[1].headers["retry-after"]) >= 1
    assert "refused 429 SW803: list_workers by the admin" in lines(caplog)[0]


@asynccontextmanager
async def clients(hands: Hands, *addresses: str, **limits: Any) -> AsyncIterator[list[httpx.AsyncClient]]:
    async with Engine("memory:") as engine:
        api = app(engine, access=Tokens(TOKENS), hooks=HOOKS, clock=hands, limits=Limits(**limits))
        yield [
            httpx.AsyncClient(transport=httpx.ASGITransport(app=api, client=(each, 1)), base_url="http://localhost")
            for each in addresses
        ]


async def test_an_address_that_fails_often_has_to_wait_and_no_other() -> None:
    hands = Hands()
    admin = {"authorization": f"Bearer {TEXTS[Role.ADMIN]}"}
    async with clients(hands, "192.0.2.1", "192.0.2.2", failure_rate=0.5, failure_burst=3) as (bad, good):
        failed = [await bad.get("/api/runs") for _ in range(5)]
        other = await good.get("/api/runs")
        holder = await bad.get("/api/runs", headers=admin)
        hooked = await bad.post("/api/hooks/shop", content=b"{}", headers=signed(b"{}", secret="another secret"))
        hands.at += 2
        later = [(await bad.get("/api/runs")).status_code for _ in range(2)]

    assert [answer.status_code for answer in failed] == [401, 401, 401, 429, 429]
    assert failed[3].headers["retry-after"] == "2"
    assert failed[3].json()["code"] == "SW803"
    assert (other.status_code, holder.status_code, hooked.status_code) == (401, 200, 429)
    assert later == [401, 429]


async def test_the_lines_about_refusals_are_bounded_and_say_how_many_are_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hands = Hands()
    async with clients(hands, "192.0.2.1") as (client,):
        for _ in range(500):
            await client.get("/api/runs")
        burst = len(lines(caplog))
        hands.at += 1
        await client.get("/api/runs")

    assert burst == 60
    assert len(lines(caplog)) == 61
    assert "440 earlier ones were not logged" in lines(caplog)[-1]


def test_the_memory_for_addresses_is_bounded_and_keeps_the_latest() -> None:
    hands = Hands()
    buckets = Buckets(hands, 1.0, 1, names_max=100)
    for number in range(1_000):
        assert buckets.take(f"address {number}") == 0
    assert len(buckets) == 100
    assert buckets.take("address 999") > 0


@pytest.mark.parametrize(
    ("client", "name"),
    [
        (("192.0.2.1", 5), "192.0.2.1"),
        (("::ffff:192.0.2.1", 5), "192.0.2.1"),
        (("2001:db8:1:2:3:4:5:6", 5), "2001:db8:1:2::/64"),
        (("2001:db8:1:2:ffff::", 5), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 5), "fe80::/64"),
        (("a\x1b[2Jb", 5), "unknown"),
        (None, "unknown"),
    ],
)
def test_addresses_of_one_network_are_one(client: Any, name: str) -> None:
    assert address_of({"client": client}) == name
