"""`App`: one description of an application, which engines, the command line and the test kit share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from stepwell.codec.base import PAYLOAD_BYTES_MAX, Codec
from stepwell.codec.blobs import FolderBlobs
from stepwell.codec.json_codec import JsonCodec
from stepwell.codec.offload import OFFLOADED_BYTES_MAX, Offloaded
from stepwell.config import WorkerSettings
from stepwell.engine.alert_rules import Alert, with_default
from stepwell.engine.retention import Retention
from stepwell.engine.triggers import Trigger, by_name
from stepwell.errors import InvalidOptionError
from stepwell.replay.workflows import Workflow
from stepwell.sinks.base import Sink

if TYPE_CHECKING:
    from stepwell.stores.base.store import Store
    from stepwell.worker.observers import Observer

Offload = Literal["database"] | Path


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class App:
    """What an application is made of: its database, its workflows, and how its values are stored.

        app = App("sqlite:///shop.db", workflows=[checkout], codec=Encrypted(JsonCodec(), keys=keys))

    `Engine(app)`, `SyncEngine(app)`, `stepwell worker app.py:app`, `serve`, `check`, `show` and the test kit take the
    same description, so every process encrypts, offloads and routes events in the same way.

    Without a `url`, the database is `STEPWELL_DB`, or `db` of `stepwell.toml`, or `sqlite:///stepwell.db`.
    `offload` stores payloads above 100 kB by their hash: in the "database" itself, or in a folder.
    `sinks` receive the events that runs emit. The engine that commits an event decides where it goes, and any engine
    with a worker and a sink of that name delivers it. With `lifecycle`, the end of a run is such an event.
    `triggers` start workflows with the events of topics, whichever process publishes them. Workers declare them.
    `hooks` are notified of what is executed: `Metrics`, `Traces`, or an observer of your own.
    `retention` says how long ended runs are kept; without it, they are kept for ever. Workers delete the others.
    `alerts` are rules that watch runs; with an empty list, only incomplete rollbacks are watched. Notifiers are sinks
    that want the events `stepwell.alert.*`.
    `settings` are those of its workers. A setting that is not given is read from the environment, then from a file.
    """

    url: str | None
    workflows: tuple[Workflow[Any, Any], ...]
    codec: Codec | None
    offload: Offload | None
    sinks: tuple[Sink, ...]
    lifecycle: bool
    triggers: tuple[Trigger, ...]
    hooks: tuple[Observer, ...]
    retention: Retention | None
    alerts: tuple[Alert, ...] | None
    settings: WorkerSettings | None

    def __init__(
        self,
        url: str | None = None,
        *,
        workflows: Iterable[Workflow[Any, Any]] = (),
        codec: Codec | None = None,
        offload: Offload | None = None,
        sinks: Iterable[Sink] = (),
        lifecycle: bool = False,
        triggers: Iterable[Trigger] = (),
        hooks: Iterable[Observer] = (),
        retention: Retention | None = None,
        alerts: Iterable[Alert] | None = None,
        settings: WorkerSettings | None = None,
    ) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)  # it is frozen for everybody else

        put("url", url)
        put("workflows", _check_workflows(workflows))
        put("codec", codec)
        put("offload", _check_offload(offload, codec))
        put("sinks", tuple(sinks))
        put("lifecycle", lifecycle)
        put("triggers", tuple(by_name(triggers).values()))
        put("hooks", tuple(hooks))
        put("retention", _check_retention(retention))
        put("alerts", None if alerts is None else with_default(alerts))
        put("settings", settings)

    def __repr__(self) -> str:
        return f"<App of {', '.join(each.definition for each in self.workflows) or 'no workflows'}>"


def _check_workflows(workflows: Iterable[Workflow[Any, Any]]) -> tuple[Workflow[Any, Any], ...]:
    found: tuple[Any, ...] = tuple(workflows)
    for each in found:
        if not isinstance(each, Workflow):
            raise InvalidOptionError(
                f"{getattr(each, '__qualname__', None) or repr(each)[:80]} is not a workflow",
                where="workflows",
                fix="decorate the function with @stepwell.workflow",
            )
    return found


def _check_offload(offload: Offload | None, codec: Codec | None) -> Offload | None:
    given: Any = offload
    if given is not None and given != "database" and not isinstance(given, Path):
        raise InvalidOptionError(f"offload is {offload!r}", fix='"database", or a folder as a pathlib.Path')
    if given is not None and isinstance(codec, Offloaded):
        raise InvalidOptionError(
            "the codec offloads already", fix="leave `offload` out, or pass the codec inside of `Offloaded`"
        )
    return offload


def _check_retention(retention: Retention | None) -> Retention | None:
    given: Any = retention
    if given is not None and not isinstance(given, Retention):
        raise InvalidOptionError(f"retention is {given!r:.60}", fix='Retention(completed="30d", failed="90d")')
    return retention


def codec_of(app: App, store: Store) -> Codec:
    """The codec of an application on a store, offloading included."""
    codec = app.codec or JsonCodec()
    match app.offload:
        case None:
            return codec
        case Path() as folder:
            return Offloaded(codec, FolderBlobs(folder))
        case _:
            return Offloaded(codec, store.blobs)


def reading_codec(app: App | None, store: Store) -> Codec:
    """`codec_of`, which also reads what other processes have offloaded into the database.

    Without `offload` in the app, it offloads nothing itself: other processes might not be able to read it.
    """
    codec = JsonCodec() if app is None else codec_of(app, store)
    if isinstance(codec, Offloaded):
        return codec
    return Offloaded(codec, store.blobs, above=PAYLOAD_BYTES_MAX, payload_bytes_max=PAYLOAD_BYTES_MAX)


def replay_codec(app: App | None, store: Store) -> Codec:
    """`codec_of`, for replays that write nothing: values may be as large as any process may have written them."""
    codec = JsonCodec() if app is None else codec_of(app, store)
    return codec if isinstance(codec, Offloaded) else Offloaded(codec, store.blobs)


def file_codec(app: App) -> Codec | None:
    """The codec for history files, which hold large payloads themselves; None if the app has the default codec."""
    return None if app.codec is None else app.codec.limited_to(OFFLOADED_BYTES_MAX)
