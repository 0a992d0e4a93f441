"""Cancelling a run: by `engine.cancel`, and by the signal `Cancel`."""

from __future__ import annotations

from stepwell.engine.backend import Backend
from stepwell.redaction import redact


async def cancel_run(backend: Backend, target: str, reason: str, *, compensate: bool, by: str = "") -> bool:
    """Cancel the last run of a chain, and the children that it waits for; whether this call did it."""
    run = await backend.get_last(target)
    act = backend.new_act()
    cancelled = await backend.retrying(
        lambda store: store.runs.cancel(
            run.run_id, compensate=compensate, reason=redact(reason), by=by, announce=backend.announce, act=act
        )
    )
    return cancelled.changed
