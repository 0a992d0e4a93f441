"""Saved views: named filters of one person, or shared by all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepwell import Engine, NotFoundError, StepwellError
from stepwell.codec import Encrypted, JsonCodec, Keys
from stepwell.engine.saved_views import COLUMNS


async def test_a_view_is_saved_found_and_deleted_by_its_owner_or_by_all() -> None:
    async with Engine("memory:") as engine:
        views = engine.saved_views
        columns = ["key", "took", "key"]
        mine = await views.save("bad", "status:failed", columns=columns, sort="-took", owner="ann", by="ann")
        await views.save("bad", "status:paused", by="bo")
        await views.save("all", by="bo")

        assert (mine.owner, mine.columns, mine.where) == ("ann", ("key", "took"), "status:failed sort:-took")
        assert [(one.name, one.owner) for one in await views.list(owner="ann")] == [
            ("all", None),
            ("bad", "ann"),
            ("bad", None),
        ]
        assert (await views.get("bad", owner="ann")).filter == "status:failed"
        assert (await views.get("bad", owner="bo")).filter == (await views.get("bad")).filter == "status:paused"

        await views.save("bad", "status:paused,failed", owner="ann", by="ann")
        assert (await views.get("bad", owner="ann")).columns == ()
        await views.delete("bad", owner="ann")
        assert (await views.get("bad", owner="ann")).owner is None
        with pytest.raises(NotFoundError, match="no view 'bad'"):
            await views.delete("bad", owner="ann")
        with pytest.raises(NotFoundError, match="Did you mean 'bad'"):
            await views.get("bat")
        await views.save("bad", "status:completed", owner="ann", by="ann")
        assert (await views.get("bad", owner="ann")).filter == "status:completed"


async def test_a_view_shows_every_column_that_a_listing_has_and_attributes() -> None:
    async with Engine("memory:") as engine:
        columns = [*COLUMNS, "attr.amount", "attr.order.items"]
        saved = await engine.saved_views.save("all", "attr.amount:>5", columns=columns, sort="-attr.amount")
        assert (saved.columns, saved.where) == (tuple(columns), "attr.amount:>5 sort:-attr.amount")


async def test_a_view_that_cannot_be_read_is_listed_with_the_others(tmp_path: Path) -> None:
    url, codec = f"sqlite:///{tmp_path}/v.db", Encrypted(JsonCodec(), keys=Keys("k1", {"k1": bytes(32)}))
    async with Engine(url) as plain:
        await plain.saved_views.save("plain", "status:failed")
        async with Engine(url, codec=codec) as engine:
            await engine.saved_views.save("secret", "input.customer:ann", owner="ann")
            listed = await engine.saved_views.list(owner="ann")
            assert [one.name for one in listed if not one.unreadable] == ["secret"]

        listed = await plain.saved_views.list(owner="ann")
        shown = {one.owner: (one.filter, "cannot be read" in one.unreadable) for one in listed}
        assert shown == {"ann": ("", True), None: ("status:failed", False)}
        with pytest.raises(StepwellError, match="cannot be read"):
            await plain.saved_views.get("secret", owner="ann")


WRONG: list[dict[str, Any]] = [
    {"name": "a/b"},
    {"name": "a", "filter": "statsu:failed"},
    {"name": "a", "filter": "sort:took", "sort": "took"},
    {"name": "a", "sort": "tok"},
    {"name": "a", "columns": ["key", "statu"]},
    {"name": "a", "columns": "key"},
    {"name": "a", "sort": "took status:failed"},
    {"name": "a", "sort": "attr."},
    {"name": "a", "sort": "-attr.a b"},
    {"name": "a", "columns": ["attr.1"]},
    {"name": "a", "columns": [7]},
    {"name": "a", "columns": ["key"] * 51},
    {"name": "a", "owner": ""},
    {"name": "a", "owner": "x" * 151},
]


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_view_that_could_not_be_used_is_not_saved(wrong: dict[str, Any]) -> None:
    async with Engine("memory:") as engine:
        with pytest.raises(StepwellError) as caught:
            await engine.saved_views.save(**wrong)
        assert caught.value.fix or caught.value.why
        assert await engine.saved_views.list(owner="ann") == []
