"""Examines saved code in an interpreter of its own, before a worker loads it.

`python -m stepwell.cli.dev.examinations APP URL` always prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from stepwell.addresses import open_store
from stepwell.app import App, replay_codec
from stepwell.check.code import check_code
from stepwell.check.inflight import Checked, Code, check_store
from stepwell.check.reports import Report, as_json
from stepwell.cli.dev.clock import environment_of
from stepwell.cli.dev.outlines import outline
from stepwell.cli.errors import describe
from stepwell.cli.modules import load_app
from stepwell.environment import LockstepThreads
from stepwell.replay.registry import Registry


def examine(name: str, url: str) -> dict[str, Any]:
    """What the code has, what is unsound in it, and which runs in flight could not continue with it."""
    app = load_app(name).need_work()
    report = Report(check_code(list(app.workflows)), asyncio.run(_replay(app, url)))
    return {"outline": outline(list(app.workflows)), "report": as_json(report)}


async def _replay(app: App, url: str) -> Checked:
    environment = environment_of(url)
    store, threads = open_store(url, environment, may_create=False), LockstepThreads()
    await store.open()
    try:
        return await check_store(store, Code(Registry(app.workflows), replay_codec(app, store), threads))
    finally:
        threads.close()
        await store.close()
        environment.executor.close()


def main() -> int:
    """Print the findings. The output of the author's code goes to standard error."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    app, url = sys.argv[1:]
    try:
        found = examine(app, url)
    except Exception as error:  # noqa: BLE001  importing runs the author's code
        found = {"error": describe(error)[0]}
    with channel:
        json.dump(found, channel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
