"""`stepwell worker`: execute the workflows of a module until told to stop."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.errors import INTERRUPTED
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.texts import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepwell.config import WorkerSettings
    from stepwell.replay.definition import Workflow


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
def worker(settings: Settings, module: str | None, name: str, lease: str, concurrency: int, grace: float) -> None:
    """Execute the workflows of MODULE (shop.orders) or file (orders.py) until told to stop.

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

    from stepwell.cli.loading import load_workflows
    from stepwell.config import WorkerSettings
    from stepwell.environment import tune_process

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    workflows = load_workflows(module)
    how = WorkerSettings(name=name, lease=lease, runs_max=concurrency)
    tune_process()
    asyncio.run(_serve(settings, workflows, how, grace))


async def _serve(
    settings: Settings, workflows: list[Workflow[Any, Any]], how: WorkerSettings, grace_seconds: float
) -> None:
    import asyncio

    from stepwell.cli.dev.clock import environment_of
    from stepwell.wiring import Engine

    told = asyncio.Event()
    # The second time: nothing is lost, what is not recorded is another worker's when the lease has run out.
    _on_stop(lambda: os._exit(INTERRUPTED) if told.is_set() else told.set())
    environment = environment_of(settings.db)
    engine = await Engine(settings.db, workflows=workflows, settings=how, environment=environment).__aenter__()
    out = Output(settings)
    _banner(out, settings, workflows, how)
    await told.wait()
    out.note("Stopping: running steps may end. Once more to stop at once.")
    await engine.shutdown(grace_seconds)


def _on_stop(tell: Callable[[], None]) -> None:
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, tell)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(tell))


def _banner(out: Output, settings: Settings, workflows: list[Workflow[Any, Any]], how: WorkerSettings) -> None:
    from stepwell.wiring import spell_url

    db = spell_url(settings.db)
    served = [f"{workflow.name} v{workflow.version}" for workflow in workflows]
    body = {"name": how.name, "pid": os.getpid(), "db": db, "lease": str(how.lease), "workflows": served}

    def words() -> Iterator[str]:
        dot = " - " if out.ascii else " · "
        yield clean(dot.join([f"worker {how.name} (pid {os.getpid()})", db, ", ".join(served), "Ctrl-C stops"]))

    if out.format == "json":
        out.format = "jsonl"  # one line, because whoever reads it waits for a whole one
    out.one("stepwell.worker/1", body, run_ids=[], words=words)
