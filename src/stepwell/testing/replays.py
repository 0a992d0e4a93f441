"""Whether recorded runs continue with the current code."""

from __future__ import annotations

from typing import Any

from stepwell.check.dry import Divergence, replay
from stepwell.check.histories import find
from stepwell.codec.base import Codec
from stepwell.environment import LockstepThreads
from stepwell.replay.workflows import Workflow


def assert_replays(workflow: Workflow[Any, Any], pattern: str, codec: Codec | None) -> int:
    """How many recorded runs of a workflow continue with it. Raises `AssertionError` if one does not, or for none."""
    threads = LockstepThreads()
    others: set[str] = set()
    count, broken = 0, []
    try:
        for file, recording in find(pattern):
            if recording.run.definition != workflow.definition:
                others.add(recording.run.definition)
                continue
            count += 1
            outcome = replay(workflow, recording, codec=codec, threads=threads)
            if isinstance(outcome, Divergence):
                broken.append(f"{file}: run {recording.run.run_id}\n{outcome.words}")
    finally:
        threads.close()
    if broken:
        raise AssertionError(
            "\n\n".join([f"{len(broken)} of {count} recorded runs do not continue with this code", *broken])
        )
    if count == 0:
        found = f"; the files have runs of {', '.join(sorted(others))}" if others else ""
        raise AssertionError(f"no recorded run of {workflow.definition} is in {pattern}{found}")
    return count
