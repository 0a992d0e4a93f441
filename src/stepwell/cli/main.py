"""`stepwell`: the group, loaded lazily so that help is quick, and the one place where errors become exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Any

import click

from stepwell import collector
from stepwell.cli.settings import Group, Settings

# Command → its module. A module is imported when its command is used or when help lists it, so it must stay light.
_MODULES = {
    "new": "projects",
    "dev": "development",
    "demo": "demo",
    "worker": "workers",
    "serve": "server",
    "token": "tokens",
    "start": "starts",
    "ls": "runs",
    "show": "runs",
    "tree": "histories",
    "watch": "runs",
    "why": "explanations",
    "history": "histories",
    "graph": "histories",
    "result": "runs",
    "signal": "signals",
    "publish": "events",
    "emit": "events",
    "cancel": "runs",
    "retry": "repairs",
    "pause": "holds",
    "redrive": "repairs",
    "rewind": "repairs",
    "skip": "repairs",
    "fork": "repairs",
    "resume": "holds",
    "workflow": "holds",
    "rollback": "repairs",
    "move": "transfers",
    "migrate": "migrations",
    "backup": "backups",
    "restore": "backups",
    "doctor": "diagnosis",
    "check": "checks",
    "versions": "versions",
    "diff": "histories",
    "export": "histories",
    "import": "histories",
    "bulk": "bulks",
    "explain": "errors",
    "completion": "completion",
}


_NOUN = "wf"  # runs are what every command is about


class LazyGroup(Group):
    """Knows its commands by name and imports each when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which people meet them."""
        return list(_MODULES)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As every group; `stepwell wf ls` is `stepwell ls`."""
        return super().resolve_command(ctx, args[1:] if args[0] == _NOUN and len(args) > 1 else args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name."""
        if cmd_name not in _MODULES:
            return None
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        found = getattr(import_module(f"stepwell.cli.commands.{_MODULES[cmd_name]}"), name)
        assert isinstance(found, click.Command)
        return found


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"stepwell {version('stepwell')}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def stepwell() -> None:
    """Durable workflows: see them, start them, steer them.

    RUN is a run's id, a unique beginning of it, its key, @last or @last-failed.

    \b
    Try:
      stepwell new hello
      stepwell dev
      stepwell --db sqlite:///shop.db worker app.py
      stepwell --db sqlite:///shop.db ls --where 'status:failed since:24h'
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code. Never raises, unless `--debug` asks for the traceback."""
    if argv is None:
        collector.tune_command()
    words = list(sys.argv[1:] if argv is None else argv)
    settings = Settings.from_environment()
    try:
        code: Any = stepwell.main(words, "stepwell", standalone_mode=False, obj=settings)
    except Exception as error:  # noqa: BLE001  the outermost edge: whatever it is, people get words and a code
        from stepwell.cli.errors import report

        return report(error, settings, words)
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
