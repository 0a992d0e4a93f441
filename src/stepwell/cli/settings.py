"""What every command understands: the options that may stand before or after its name."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import click

Format = Literal["table", "wide", "json", "jsonl", "yaml", "ids", "csv"]
FORMATS: tuple[Format, ...] = ("table", "wide", "json", "jsonl", "yaml", "ids", "csv")

DB_DEFAULT = "sqlite:///stepwell.db"
DEV_DB = "sqlite:///.stepwell/dev.db"  # of `stepwell dev`; in its folder it is everybody's default


@dataclass(slots=True)
class Settings:
    """The shared options. A command's own position wins over the group's, and that over the environment's."""

    db: str = field(default=DB_DEFAULT, repr=False)  # it may hold a password
    output: Format = "table"
    app: str | None = None
    fields: tuple[str, ...] = ()
    no_header: bool = False
    ascii: bool = False
    debug: bool = False
    is_db_given: bool = False  # by an option or by the environment

    @classmethod
    def from_environment(cls) -> Settings:
        """The settings before any option is read."""
        given = os.environ.get("STEPWELL_DB")
        found = DEV_DB if os.path.exists(DEV_DB.removeprefix("sqlite:///")) else DB_DEFAULT  # noqa: PTH110  pathlib is slow
        return cls(given or found, app=os.environ.get("STEPWELL_APP") or None, is_db_given=bool(given))


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if ctx.obj is None:
        ctx.obj = Settings.from_environment()
    if value is not None:
        assert param.name is not None
        setattr(ctx.obj, param.name, value)
        ctx.obj.is_db_given |= param.name == "db"


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
            "--db", metavar="URL", help=f"The database. Default: $STEPWELL_DB, that of stepwell dev, or {DB_DEFAULT}."
        ),
        option("-o", "--output", type=click.Choice(FORMATS), help="How to print. Default: table."),
        option("--fields", callback=_keep_names, metavar="A,B", help="Only these fields, as JSON names them."),
        option("--no-header", is_flag=True, flag_value=True, help="No line with the names of columns."),
        option("--app", metavar="MODULE", help="Module or file with your workflows. Default: $STEPWELL_APP."),
        option("--ascii", is_flag=True, flag_value=True, help="No symbols or line drawing."),
        option("--debug", is_flag=True, flag_value=True, help="Show the traceback of an error."),
    ]


class Command(click.Command):
    """A command that understands the shared options, but for those whose letters it uses itself."""

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
    """A group that understands the shared options and takes unambiguous prefixes of its commands."""

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
