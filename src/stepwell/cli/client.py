"""How a command reaches runs: open the store, answer one question, close."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

from stepwell.cli.settings import Settings
from stepwell.errors import StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from stepwell.app import App
    from stepwell.engine.views import RunView
    from stepwell.environment import Environment
    from stepwell.ids import RunId
    from stepwell.replay.workflows import Workflow
    from stepwell.stores.base.store import Store
    from stepwell.stores.base.views import Detail, RunFilter
    from stepwell.wiring import Engine

T = TypeVar("T")

_GRACE_SECONDS: Final = 10.0


class Client:
    """The store, its listings, and the verbs of the engine.

    The engine is created on first use: a command that only lists does not wait for its import.
    """

    def __init__(
        self, settings: Settings, store: Store, environment: Environment, workflows: Iterable[Workflow[Any, Any]]
    ) -> None:
        self._settings = settings
        self.store = store
        self.views = store.views
        self._environment = environment
        self._workflows = tuple(workflows)

    @cached_property
    def engine(self) -> Engine:
        """An engine that executes nothing, with the codec and the sinks of the application if there is one."""
        from stepwell.app import reading_codec
        from stepwell.wiring import Engine

        app = self.app
        return Engine(
            self.store,
            workflows=self._workflows,
            worker=False,
            environment=self._environment,
            codec=reading_codec(app, self.store),
            sinks=() if app is None else app.sinks,
            lifecycle=app is not None and app.lifecycle,
        )

    @property
    def app(self) -> App | None:
        """The application that the command line, the environment or the settings file names."""
        loaded = self._settings.load()
        return None if loaded is None else loaded.app

    def readable(self, detail: Detail) -> Detail:
        """A run with its encrypted values decrypted, if the application has their keys."""
        app = self.app
        if app is None or app.codec is None:
            return detail
        from stepwell.app import reading_codec
        from stepwell.cli.decryption import decrypt_detail

        return decrypt_detail(detail, reading_codec(app, self.store))

    async def close(self, grace: float) -> None:
        """Close the store and the engine. What it executes, such as an act on many runs, has so many seconds to end."""
        if "engine" in self.__dict__:
            await self.engine.shutdown(grace)
            return
        await self.store.close()
        self._environment.executor.close()

    async def list_runs(
        self, where: RunFilter | str = "", *, limit: int, before: RunId | None = None, include_system: bool = False
    ) -> list[RunView]:
        """`engine.runs.list`, without importing the engine unless the store has to be asked again."""
        from stepwell.engine.filters import fitted, parse_filter
        from stepwell.engine.system_runs import without_system_runs
        from stepwell.engine.views import run_view

        wanted = parse_filter(where, self.store.now()) if isinstance(where, str) else where
        try:
            fits = await fitted(wanted, self.views)
            listed = fits if include_system else without_system_runs(fits)
            runs = await self.views.list_runs(listed, limit=limit, before=before)
        except StoreUnavailableError:  # the engine asks again
            return await self.engine.runs.list(wanted, limit=limit, before=before, include_system=include_system)
        return [run_view(run) for run in runs]

    async def count_runs(self, where: str, *, limit: int, include_system: bool = False) -> int:
        """How many runs `list_runs` would list, up to a limit."""
        from stepwell.engine.filters import fitted, parse_filter
        from stepwell.engine.system_runs import without_system_runs

        wanted = await fitted(parse_filter(where, self.store.now()), self.views)
        return await self.views.count_runs(wanted if include_system else without_system_runs(wanted), limit=limit)


def ask(
    settings: Settings,
    question: Callable[[Client], Awaitable[T]],
    *,
    workflows: Iterable[Workflow[Any, Any]] = (),
    may_create: bool = False,
) -> T:
    """Answer a question with a client that executes nothing. Without `may_create`, no database is created."""
    # Here and not above: help and completion must not wait for a store.
    import asyncio

    from stepwell.addresses import open_store
    from stepwell.cli.dev.clock import environment_of

    if not may_create:
        check_exists(settings.db)

    async def run() -> T:
        environment = environment_of(settings.db)
        store = open_store(settings.db, environment, may_create=may_create)
        client = Client(settings, store, environment, workflows)
        if workflows:
            client.engine  # noqa: B018  workflows that contradict each other are rejected before a database is created
        await store.open()
        grace = _GRACE_SECONDS
        try:
            return await question(client)
        except KeyboardInterrupt:  # a second Ctrl-C, in this code itself
            grace = 0.0
            raise
        finally:
            await client.close(grace)

    return asyncio.run(run())


def check_exists(url: str) -> None:
    """Raise if the SQLite file of a URL does not exist."""
    from stepwell.addresses import file_of

    file = file_of(url)
    if file is not None and not file.exists():
        raise StoreError(
            f"no database at {file}",
            where=url,
            why="this command does not create one; a worker or a first start does",
            fix=f"stepwell --db {url} worker MODULE, or name another: --db sqlite:///…",
        )
