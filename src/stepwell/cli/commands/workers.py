"""`stepwell worker`: execute the workflows of a module until told to stop."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.errors import INTERRUPTED
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.texts import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepwell.config import WorkerSettings
    from stepwell.logs import LogFormat
    from stepwell.replay.workflows import Workflow
    from stepwell.wiring import Engine
    from stepwell.worker.observers import Observer

_LEVELS = ("debug", "info", "warning", "error")


@command("worker")
@click.argument("module", required=False)
@click.option("--name", default="worker", show_default=True, help="How it is called in listings.")
@click.option(
    "--lease", default="10s", show_default=True, metavar="TIME", help="How long its runs stay its own if it dies."
)
@click.option("--concurrency", default=1_000, show_default=True, type=click.IntRange(1), help="Runs at once.")
@click.option(
    "--grace", default=10.0, show_default=True, metavar="SECONDS", help="For running steps when told to stop."
)
@click.option("--metrics", "port", type=click.IntRange(0, 65535), metavar="PORT", help="Prometheus reads there.")
@click.option("--traces", is_flag=True, help="Spans for the OpenTelemetry that this process has set up.")
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
    name: str,
    lease: str,
    concurrency: int,
    grace: float,
    port: int | None,
    traces: bool,
    log_format: LogFormat,
    log_level: str,
) -> None:
    """Execute the workflows of MODULE (shop.orders) or file (orders.py) until told to stop.

    The log is written to stderr: runs that start, complete, fail, are paused or end in an incomplete rollback, and what
    your code logs. Each record names its run, key, workflow and path. With --metrics, figures are at
    http://127.0.0.1:PORT/metrics; 0 takes a free port.

    Ctrl-C or SIGTERM: takes nothing new, lets running steps end, gives the rest back. Twice: at once.

    \b
    Example:
      stepwell --db sqlite:///shop.db worker orders.py --concurrency 100
    """
    module = module or settings.app
    if module is None:
        raise click.UsageError("Name the module with your workflows: stepwell worker MODULE")
    import asyncio
    import logging

    from stepwell import collector
    from stepwell.cli.modules import load_workflows
    from stepwell.config import WorkerSettings
    from stepwell.logs import configure

    configure(log_format, level=logging.getLevelNamesMapping()[log_level.upper()])
    workflows = load_workflows(module)
    how = WorkerSettings(name=name, lease=lease, runs_max=concurrency)
    collector.tune_worker()
    asyncio.run(_serve(settings, workflows, how, grace, port, traces=traces))


async def _serve(
    settings: Settings,
    workflows: list[Workflow[Any, Any]],
    how: WorkerSettings,
    grace_seconds: float,
    port: int | None,
    *,
    traces: bool,
) -> None:
    import asyncio

    from stepwell.cli.dev.clock import environment_of
    from stepwell.wiring import Engine
    from stepwell.worker.metrics import Metrics
    from stepwell.worker.traces import Traces

    observers: list[Observer] = [*([] if port is None else [Metrics()]), *([Traces()] if traces else [])]

    told = asyncio.Event()
    # The second time: nothing is lost, what is not recorded is another worker's when the lease has run out.
    _on_stop(lambda: os._exit(INTERRUPTED) if told.is_set() else told.set())
    async with AsyncExitStack() as stack:
        environment = environment_of(settings.db)
        engine = Engine(settings.db, workflows=workflows, settings=how, environment=environment, observers=observers)
        listener = None if port is None else await _expose(engine, port, stack)
        await engine.__aenter__()
        out = Output(settings)
        _banner(out, settings, workflows, how, listener)
        spawn = environment.executor.spawn
        failed = spawn(engine.wait_failed(), name="stepwell-failed")
        stopped = spawn(told.wait(), name="stepwell-stopped")
        await asyncio.wait([failed, stopped], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not failed.cancel():
            await engine.shutdown(0)
            raise failed.result()
        out.note("Stopping: running steps may end. Once more to stop at once.")
        await engine.shutdown(grace_seconds)


async def _expose(engine: Engine, port: int, stack: AsyncExitStack) -> int:
    """The port where figures are read."""
    from stepwell.cli.exposure import HOST, expose
    from stepwell.errors import InvalidOptionError

    try:
        server = await stack.enter_async_context(await expose(engine, port))
    except OSError as error:
        raise InvalidOptionError(
            f"cannot listen on {HOST} port {port}: {error.strerror or error}", fix="choose another with --metrics"
        ) from None
    return int(server.sockets[0].getsockname()[1])


def _on_stop(tell: Callable[[], None]) -> None:
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, tell)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(tell))


def _banner(
    out: Output, settings: Settings, workflows: list[Workflow[Any, Any]], how: WorkerSettings, port: int | None
) -> None:
    from stepwell.addresses import spell_url

    db = spell_url(settings.db)
    served = [f"{workflow.name} v{workflow.version}" for workflow in workflows]
    body = {"name": how.name, "pid": os.getpid(), "db": db, "lease": str(how.lease), "workflows": served}
    if port is not None:
        body["metrics"] = f"http://127.0.0.1:{port}/metrics"

    def words() -> Iterator[str]:
        dot = " - " if out.ascii else " · "
        said = [f"worker {how.name} (pid {os.getpid()})", db, ", ".join(served), str(body.get("metrics", ""))]
        yield clean(dot.join([*filter(None, said), "Ctrl-C stops"]))

    if out.format == "json":
        out.format = "jsonl"  # one line, because whoever reads it waits for a whole one
    out.one("stepwell.worker/1", body, run_ids=[], words=words)
