"""The API over SQLite; one sample also over PostgreSQL and in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.http.desk import Desk, open_desk


@pytest_asyncio.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(f"sqlite:///{tmp_path / 'shop.db'}") as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgres", "memory"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "sqlite":
            return f"sqlite:///{tmp_path / 'any.db'}"
        case "postgres":
            return str(request.getfixturevalue("postgres_url"))
        case _:
            return "memory:"


@pytest_asyncio.fixture
async def any_desk(any_url: str) -> AsyncIterator[Desk]:
    async with open_desk(any_url) as opened:
        yield opened
