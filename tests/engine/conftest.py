"""Engine and worker over SQLite in memory, in both modes and in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from stepwell.environment import Environment, system_environment
from stepwell.virtual.loop import VirtualLoop
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger
from tests.cases.stores import STORES


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, type[asyncio.AbstractEventLoop]]:
    """Virtual time for what uses the harness, a real loop for what uses threads."""
    names = getattr(item, "fixturenames", ())
    return {"virtual": VirtualLoop} if "mode" in names else {"real": asyncio.SelectorEventLoop}


@pytest.fixture(params=["live", "yield"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture
async def harness(mode: str) -> AsyncIterator[Harness]:
    harness = Harness(STORES["sqlite"](), mode)
    yield harness
    await harness.close()


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def harness_environment() -> Environment:
    """What a store is opened with, without a loop."""
    return system_environment()
