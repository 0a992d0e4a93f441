"""`stepwell`: the group of all commands, loaded lazily so that help is quick, and the exit code of each error."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Any, NamedTuple

import click

from stepwell import collector
from stepwell.cli.settings import Group, Settings


class Listed(NamedTuple):
    """One command: its name, the module that has it, and its line in the help."""

    name: str
    module: str
    summary: str


# The commands by what people want to do. The help prints this table, so that it imports no module of a command.
GROUPS: dict[str, tuple[Listed, ...]] = {
    "Begin": (
        Listed("new", "projects", "Create a project with a workflow and its tests."),
        Listed("dev", "development", "Run a project, reload saved code, and print what happens."),
        Listed("demo", "demo", "Watch a run survive kill -9, and another one be rolled back."),
        Listed("config", "config", "Show every setting, its value and where it comes from."),
    ),
    "Run": (
        Listed("worker", "workers", "Execute workflows until stopped."),
        Listed("start", "starts", "Start a run."),
        Listed("result", "runs", "Wait for the result of a run and print it."),
        Listed("signal", "signals", "Send a signal to a run."),
        Listed("signals", "signals", "List signals that no run has read; deliver one again."),
        Listed("publish", "events", "Publish an event to the runs that wait for it."),
        Listed("emit", "events", "Another name for publish."),
    ),
    "Look": (
        Listed("ls", "runs", "List runs, with where each one is and why."),
        Listed("show", "runs", "Show one run: history, waits, undo stack, errors, repairs."),
        Listed("why", "explanations", "Explain why a run is not moving, and what to do."),
        Listed("state", "runs", "Print what a run has published."),
        Listed("watch", "runs", "Follow a run until it ends."),
        Listed("tree", "histories", "Show a run and its children as trees."),
        Listed("history", "histories", "List every history entry of a run."),
        Listed("graph", "histories", "Print a run as a diagram."),
        Listed("diff", "histories", "Compare two runs."),
        Listed("view", "saved_views", "Save filters under names, for ls --view."),
        Listed("failures", "overviews", "Group failed runs by what they failed with."),
        Listed("waits", "overviews", "List what runs wait for, in groups."),
        Listed("topics", "overviews", "List topics, with their waits and events."),
    ),
    "Steer": (
        Listed("pause", "holds", "Pause a run until a person resumes it."),
        Listed("resume", "holds", "Resume a paused run."),
        Listed("wake", "reschedules", "Let a worker look at a waiting run now."),
        Listed("reschedule", "reschedules", "Move the deadline of a wait, or the begin of a run."),
        Listed("cancel", "runs", "Cancel a run and the children that it waits for."),
        Listed("workflow", "holds", "List, pause and resume whole workflows."),
        Listed("trigger", "triggers", "List, pause and resume workflows that events start."),
        Listed("schedule", "schedules", "Start workflows at certain times."),
        Listed("bulk", "bulks", "List acts on many runs, and stop or resume one."),
    ),
    "Repair": (
        Listed("doctor", "diagnosis", "Examine a database, and list what needs a person."),
        Listed("retry", "repairs", "Retry a failed run, or at once what waits for it."),
        Listed("redrive", "repairs", "Run a failed run again, from any step."),
        Listed("rewind", "repairs", "Take a run back to a step, and run it again from there."),
        Listed("skip", "repairs", "Record a result for a failed step or a wait."),
        Listed("fork", "repairs", "Start a new run from the history of another run."),
        Listed("rollback", "repairs", "Resume an incomplete rollback, or mark an effect as undone."),
        Listed("compensate", "undoings", "Undo a completed run, in a run of its own."),
        Listed("dlq", "dead_letters", "List what could not be handled; retry, edit or drop it."),
        Listed("alert", "alerts", "Rules that watch runs: list, test, acknowledge and mute them."),
        Listed("outbox", "outbox", "List events that were not sent; send or drop dead letters."),
        Listed("explain", "errors", "Explain the code of an error or a finding."),
    ),
    "Versions and code": (
        Listed("check", "checks", "Check workflow code, and replay runs against it."),
        Listed("debug", "checks", "Replay a recorded run under pdb, without effects."),
        Listed("versions", "versions", "Show which versions and patches runs still need."),
        Listed("export", "histories", "Write the history of a run to a file, or a test."),
        Listed("import", "histories", "Import a run from a file."),
    ),
    "Store": (
        Listed("migrate", "migrations", "Create or migrate the tables of a database."),
        Listed("backup", "backups", "Copy a SQLite database while it is used."),
        Listed("restore", "backups", "Restore a SQLite database from a copy."),
        Listed("prune", "retention", "Delete ended runs that are past their time."),
        Listed("erase", "retention", "Erase the runs of a filter for ever."),
        Listed("footprint", "upkeep", "Show what tables and workflows take, and how fast that grows."),
        Listed("vacuum", "upkeep", "Give back the space of deleted rows."),
        Listed("move", "transfers", "Move all runs to another database."),
    ),
    "Serve": (
        Listed("serve", "server", "Serve the HTTP API."),
        Listed("token", "tokens", "Create, list and revoke tokens for the HTTP API."),
        Listed("completion", "completion", "Print the completion script for a shell."),
    ),
}
_NAME_WIDTH = 10  # of the longest command: the summaries of all groups are aligned
_MODULES = {listed.name: listed.module for group in GROUPS.values() for listed in group}


_NOUN = "wf"  # may precede any command


class LazyGroup(Group):
    """Knows its commands by name, and imports a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the help."""
        return list(_MODULES)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by group, and then the options."""
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{listed.name:<{_NAME_WIDTH}}", listed.summary) for listed in group])
        click.Command.format_options(self, ctx, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As in every group; `stepwell wf ls` is `stepwell ls`."""
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
    """Durable workflows: start, inspect, steer and repair runs.

    \b
    RUN is a run's key, its id, a unique prefix of its id, @last or @last-failed.
    `stepwell COMMAND --help` has an example of every command.

    \b
    Example:
      stepwell new hello
      stepwell dev
      stepwell --db sqlite:///shop.db worker app.py
      stepwell --db sqlite:///shop.db ls --where 'status:failed since:24h'
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Errors are printed, never raised."""
    if argv is None:
        collector.tune_command()
    words = list(sys.argv[1:] if argv is None else argv)
    settings = Settings.from_environment()
    try:
        code: Any = stepwell.main(words, "stepwell", standalone_mode=False, obj=settings)
    except Exception as error:  # noqa: BLE001  the outermost edge: people get words and an exit code for every error
        from stepwell.cli.errors import report

        return report(error, settings, words)
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
