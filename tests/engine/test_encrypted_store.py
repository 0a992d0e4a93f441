"""A database with encrypted values takes no value in the clear, from no process."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell import Context, Encrypted, Engine, JsonCodec, Keys, errors, workflow
from tests.http.desk import open_desk

CODEC = Encrypted(JsonCodec(), keys=Keys("k1", {"k1": b"k" * 32}))


@workflow
async def approval(ctx: Context) -> str:
    message = await ctx.receive("approve")
    return f"approved {message.payload}"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'shop.db'}"
    return str(request.getfixturevalue("postgres_url"))


async def test_a_plain_engine_beside_an_encrypted_one_is_refused_at_its_next_write(url: str) -> None:
    async with (
        Engine(url, workflows=[approval], worker=False) as plain,
        Engine(url, workflows=[approval], codec=CODEC) as encrypted,
    ):
        run = await encrypted.start(approval, key="one")

        for write in (
            lambda: plain.start(approval),
            lambda: plain.signal("one", "approve", 5),
            lambda: plain.publish("news", 5),
        ):
            with pytest.raises(errors.EncryptedStoreError, match="in the clear") as caught:
                await write()
            assert caught.value.code == "SW633"
            assert "codec=Encrypted" in caught.value.fix
        with pytest.raises(errors.EncryptedStoreError):
            async with Engine(url, workflows=[approval]):
                pass

        found = await plain.status("one")
        assert found is not None
        assert found.run_id == run.run_id
        await encrypted.signal("one", "approve", 5)
        assert await run.result(timeout="60s") == "approved 5"


async def test_an_operator_without_a_key_can_still_stop_a_run(url: str) -> None:
    async with Engine(url, workflows=[approval], codec=CODEC) as encrypted:
        await encrypted.start(approval, key="one")
        async with Engine(url, worker=False) as plain:
            assert await plain.pause("one", by="ann")
            assert await plain.cancel("one")


async def test_a_server_without_a_key_says_what_is_missing(url: str) -> None:
    async with Engine(url, workflows=[approval], codec=CODEC) as encrypted:
        await encrypted.start(approval, key="one")
        async with open_desk(url, worker=False) as desk:
            refused = await desk.post("/runs", {"workflow": "approval"})
            shown = await desk.get("/runs/one")
            acts = (await desk.get("/audit")).json()["acts"]

    assert refused.json()["code"] == "SW633"
    assert shown.status_code == 200
    assert [act["outcome"] for act in acts] == [str(refused.status_code), "asked"]
