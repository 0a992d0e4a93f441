"""`stepwell worker`: execute the workflows of an application until it is stopped."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.texts import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepwell.app import App
    from stepwell.cli.stop_signals import StopSignals
    from stepwell.config import WorkerSettings
    from stepwell.logs import LogFormat
    from stepwell.wiring import Engine

_LEVELS = ("debug", "info", "warning", "error")


@command("worker")
@click.argument("module", metavar="[APP]", required=False)
@click.option("--name", help="Its name in listings. Default: worker.")
@click.option("--lease", metavar="TIME", help="How long its runs stay claimed if it dies. Default: 10s.")
@click.option("--concurrency", type=click.IntRange(1), help="How many runs execute at once. Default: 1000.")
@click.option(
    "--grace", default=10.0, show_default=True, metavar="SECONDS", help="How long running steps may take to end."
)
@click.option("--metrics", "port", type=click.IntRange(0, 65535), metavar="PORT", help="Serve metrics for Prometheus.")
@click.option(
    "--metrics-label",
    "labels",
    multiple=True,
    metavar="attr.NAME|tag.NAME",
    help="An attribute or tag of runs as a label of the metrics; may be repeated.",
)
@click.option("--traces", is_flag=True, help="Send spans to the OpenTelemetry of this process.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Lines for people, or one JSON object a line.",
)
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    default="info",
    show_default=True,
    help="info logs runs, debug also their steps.",
)
def worker(
    settings: Settings,
    module: str | None,
    name: str | None,
    lease: str | None,
    concurrency: int | None,
    grace: float,
    port: int | None,
    labels: tuple[str, ...],
    traces: bool,
    log_format: LogFormat,
    log_level: str,
) -> None:
    """Execute the workflows of APP until it is stopped.

    APP is a file (app.py) or a module (shop.orders). app.py:shop is the App in the variable shop.

    The log is written to stderr: runs that start, complete, fail, are paused or end in an incomplete rollback, and what
    your code logs. Each record names its run, key, workflow and path. With --metrics, the metrics are at
    http://127.0.0.1:PORT/metrics; 0 takes a free port.

    Ctrl-C or SIGTERM: the worker stops claiming, lets running steps end, and releases its other runs. A second one ends
    it at once.

    \b
    Example:
      stepwell worker app.py --concurrency 100
    """
    if module is not None:
        settings.app = module
    loaded = settings.need_app("worker")
    import asyncio
    import logging

    from stepwell import collector
    from stepwell.cli.stop_signals import StopSignals
    from stepwell.logs import configure

    configure(log_format, level=logging.getLevelNamesMapping()[log_level.upper()])
    given = {"name": name, "lease": lease, "runs_max": concurrency}
    if labels and port is None:
        raise click.UsageError("--metrics-label needs --metrics.")
    app = loaded.need_work()
    served = _served(app, settings.db, given, labels=None if port is None else labels, has_traces=traces)
    collector.tune_worker()
    with StopSignals() as signals:
        asyncio.run(_serve(settings, served, signals, grace, port))


def _served(app: App, db: str, given: dict[str, Any], *, labels: Sequence[str] | None, has_traces: bool) -> App:
    """The app on the database of the command line, with the settings and hooks that its options add. Without `labels`
    there are no metrics.
    """
    from dataclasses import replace

    from stepwell.config import WorkerSettings
    from stepwell.worker.metrics import Metrics
    from stepwell.worker.traces import Traces

    chosen = {name: value for name, value in given.items() if value is not None}
    hooks = list(app.hooks)
    if labels is not None and not any(isinstance(hook, Metrics) for hook in hooks):
        hooks.append(Metrics(labels))
    if has_traces and not any(isinstance(hook, Traces) for hook in hooks):
        hooks.append(Traces())
    return replace(app, url=db, hooks=tuple(hooks), settings=(app.settings or WorkerSettings()).merged(**chosen))


async def _serve(settings: Settings, app: App, signals: StopSignals, grace_seconds: float, port: int | None) -> None:
    import asyncio

    from stepwell.cli.dev.clock import environment_of
    from stepwell.cli.stop_signals import ends_unless_stopped
    from stepwell.setting_sources import read_settings
    from stepwell.wiring import Engine

    stop = signals.watch()
    async with AsyncExitStack() as stack:
        how = read_settings(app.settings)
        environment = environment_of(settings.db, threads_max=how.threads_max)
        engine = Engine(app, worker=True, environment=environment)
        listener = None if port is None else await _expose(engine, port, stack)
        if not await ends_unless_stopped(engine.open(), stop, environment.executor):
            return
        out = Output(settings)
        _banner(out, settings, app, how, listener)
        spawn = environment.executor.spawn
        failed = spawn(engine.wait_failed(), name="stepwell-failed")
        stopped = spawn(stop.wait(), name="stepwell-stopped")
        await asyncio.wait([failed, stopped], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not failed.cancel():
            await engine.shutdown(0)
            raise failed.result()
        out.note("Stopping: running steps may end. Press Ctrl-C again to stop at once.")
        await engine.shutdown(grace_seconds)


async def _expose(engine: Engine, port: int, stack: AsyncExitStack) -> int:
    """The port where the metrics are served."""
    from stepwell.cli.exposure import HOST, expose
    from stepwell.errors import InvalidOptionError

    try:
        server = await stack.enter_async_context(await expose(engine, port))
    except OSError as error:
        raise InvalidOptionError(
            f"cannot listen on {HOST} port {port}: {error.strerror or error}", fix="choose another with --metrics"
        ) from None
    return int(server.sockets[0].getsockname()[1])


def _banner(out: Output, settings: Settings, app: App, how: WorkerSettings, port: int | None) -> None:
    from stepwell.addresses import spell_url

    db = spell_url(settings.db)
    served = [f"{workflow.name} v{workflow.version}" for workflow in app.workflows]
    body = {"name": how.name, "pid": os.getpid(), "db": db, "lease": str(how.lease), "workflows": served}
    if port is not None:
        body["metrics"] = f"http://127.0.0.1:{port}/metrics"

    def words() -> Iterator[str]:
        dot = " - " if out.ascii else " · "
        said = [f"worker {how.name} (pid {os.getpid()})", db, ", ".join(served), str(body.get("metrics", ""))]
        yield clean(dot.join([*filter(None, said), "Ctrl-C stops"]))

    if out.format == "json":
        out.format = "jsonl"  # one line: a program that reads it waits for a whole line
    out.one("stepwell.worker/1", body, run_ids=[], words=words)
