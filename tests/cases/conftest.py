"""Every case runs in both modes and on every store, in virtual time. The versions of PostgreSQL share the modes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from stepwell.virtual.loop import VirtualLoop
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger
from tests.cases.stores import STORES


def pytest_asyncio_loop_factories() -> dict[str, type[VirtualLoop]]:
    return {"virtual": VirtualLoop}


@pytest.fixture(params=["sqlite", "postgres"])
def store_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["live", "yield"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture
async def harness(store_kind: str, mode: str) -> AsyncIterator[Harness]:
    harness = Harness(STORES["postgres16" if (store_kind, mode) == ("postgres", "yield") else store_kind](), mode)
    yield harness
    await harness.close()


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()
