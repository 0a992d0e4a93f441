"""`stepwell config`: each setting, its value, and where the value comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.texts import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwell.cli.modules import LoadedApp
    from stepwell.setting_sources import Found, Origin

_COLUMNS = (Column("KEY", is_fixed=True), Column("VALUE"), Column("ORIGIN"))
_SCHEMA = "stepwell.setting/1"


@command("config")
@click.argument("key", required=False)
def config(settings: Settings, key: str | None) -> None:
    """Show every setting with its origin, or only KEY.

    A value comes from an option, then from the App, then from the environment (STEPWELL_LEASE for lease), then from
    stepwell.toml or [tool.stepwell] of pyproject.toml, and else it is the default. Passwords are masked.

    \b
    Example:
      stepwell config
      stepwell config lease -o json
    """
    items = [_item(name, found) for name, found in _found(settings)]
    out = Output(settings)
    if key is not None:
        item = _get(items, key)
        words = [clean(f"{_text(item['value'])}  ({_origin_words(item)})")]
        out.one(_SCHEMA, item, run_ids=[], words=lambda: words)
    elif not out.many(_SCHEMA, "settings", items, run_ids=[]):
        out.table(_COLUMNS, [[item["key"], _text(item["value"]), _origin_words(item)] for item in items])


def _found(settings: Settings) -> Iterator[tuple[str, Found]]:
    from stepwell.setting_sources import APP, DB, DEFAULT, TOKENS, Found
    from stepwell.urls import mask_url

    loaded, database = settings.load(), settings.database
    yield DB, database._replace(value=mask_url(database.value))
    yield APP, settings.application or Found(None, DEFAULT)
    yield TOKENS, settings.sources.find(TOKENS) or Found(None, DEFAULT)
    given, where = (None, "") if loaded is None else (loaded.app.settings, loaded.name)
    yield from settings.sources.settings(given, where=where).items()
    if loaded is not None:
        yield from _parts(loaded)


def _parts(loaded: LoadedApp) -> Iterator[tuple[str, Found]]:
    """What only the constructor of an App can say. Codecs and hooks are named, and not shown: they may hold keys."""
    from stepwell.setting_sources import DEFAULT, Found, Origin

    app = loaded.app
    parts: dict[str, Any] = {
        "workflows": [each.definition for each in app.workflows],
        "codec": None if app.codec is None else type(app.codec).__name__,
        "offload": None if app.offload is None else str(app.offload),
        "sinks": [sink.name for sink in app.sinks],
        "lifecycle": app.lifecycle,
        "hooks": [type(hook).__name__ for hook in app.hooks],
    }
    for name, value in parts.items():
        yield name, Found(value, Origin("constructor", loaded.name) if value else DEFAULT)


def _item(key: str, found: Found) -> dict[str, Any]:
    value, origin = found
    is_plain = value is None or isinstance(value, bool | int | float | str | list)
    return {"key": key, "value": value if is_plain else str(value), **_origin_body(origin)}


def _origin_body(origin: Origin) -> dict[str, Any]:
    return {"origin": origin.kind, "where": origin.where or None}


def _origin_words(item: dict[str, Any]) -> str:
    where: str | None = item["where"]
    if item["origin"] == "default":
        return "default" if where is None else f"default ({where})"
    return where or str(item["origin"])


def _text(value: Any) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(value) or "none"
        case _:
            return str(value)


def _get(items: list[dict[str, Any]], key: str) -> dict[str, Any]:
    from stepwell.errors import NotFoundError
    from stepwell.nearest import nearest

    for item in items:
        if item["key"] == key:
            return item
    known = [str(item["key"]) for item in items]
    raise NotFoundError("setting", key, near=nearest(key, known), fix=f"the settings are {', '.join(known)}")
