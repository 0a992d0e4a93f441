"""Writes golden histories: what this release records of each primitive, to be replayed by all that follow.

`python -m tests.check.golden` adds the files that are missing in tests/histories. A file that a
release recorded is never written again: it must stay readable.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec

from stepwell.check import histories
from stepwell.check.histories import Recording
from stepwell.check.payloads import rewrite_all
from stepwell.errors.records import FailureRecord
from stepwell.model.failures import decode_failure, encode_failure
from stepwell.virtual.loop import VirtualLoop
from tests.cases.harness import Harness
from tests.cases.stores import STORES
from tests.check.golden_flows import FLOWS, answerer, helper, late_helper
from tests.check.recordings import record

FOLDER = Path(__file__).resolve().parents[1] / "histories"
FORMAT = f"v{histories.FORMAT}"


async def make(name: str) -> Recording:
    """Run one workflow as far as it goes, and give what is recorded of it."""
    flow, given, messages = FLOWS[name]
    harness = Harness(STORES["sqlite"](), "live")
    try:
        worker = await harness.worker(flow, helper, late_helper, answerer)
        run = await worker.start(flow, given, key=name)
        asking: list[asyncio.Task[Any]] = []
        await harness.advance("10s")
        for message in messages:
            if message.startswith("!"):
                await worker.publish(message[1:], {"n": 1})
            elif message.startswith("?"):
                asking.append(asyncio.ensure_future(worker.do(worker.engine.ask(name, message[1:], 1))))
            else:
                await worker.signal(name, message, {"n": 1})
            await harness.advance("10s")
        await asyncio.gather(*asking)
        view = await harness.status(run)
        return rewrite_all(await record(harness, view.successor or run.run_id), _without_trace)
    finally:
        await harness.close()


def _without_trace(_: str, payload: bytes) -> bytes:
    """Failures without the lines of code that they came from, which name files of whoever wrote them."""
    if not payload.startswith(b"{"):
        return payload
    return encode_failure(_bare(decode_failure(payload)))


def _bare(failure: FailureRecord) -> FailureRecord:
    causes = {name: _bare(cause) for name, cause in failure.causes.items()}
    return msgspec.structs.replace(failure, trace="", causes=causes)


def main() -> int:
    """Add what is missing."""
    FOLDER.mkdir(exist_ok=True)
    for name in FLOWS:
        file = FOLDER / f"{name}.{FORMAT}.json"
        if file.exists():
            continue
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            histories.write(runner.run(make(name)), file)
        print(f"wrote {file.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
