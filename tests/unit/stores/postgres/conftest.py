"""Stores for the tests of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Protocol

import pytest_asyncio

from stepwell.environment import system_environment
from stepwell.stores.postgres.pool import InlinePool
from stepwell.stores.postgres.store import PostgresStore
from stepwell.stores.postgres.urls import parse_address


class Opened(Protocol):
    """Opens a store over one connection."""

    async def __call__(self, url: str, pool: InlinePool | None = None) -> PostgresStore: ...


@pytest_asyncio.fixture
async def opened() -> AsyncIterator[Opened]:
    """Opens stores, and closes them also after a test that fails: the collector would warn in another test."""
    async with AsyncExitStack() as stack:

        async def open_one(url: str, pool: InlinePool | None = None) -> PostgresStore:
            store = PostgresStore(system_environment(), url, pool=pool or InlinePool(parse_address(url)))
            stack.push_async_callback(store.close)
            await store.open()
            return store

        yield open_one
