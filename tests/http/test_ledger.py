"""Idempotency keys and the audit with several servers and several stores."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest

from stepwell.model.ledger import Verified, verify
from tests.http.desk import Desk, open_desk


def schema(url: str, name: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}schema={name}"


async def test_two_stores_in_one_database_share_neither_keys_nor_audit(postgres_url: str) -> None:
    key = {"idempotency-key": "the-same"}
    async with open_desk(schema(postgres_url, "left")) as left, open_desk(schema(postgres_url, "right")) as right:
        deliveries = []
        for desk in (left, right):
            await desk.start("approval", key="order-1")
            sent = await desk.post("/api/runs/order-1/signals", {"name": "approve", "payload": 5}, headers=key)
            deliveries.append(sent.json().get("delivery", sent.text))
        await right.post("/api/runs/order-1/cancel")

        assert deliveries == ["delivered", "delivered"]
        lines = [(await desk.get("/api/audit")).json()["acts"] for desk in (left, right)]
        assert [len(acts) for acts in lines] == [4, 6]
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute("select count(*) from pg_tables where schemaname = 'public'").fetchone()
    assert tables == (0,)


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_two_servers_under_load_leave_one_chain_with_the_outcome_of_every_act(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    is_file = store == "sqlite"
    url = f"sqlite:///{tmp_path / 'shop.db'}" if is_file else str(request.getfixturevalue("postgres_url"))
    async with open_desk(url) as first, open_desk(url, worker=False) as second:

        async def act(desk: Desk, number: int) -> int:
            body = {"workflow": "approval", "key": f"order-{number}"}
            headers = {"idempotency-key": f"key-{number // 2}"}  # each key twice, once at each server
            return (await desk.post("/api/runs", body | {"key": f"order-{number // 2}"}, headers=headers)).status_code

        statuses = await asyncio.gather(*(act((first, second)[number % 2], number) for number in range(40)))

        acts = await first.engine.ledger.list_acts(limit=1_000)
        assert set(statuses) <= {200, 201}
        assert statuses.count(201) == 20
        asked = {line.request_id for line in acts if line.outcome == "asked"}
        answered = {line.request_id for line in acts if line.outcome != "asked"}
        assert asked == answered
        assert len(asked) == 40
        assert verify(await first.engine._backend.store.ledger.head(), reversed(acts)) == Verified(80)
