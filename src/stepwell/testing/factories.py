"""Kits without pytest."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Literal
from unittest import IsolatedAsyncioTestCase

from stepwell.app import App
from stepwell.codec.base import Codec
from stepwell.engine.triggers import Trigger
from stepwell.sinks.base import Sink
from stepwell.testing.base import KitOptions, Nondeterminism
from stepwell.testing.databases import StoreKind
from stepwell.testing.kits import Kit
from stepwell.testing.sync import SyncKit
from stepwell.testing.world import Options


def kit_options(
    *,
    store: StoreKind = "memory",
    folder: Path | None = None,
    postgres: str | None = None,
    always_replay: bool = True,
    clock: Literal["virtual", "real"] = "virtual",
    nondeterminism: Nondeterminism = "error",
    codec: Codec | None = None,
    sinks: tuple[Sink, ...] | list[Sink] = (),
    lifecycle: bool = False,
    triggers: tuple[Trigger, ...] | list[Trigger] = (),
    settings: dict[str, Any] | None = None,
    app: App | None = None,
) -> KitOptions:
    """The options of a kit, each with its default.

    `folder` is for the SQLite file; without it the database is in memory. `postgres` is the URL of a database.
    `settings` are fields of `WorkerSettings`, for every worker.

    With an `app`, workers have its workflows, triggers, codec, sinks and settings. Options that are given here win over
    those of the app. The kit replaces what belongs to a machine: the database, the folder of offloaded payloads (they go
    to the test's database), the hooks, and the settings `mode`, `lease`, `sweep_every` and `name`.
    """
    described = app or App()
    world = Options(
        always_replay,
        clock,
        codec or described.codec,
        tuple(sinks) or described.sinks,
        lifecycle or described.lifecycle,
        _settings_of(described) | (settings or {}),
        is_offloading=described.offload is not None,
        workflows=described.workflows,
        triggers=tuple(triggers) or described.triggers,
    )
    return KitOptions(store, folder, postgres, nondeterminism, world)


_OF_A_MACHINE = frozenset({"mode", "lease", "sweep_every", "name"})


def _settings_of(app: App) -> dict[str, Any]:
    """The settings that an app was given and that do not depend on the machine."""
    given = app.settings
    return {} if given is None else {name: getattr(given, name) for name in given.given - _OF_A_MACHINE}


class kit:  # noqa: N801  it is used as a verb
    """A kit outside of pytest: `with kit() as t:` for plain code, `async with kit() as t:` for coroutines.

    Takes the same options as the marker `stepwell`; see `kit_options`.
    """

    def __init__(self, **given: Any) -> None:
        self._options = kit_options(**given)
        self._made: Kit | SyncKit | None = None

    def __enter__(self) -> SyncKit:
        self._made = made = SyncKit(self._options, name="a `with kit()` block")
        return made

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._made is not None:
            self._made.close(is_checked=kind is None)

    async def __aenter__(self) -> Kit:
        self._made = made = Kit(self._options, name="a `with kit()` block")
        return made

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


class WorkflowTestCase(IsolatedAsyncioTestCase):
    """A test case of `unittest` with a kit for each test: `self.stepwell`. Override `kit_options` to choose a store."""

    stepwell: Kit

    def kit_options(self) -> KitOptions:
        """The options of the kits of this case."""
        return kit_options()

    def run(self, result: Any = None) -> Any:
        """Run one test, with a kit of its own."""
        self.stepwell = Kit(self.kit_options(), name=self.id())
        self.addCleanup(self.stepwell.close)
        return super().run(result)
