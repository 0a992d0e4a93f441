"""One worker process of the soak: `python -m tests.system.soak_worker FOLDER URL`. SIGTERM drains it.

It notes how many tasks and threads it has; after SIGUSR1 also how many objects of each type.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import signal
import threading
import tracemalloc
from collections import Counter
from pathlib import Path

from stepwell import Engine, WorkerSettings
from tests.system.fleet import mark_of
from tests.system.storm_worker import STALLS_MAX
from tests.system.storm_workflows import SINKS, TRANSACTIONAL, WORKFLOWS, use_ledger

EVERY_SECONDS = 2.0


def vitals_of(folder: Path, pid: int) -> Path:
    """Where a worker notes how it is: the latest only."""
    return folder / f"{pid}.vitals"


def types_of(folder: Path, pid: int, number: int) -> Path:
    """Where a worker notes its objects by type, the n-th time that it is asked."""
    return folder / f"{pid}.types{number}"


def count_types() -> Counter[str]:
    """The objects that the collector knows, by type."""
    gc.collect()
    return Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())


def write_whole(path: Path, text: str) -> None:
    """A reader sees all of it or none."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


class Vitals:
    """Notes how this process is."""

    def __init__(self, folder: Path, *, traces: bool) -> None:
        self._folder = folder
        self._asked = 0
        if traces:
            tracemalloc.start(10)

    def note(self) -> None:
        """Tasks and threads."""
        said = {
            "tasks": len(asyncio.all_tasks()),
            "threads": threading.active_count(),
        }
        write_whole(vitals_of(self._folder, os.getpid()), json.dumps(said))

    def note_types(self) -> None:
        """Objects by type, and where memory was allocated if that is traced."""
        self._asked += 1
        said: dict[str, object] = {"types": count_types()}
        if tracemalloc.is_tracing():
            top = tracemalloc.take_snapshot().statistics("lineno")[:4_000]
            said["lines"] = {f"{line.traceback[0].filename}:{line.traceback[0].lineno}": line.size for line in top}
        write_whole(types_of(self._folder, os.getpid(), self._asked), json.dumps(said))


async def run(options: argparse.Namespace) -> None:
    """Serve until SIGTERM, or until whoever started this is gone."""
    parent, folder, stop = os.getppid(), Path(options.folder), asyncio.Event()
    logging.basicConfig(level=logging.ERROR)
    use_ledger(Path(os.devnull))
    vitals = Vitals(folder, traces=options.traces)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, vitals.note_types)
    # Code of waiting runs that another worker has taken up stays until there is no room for more: the room is small
    # here, so that it is full before the growth is measured.
    settings = WorkerSettings(lease="2s", stalls_max=STALLS_MAX, cache_max=100, name=f"soak-{os.getpid()}")
    async with Engine(
        options.url, workflows=(*WORKFLOWS, *TRANSACTIONAL), settings=settings, sinks=SINKS, lifecycle=True
    ):
        mark_of(folder, os.getpid()).touch()
        while not stop.is_set() and os.getppid() == parent:
            vitals.note()
            try:
                await asyncio.wait_for(stop.wait(), EVERY_SECONDS)
            except TimeoutError:
                continue


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("url")
    parser.add_argument("--traces", action="store_true", help="trace every allocation, which takes time")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
