"""One worker process with sinks: `python -m tests.system.postgres.serve FOLDER URL`. SIGTERM drains it.

It is what `stepwell worker` is, and can be what that cannot: somebody whose wall clock is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import signal
from pathlib import Path

from stepwell import Engine, WorkerSettings
from stepwell.clock import SECOND, Instant, SystemClock
from stepwell.environment import Environment, SystemExecutor
from stepwell.ids import SystemIds
from tests.system.fleet import mark_of
from tests.system.postgres.served import WORKFLOWS
from tests.system.storm_worker import STALLS_MAX
from tests.system.storm_workflows import SINKS


class SkewedClock(SystemClock):
    """A wall clock that is wrong by so many seconds; monotonic time is nobody's to set."""

    def __init__(self, seconds: float) -> None:
        self._skew = int(seconds * SECOND)

    def now(self) -> Instant:
        return Instant(super().now() + self._skew)


async def serve(options: argparse.Namespace) -> None:
    """Serve until SIGTERM, or until whoever started this is gone."""
    folder, parent = Path(options.folder), os.getppid()
    logging.basicConfig(level=logging.WARNING)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = WorkerSettings(
        mode=options.mode, lease=options.lease, sweep_every="500ms", stalls_max=STALLS_MAX, name=options.name
    )
    clock = SkewedClock(options.skew)
    environment = Environment(clock, SystemIds(clock), random.Random(), SystemExecutor())
    async with Engine(
        options.url,
        workflows=WORKFLOWS,
        settings=settings,
        environment=environment,
        sinks=SINKS,
        lifecycle=True,
    ):
        mark_of(folder, os.getpid()).touch()
        while not stop.is_set() and os.getppid() == parent:
            try:
                await asyncio.wait_for(stop.wait(), 1.0)
            except TimeoutError:
                continue


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("url")
    parser.add_argument("--lease", type=float, default=30.0)
    parser.add_argument("--mode", choices=("live", "yield"), default="live")
    parser.add_argument("--name", default="worker")
    parser.add_argument("--skew", type=float, default=0.0, help="seconds that its wall clock is ahead")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
