"""In virtual time, over SQLite in memory."""

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


@pytest_asyncio.fixture
async def harness() -> AsyncIterator[Harness]:
    harness = Harness(STORES["sqlite"](), "live")
    yield harness
    await harness.close()


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()
