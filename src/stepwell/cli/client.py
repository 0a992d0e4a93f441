"""A command's way into the engine: open the store, ask one thing, close."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from stepwell.cli.settings import Settings
from stepwell.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import Any

    from stepwell.replay.definition import Workflow
    from stepwell.stores.base.store import Store
    from stepwell.stores.base.views import ViewStore
    from stepwell.wiring import Engine

T = TypeVar("T")


class Client(NamedTuple):
    """The engine's verbs, the store's listings, and the store itself for what is read whole."""

    engine: Engine
    views: ViewStore
    store: Store


def ask(
    settings: Settings,
    question: Callable[[Client], Awaitable[T]],
    *,
    workflows: Iterable[Workflow[Any, Any]] = (),
    may_create: bool = False,
) -> T:
    """Answer a question with a client that executes nothing. Looking never makes a database that was not there."""
    # Here and not above: help and completion must not wait for the engine.
    import asyncio

    from stepwell.codec.base import PAYLOAD_BYTES_MAX
    from stepwell.codec.json_codec import JsonCodec
    from stepwell.codec.offload import Offloaded
    from stepwell.environment import system_environment
    from stepwell.wiring import Engine, open_store

    if not may_create:
        check_exists(settings.db)

    async def run() -> T:
        environment = system_environment()
        store = open_store(settings.db, environment, may_create=may_create)
        # What others keep apart in the database can be read; nothing is kept apart that they might not read.
        codec = Offloaded(JsonCodec(), store.blobs, above=PAYLOAD_BYTES_MAX, payload_bytes_max=PAYLOAD_BYTES_MAX)
        async with Engine(store, workflows=workflows, worker=False, environment=environment, codec=codec) as engine:
            return await question(Client(engine, store.views, store))

    return asyncio.run(run())


def file_of(url: str) -> Path | None:
    """The file behind a SQLite URL; None for everything else that names a store."""
    from stepwell.wiring import sqlite_file, store_kind

    return sqlite_file(url) if store_kind(url) == "sqlite" else None


def check_exists(url: str) -> None:
    """Raise unless a SQLite file is there already."""
    file = file_of(url)
    if file is not None and not file.exists():
        raise StoreError(
            f"there is no database at {file}",
            where=url,
            why="looking does not create one; a worker or a first start does",
            fix=f"stepwell --db {url} worker MODULE, or name another: --db sqlite:///…",
        )
