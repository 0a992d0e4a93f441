"""One worker process of the storm: `python -m tests.system.storm_worker FOLDER URL`. SIGTERM drains it."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import signal
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import local
from typing import Any

from stepwell import Engine, WorkerSettings
from stepwell.clock import SystemClock
from stepwell.environment import system_environment
from stepwell.errors import StoreUnavailableError
from stepwell.replay.bodies import Body
from stepwell.worker.execution import Execution
from tests.system.fleet import CALM, LEDGER, mark_of
from tests.system.ledger import Ledger
from tests.system.storm_client import Client
from tests.system.storm_workflows import SINKS, TRANSACTIONAL, WORKFLOWS, use_ledger

STALLS_MAX = 1_000  # the storm kills at random: nothing in here is poison
_PAUSE_SECONDS = 0.2
_LOOK_SECONDS = 0.05


class LedgerHandler(logging.Handler):
    """What the engine warns of is part of the evidence: a lost lease explains a body that ran again."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(logging.WARNING)
        self._ledger = ledger

    def emit(self, record: logging.LogRecord) -> None:
        self._ledger.note("warned", level=record.levelname, text=record.getMessage())


async def run(options: argparse.Namespace) -> None:
    """Serve until SIGTERM, or until whoever started this is gone."""
    parent = os.getppid()
    ledger = use_ledger(Path(options.folder) / LEDGER)
    logging.getLogger("stepwell").addHandler(LedgerHandler(ledger))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    # A lease is renewed when a third of it is over: a shorter stall cannot end it.
    looking = asyncio.get_running_loop().create_task(note_stalls(ledger, options.lease * 0.6))
    while not stop.is_set() and os.getppid() == parent:
        try:
            await serve(options, ledger, stop, parent)
        except StoreUnavailableError as error:
            if mark_of(Path(options.folder), os.getpid()).exists():
                raise
            # There is no database to begin with: whoever looks after real workers starts them again, too.
            ledger.note("warned", level="WARNING", text=f"not started: {error.title}")
            await asyncio.sleep(_PAUSE_SECONDS)
    looking.cancel()
    ledger.note("drained")


class RememberingClock(SystemClock):
    """Knows when it was asked last, in the thread that asks: so it can be told when something was decided."""

    def __init__(self) -> None:
        self._asked = local()

    def monotonic(self) -> float:
        self._asked.at = time.monotonic()
        return float(self._asked.at)

    @property
    def asked_at(self) -> float:
        """When it was asked last."""
        return float(self._asked.at)


def note_start(ledger: Ledger, clock: RememberingClock, body: Body, execution: Execution) -> None:
    """A body was just found to have everything it needs, the lease among that: when, and under which incarnation.

    The process may be stopped at any time, also between the look at the clock and this note.
    """
    ledger.note(
        "cleared",
        run=body.run.run_id,
        path=body.names.text(body.location),
        attempt=body.attempt,
        incarnation=execution.run.owner,
        decided=clock.asked_at,
    )


async def note_stalls(ledger: Ledger, seconds: float) -> None:
    """The machine kept this process from running for longer than that: its lease may be over, and whoever drains it
    then hears nothing of it.
    """
    clock = asyncio.get_running_loop()
    while True:
        began = clock.time()
        await asyncio.sleep(_LOOK_SECONDS)
        if clock.time() - began > seconds:
            ledger.note("stalled", seconds=clock.time() - began)


async def serve(options: argparse.Namespace, ledger: Ledger, stop: asyncio.Event, parent: int) -> None:
    """Open an engine, and serve."""
    folder = Path(options.folder)
    clock = RememberingClock()
    environment = replace(system_environment(), clock=clock, on_body=partial(note_start, ledger, clock))
    settings = WorkerSettings(
        mode=options.mode,
        lease=options.lease,
        sweep_every=options.sweep,
        stalls_max=STALLS_MAX,
        runs_max=options.runs_max,
        name=f"storm-{os.getpid()}",
    )
    workflows = (*WORKFLOWS, *TRANSACTIONAL)
    async with Engine(
        options.url, workflows=workflows, settings=settings, environment=environment, sinks=SINKS, lifecycle=True
    ) as engine:
        client = Client(engine, ledger, random.Random(), active_max=options.starts, workflows=workflows)
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


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("url")
    parser.add_argument("--lease", type=float, default=1.0)
    parser.add_argument("--sweep", type=float, default=0.5)
    parser.add_argument("--mode", choices=("live", "yield"), default="live")
    parser.add_argument("--runs-max", type=int, default=1_000)
    parser.add_argument("--starts", type=int, default=0, help="runs of its own that it keeps under way")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
