"""One worker process of the storm: `python -m tests.system.storm_worker FOLDER`. SIGTERM drains it."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import signal
from pathlib import Path
from typing import Any

from stepwell import Engine, WorkerSettings
from tests.system.fleet import CALM, DATABASE, LEDGER, mark_of
from tests.system.ledger import Ledger
from tests.system.storm_client import Client
from tests.system.storm_workflows import SINKS, WORKFLOWS, use_ledger

STALLS_MAX = 1_000  # the storm kills at random: nothing in here is poison


class LedgerHandler(logging.Handler):
    """What the worker warns of is part of the evidence: a lost lease explains a body that ran again."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(logging.WARNING)
        self._ledger = ledger

    def emit(self, record: logging.LogRecord) -> None:
        self._ledger.note("warned", level=record.levelname, text=record.getMessage())


async def serve(options: argparse.Namespace) -> None:
    """Serve until SIGTERM, or until whoever started this is gone."""
    folder, parent = Path(options.folder), os.getppid()
    ledger = use_ledger(folder / LEDGER)
    logging.getLogger("stepwell").addHandler(LedgerHandler(ledger))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = WorkerSettings(
        mode=options.mode,
        lease=options.lease,
        sweep_every=options.sweep,
        stalls_max=STALLS_MAX,
        runs_max=options.runs_max,
        name=f"storm-{os.getpid()}",
    )
    url = f"sqlite:///{folder / DATABASE}"
    async with Engine(url, workflows=WORKFLOWS, settings=settings, sinks=SINKS, lifecycle=True) as engine:
        client = Client(engine, ledger, random.Random(), active_max=options.starts)
        calm = folder / CALM
        busy: asyncio.Task[Any] | None = None
        if options.starts:
            busy = asyncio.get_running_loop().create_task(client.keep_busy(stop, 0.25, calm.exists))
        mark_of(folder, os.getpid()).touch()
        while not stop.is_set() and os.getppid() == parent:
            try:
                await asyncio.wait_for(stop.wait(), 1.0)
            except TimeoutError:
                continue
        stop.set()
        if busy is not None:
            await busy
            await client.abandon()
    ledger.note("drained")


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--lease", type=float, default=1.0)
    parser.add_argument("--sweep", type=float, default=0.5)
    parser.add_argument("--mode", choices=("live", "yield"), default="live")
    parser.add_argument("--runs-max", type=int, default=1_000)
    parser.add_argument("--starts", type=int, default=0, help="runs of its own that it keeps under way")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
