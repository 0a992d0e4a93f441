"""`stepwell check`: whether code is sound, and whether runs in flight could continue with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepwell.cli.bars import Bars
from stepwell.cli.errors import PROBLEMS
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.targets import complete_run
from stepwell.cli.texts import clean, dump_json

if TYPE_CHECKING:
    from stepwell.app import App
    from stepwell.check.inflight import Checked
    from stepwell.check.reports import Report
    from stepwell.clock import Instant

_STAGE = "replaying"


@command("check")
@click.argument("module", metavar="[APP]", required=False)
@click.option("--since", metavar="TIME", help="Only runs created since then: 24h, 7d, or 2026-01-31T12:00.")
@click.option("--histories", metavar="GLOB", help="Also replay history files: 'tests/histories/*.json'.")
@click.option("--code-only", is_flag=True, help="Check only the code, without a database.")
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option(
    "-o",
    "--output",
    "how",
    type=click.Choice(["text", "json", "sarif", "github"]),
    default="text",
    show_default=True,
    help="How to print.",
)
@click.pass_context
def check(
    ctx: click.Context,
    settings: Settings,
    module: str | None,
    since: str | None,
    histories: str | None,
    code_only: bool,
    strict: bool,
    how: str,
) -> None:
    """Check the workflows of APP: findings about the code, and a dry replay of every run in flight.

    Read-only: no step runs and no row changes. Runs are checked if a database is named (by --db, the App, the
    environment or the settings file), or if the default one exists. The exit code is 9 if the code has an error or a
    run would break.

    \b
    Example:
      stepwell check app.py --db postgresql://shop@db.example/shop
      stepwell check app.py --histories 'tests/histories/*.json' -o sarif
    """
    if module is not None:
        settings.app = module
    described = settings.need_app("check").need_work()
    from stepwell.check.code import check_code
    from stepwell.check.reports import Report

    workflows = list(described.workflows)
    out = Output(settings)
    if how != "text":
        out.format = "json"  # nothing but the report
    checked = None
    if not code_only and _has_database(settings, is_asked=since is not None):
        checked = _check_database(settings, out, described, _instant(since))
    recorded = None if histories is None else _check_files(out, histories, described)
    report = Report(check_code(workflows), checked, recorded)
    _print(out, report, how)
    if report.errors or (strict and report.warnings):
        ctx.exit(PROBLEMS)


@command("debug")
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.argument("path", metavar="[PATH]", required=False)
def debug(settings: Settings, run: str, path: str | None) -> None:
    """Replay a recorded run under pdb, from its first line or from the line that calls the step at PATH.

    Each step returns its recorded result. No step runs, and nothing is written. RUN may be a history file.

    \b
    Example:
      stepwell debug order-42 --app app.py
      stepwell debug order-42 payment/charge --app app.py
      stepwell debug tests/histories/order.json --app app.py
    """
    from stepwell.app import file_codec
    from stepwell.check import debugger
    from stepwell.check.exports import export_run
    from stepwell.check.histories import Recording, read
    from stepwell.cli.client import Client, ask
    from stepwell.cli.targets import get_run_id
    from stepwell.errors import UnknownWorkflowError
    from stepwell.nearest import nearest
    from stepwell.replay.registry import Registry

    app = settings.need_app("debug RUN --app").need_work()

    async def read_run(client: Client) -> Recording:
        return await export_run(client.store, await get_run_id(client, run))

    recording = read(run) if run.endswith(".json") else ask(settings, read_run)
    registry = Registry(app.workflows)
    workflow = registry.find(recording.run.definition)
    if workflow is None:
        raise UnknownWorkflowError(
            "workflow",
            recording.run.definition,
            near=nearest(recording.run.definition, registry.definitions),
            fix="name the application that has the code of this run: --app app.py",
        )
    ended = debugger.debug(workflow, recording, path=path, codec=file_codec(app))
    Output(settings).note(ended.words)


def _has_database(settings: Settings, *, is_asked: bool) -> bool:
    """Whether there is a database to check. If one was named and does not exist, opening it reports an error."""
    from stepwell.addresses import file_of

    found = settings.database
    file = file_of(found.value)
    return is_asked or found.origin.kind != "default" or file is None or file.exists()


def _check_database(settings: Settings, out: Output, app: App, since: Instant | None) -> Checked:
    from stepwell.app import replay_codec
    from stepwell.check.inflight import Code, check_store
    from stepwell.cli.client import Client, ask
    from stepwell.environment import LockstepThreads
    from stepwell.model.states import ACTIVE
    from stepwell.replay.registry import Registry

    async def look(client: Client) -> Checked:
        total = sum(one.runs for one in await client.views.tally_runs() if one.status in ACTIVE)
        threads = LockstepThreads()
        try:
            code = Code(Registry(app.workflows), replay_codec(app, client.store), threads)
            with Bars(out) as bars:
                checked = await check_store(
                    client.store, code, since=since, tell=lambda done: bars.tell(_STAGE, done, max(done, total))
                )
                bars.tell(_STAGE, checked.total, checked.total)
            return checked
        finally:
            threads.close()

    return ask(settings, look)


def _check_files(out: Output, pattern: str, app: App) -> Checked:
    from stepwell.app import file_codec
    from stepwell.check.histories import find
    from stepwell.check.inflight import Code, check_recordings
    from stepwell.environment import LockstepThreads
    from stepwell.replay.registry import Registry

    recordings, threads = list(find(pattern)), LockstepThreads()
    try:
        with Bars(out) as bars:
            code = Code(Registry(app.workflows), file_codec(app), threads)
            tell = lambda done: bars.tell("histories", done, len(recordings))  # noqa: E731  a name for one argument
            return check_recordings(recordings, code, tell=tell)
    finally:
        threads.close()


def _instant(since: str | None) -> Instant | None:
    """A time that people write: a duration before now, or a moment."""
    if since is None:
        return None
    from datetime import UTC, datetime

    from stepwell.clock import Instant, SystemClock, span, to_instant
    from stepwell.errors import InvalidOptionError

    try:
        when = datetime.fromisoformat(since)
    except ValueError:
        try:
            return Instant(SystemClock().now() - span(since, what="--since"))
        except InvalidOptionError as error:
            raise click.UsageError(f"--since {since}: {error.why or error.title}") from error
    return to_instant(when if when.tzinfo is not None else when.replace(tzinfo=UTC), what="--since")


def _print(out: Output, report: Report, how: str) -> None:
    from importlib.metadata import version

    from stepwell.check import reports

    match how:
        case "json":
            out.lines([dump_json(reports.as_json(report))])
        case "sarif":
            out.lines([dump_json(reports.as_sarif(report, version("stepwell")))])
        case "github":
            out.lines(clean(line) for line in reports.as_github(report))
        case _:
            out.lines(clean(line) if not line.startswith(" ") else _indented(line) for line in reports.in_words(report))


def _indented(line: str) -> str:
    bare = line.lstrip(" ")
    return " " * (len(line) - len(bare)) + clean(bare)
