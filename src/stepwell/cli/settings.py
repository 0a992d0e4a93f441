"""The options that every command takes, before or after its name, and what the environment and a file say instead."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import click

from stepwell.urls import DB_DEFAULT, DEV_DB

if TYPE_CHECKING:
    from stepwell.cli.modules import LoadedApp
    from stepwell.setting_sources import Found, Sources

__all__ = ["DB_DEFAULT", "DEV_DB", "FORMATS", "Command", "Format", "Group", "Settings", "command"]

Format = Literal["table", "wide", "json", "jsonl", "yaml", "ids", "csv"]
FORMATS: tuple[Format, ...] = ("table", "wide", "json", "jsonl", "yaml", "ids", "csv")


class Settings:
    """The shared options of one command. An option after the command's name wins over one before it.

    The environment, the settings file and the application are read at first use, because help needs none of them.
    """

    def __init__(
        self,
        db: str | None = None,
        *,
        output: Format = "table",
        app: str | None = None,
        fields: tuple[str, ...] = (),
        no_header: bool = False,
        ascii: bool = False,
        debug: bool = False,
    ) -> None:
        self._db = db
        self._app = app  # "" for no application, whatever the environment says
        self.output: Format = output
        self.fields = fields
        self.no_header = no_header
        self.ascii = ascii
        self.debug = debug
        self._sources: Sources | None = None
        self._loaded: LoadedApp | None = None
        self._is_loaded = False

    @classmethod
    def from_environment(cls) -> Settings:
        """The settings before any option is read."""
        return cls()

    @property
    def sources(self) -> Sources:
        """The environment and the settings file. Raises `InvalidOptionError` for unknown names in them."""
        if self._sources is None:
            from stepwell.setting_sources import Sources

            self._sources = Sources()
        return self._sources

    # --- the database ---

    @property
    def db(self) -> str:
        """The URL of the database."""
        url: str = self.database.value
        return url

    @db.setter
    def db(self, url: str) -> None:
        self._db = url

    @property
    def database(self) -> Found:
        """The URL of the database and its origin: `--db`, the App, the environment, the file, or the default."""
        from stepwell.setting_sources import Found, Origin, find_database

        if self._db is not None:
            return Found(self._db, Origin("option", "--db"))
        loaded = self.load()
        if loaded is None:
            return find_database(None, self.sources)
        return find_database(loaded.app.url, self.sources, where=loaded.name)

    @property
    def is_db_given(self) -> bool:
        """Whether an option or the environment names the database."""
        if self._db is not None:
            return True
        found = self.sources.find("db")
        return found is not None and found.origin.kind == "environment"

    # --- the application ---

    @property
    def app(self) -> str | None:
        """What names the application: `--app` or an argument, the environment, or the file."""
        found = self.application
        return None if found is None else found.value

    @app.setter
    def app(self, name: str) -> None:
        self._app, self._is_loaded = name, False

    @property
    def application(self) -> Found | None:
        """What names the application, and its origin."""
        from stepwell.setting_sources import APP, Found, Origin

        if self._app is not None:
            return Found(self._app, Origin("option", "--app")) if self._app else None
        return self.sources.find(APP)

    def load(self) -> LoadedApp | None:
        """The application, loaded once; None if nothing names one. Workflows that its App does not list are reported.

        Raises `InvalidOptionError` or `NotFoundError` if it cannot be loaded.
        """
        if not self._is_loaded:
            name = self.app
            # A shell that completes a word must not run the code of an application.
            if name is not None and "_STEPWELL_COMPLETE" not in os.environ:
                from stepwell.cli.modules import load_app

                self._loaded = load_app(name)
                if self._loaded.unlisted:
                    click.echo(_unlisted(self._loaded), err=True)
            self._is_loaded = True
        return self._loaded

    def need_app(self, command: str) -> LoadedApp:
        """`load`, for a command that cannot do without. Raises `click.UsageError` if nothing names an application."""
        loaded = self.load()
        if loaded is None:
            raise click.UsageError(f"Name the module with your workflows: stepwell {command} app.py")
        return loaded

    def __repr__(self) -> str:
        return f"<Settings of {self._app or 'no app'}>"  # without the database: its URL may hold a password


def _unlisted(loaded: LoadedApp) -> str:
    from stepwell.cli.texts import clean

    names = ", ".join(loaded.unlisted)
    return clean(f"Warning: {loaded.name} does not list these workflows of its module: {names}")


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if ctx.obj is None:
        ctx.obj = Settings.from_environment()
    if value is not None:
        assert param.name is not None
        setattr(ctx.obj, param.name, value)


def _keep_names(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Names with commas between them."""
    names = None if value is None else tuple(filter(None, (one.strip() for one in value.split(","))))
    if names == ():
        raise click.BadParameter("Name a field, or several with commas between them.", ctx, param)
    _keep(ctx, param, names)


def _shared_options() -> list[click.Parameter]:
    def option(*names: str, **how: Any) -> click.Option:
        return click.Option(names, expose_value=False, default=None, **{"callback": _keep, **how})

    return [
        option(
            "--db", metavar="URL", help="The database. Default: that of your App, or what `stepwell config db` shows."
        ),
        option("-o", "--output", type=click.Choice(FORMATS), help="How to print. Default: table."),
        option("--fields", callback=_keep_names, metavar="A,B", help="Only these fields, as JSON names them."),
        option("--no-header", is_flag=True, flag_value=True, help="No line with the names of columns."),
        option("--app", metavar="APP", help="Your application: app.py, or app.py:app. Default: $STEPWELL_APP."),
        option("--ascii", is_flag=True, flag_value=True, help="No symbols or line drawing."),
        option("--debug", is_flag=True, flag_value=True, help="Show the traceback of an error."),
    ]


class Command(click.Command):
    """A command that takes the shared options, except those whose letters it uses itself."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        own = {letters for param in self.params for letters in param.opts}
        self.params.extend(option for option in _shared_options() if own.isdisjoint(option.opts))


def command(name: str) -> Callable[[Callable[..., Any]], Command]:
    """Make a function a command with the shared options; its first argument is `Settings`."""

    def wrap(function: Callable[..., Any]) -> Command:
        return click.command(name, cls=Command)(click.pass_obj(function))

    return wrap


class Group(click.Group):
    """A group that takes the shared options, and unambiguous prefixes of its commands."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(_shared_options())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of a name or prefix; for an unknown one, the nearest names."""
        word, known = args[0], self.list_commands(ctx)
        begun = [word] if word in known else [name for name in known if name.startswith(word)]
        if len(begun) == 1:
            return begun[0], self.get_command(ctx, begun[0]), args[1:]
        if word.startswith("-"):
            return super().resolve_command(ctx, args)
        from stepwell.nearest import nearest

        near = begun or nearest(word, known)
        hint = f" Did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
        raise click.UsageError(f"There is no command {word!r}.{hint}", ctx)
