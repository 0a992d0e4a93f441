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
from stepwell.check.code import check_code
from stepwell.check.inflight import Checked, Code, check_store
from stepwell.check.reports import Report, as_json
from stepwell.cli.dev.clock import environment_of
from stepwell.cli.dev.outlines import outline
from stepwell.cli.errors import describe
from stepwell.cli.modules import load_workflows
from stepwell.codec.json_codec import JsonCodec
from stepwell.codec.offload import Offloaded
from stepwell.environment import LockstepThreads
from stepwell.replay.registry import Registry
from stepwell.replay.workflows import Workflow


def examine(app: str, url: str) -> dict[str, Any]:
    """The operations of the code, the findings about it, and the unfinished runs that it could not continue."""
    workflows = load_workflows(app)
    report = Report(check_code(workflows), asyncio.run(_replay(workflows, url)))
    return {"outline": outline(workflows), "report": as_json(report)}


async def _replay(workflows: list[Workflow[Any, Any]], url: str) -> Checked:
    environment = environment_of(url)
    store, threads = open_store(url, environment, may_create=False), LockstepThreads()
    await store.open()
    try:
        return await check_store(store, Code(Registry(workflows), Offloaded(JsonCodec(), store.blobs), threads))
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
