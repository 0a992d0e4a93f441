"""A command's way to runs: open the store, ask one thing, close."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from stepwell.cli.settings import Settings
from stepwell.errors import StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from stepwell.engine.views import RunView
    from stepwell.environment import Environment
    from stepwell.ids import RunId
    from stepwell.model.runs import Run
    from stepwell.replay.workflows import Workflow
    from stepwell.stores.base.store import Store
    from stepwell.stores.base.views import RunFilter
    from stepwell.wiring import Engine

T = TypeVar("T")


class Client:
    """The store's listings, the store itself for what is read whole, and the engine's verbs.

    The engine is made when it is first asked for: a command that only lists does not wait for its import.
    """

    def __init__(self, store: Store, environment: Environment, workflows: Iterable[Workflow[Any, Any]]) -> None:
        self.store = store
        self.views = store.views
        self._environment = environment
        self._workflows = tuple(workflows)

    @cached_property
    def engine(self) -> Engine:
        """An engine that executes nothing."""
        from stepwell.codec.base import PAYLOAD_BYTES_MAX
        from stepwell.codec.json_codec import JsonCodec
        from stepwell.codec.offload import Offloaded
        from stepwell.wiring import Engine

        # What others keep apart in the database can be read; nothing is kept apart that they might not read.
        codec = Offloaded(JsonCodec(), self.store.blobs, above=PAYLOAD_BYTES_MAX, payload_bytes_max=PAYLOAD_BYTES_MAX)
        return Engine(self.store, workflows=self._workflows, worker=False, environment=self._environment, codec=codec)

    async def close(self) -> None:
        """Close the store, and whatever the engine has begun."""
        if "engine" in self.__dict__:
            await self.engine.shutdown()
            return
        await self.store.close()
        self._environment.executor.close()

    async def list_runs(
        self, where: RunFilter | str = "", *, limit: int, before: RunId | None = None, include_system: bool = False
    ) -> list[RunView]:
        """`engine.runs.list`, without the engine as long as the store answers."""
        from stepwell.engine.filters import parse_filter
        from stepwell.engine.system_runs import list_own, names_system
        from stepwell.engine.views import run_view

        wanted = parse_filter(where, self.store.now()) if isinstance(where, str) else where

        async def list_page(limit: int, before: RunId | None) -> list[Run]:
            return await self.views.list_runs(wanted, limit=limit, before=before)

        try:
            is_all = include_system or names_system(wanted)
            runs = await (list_page(limit, before) if is_all else list_own(list_page, limit, before))
        except StoreUnavailableError:  # the engine asks again
            return await self.engine.runs.list(wanted, limit=limit, before=before, include_system=include_system)
        return [run_view(run) for run in runs]

    async def count_runs(self, where: str, *, limit: int, include_system: bool = False) -> int:
        """How many runs `list_runs` would list, up to a limit."""
        from stepwell.engine.filters import parse_filter
        from stepwell.engine.system_runs import SYSTEM_WORKFLOWS, names_system

        wanted = parse_filter(where, self.store.now())
        found = await self.views.count_runs(wanted, limit=limit)
        if include_system or names_system(wanted) or found >= limit:
            return found
        hidden = [await self.views.count_runs(wanted._replace(workflow=one), limit=limit) for one in SYSTEM_WORKFLOWS]
        return found - sum(hidden)


def ask(
    settings: Settings,
    question: Callable[[Client], Awaitable[T]],
    *,
    workflows: Iterable[Workflow[Any, Any]] = (),
    may_create: bool = False,
) -> T:
    """Answer a question with a client that executes nothing. Looking never makes a database that was not there."""
    # Here and not above: help and completion must not wait for a store.
    import asyncio

    from stepwell.addresses import open_store
    from stepwell.cli.dev.clock import environment_of

    if not may_create:
        check_exists(settings.db)

    async def run() -> T:
        environment = environment_of(settings.db)
        store = open_store(settings.db, environment, may_create=may_create)
        client = Client(store, environment, workflows)
        if workflows:
            client.engine  # noqa: B018  workflows that do not fit together are refused before a database is made
        await store.open()
        try:
            return await question(client)
        finally:
            await client.close()

    return asyncio.run(run())


def check_exists(url: str) -> None:
    """Raise unless a SQLite file is there already."""
    from stepwell.addresses import file_of

    file = file_of(url)
    if file is not None and not file.exists():
        raise StoreError(
            f"there is no database at {file}",
            where=url,
            why="looking does not create one; a worker or a first start does",
            fix=f"stepwell --db {url} worker MODULE, or name another: --db sqlite:///…",
        )
