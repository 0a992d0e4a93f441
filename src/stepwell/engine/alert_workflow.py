"""The workflow that tells the notifiers about an alert. The outbox retries those that fail."""

from __future__ import annotations

from typing import Any

from stepwell.engine.alerts import VERSION
from stepwell.engine.system_runs import ALERT
from stepwell.replay.context import Context
from stepwell.replay.workflows import Workflow, workflow
from stepwell.sinks.base import ALERTS


def alert_workflow() -> Workflow[Any, None]:
    """The workflow."""

    @workflow(name=ALERT, version=VERSION, unread="discard")
    async def alert(ctx: Context, notice: dict[str, Any]) -> None:
        await ctx.emit(f"{ALERTS}{notice['event']}", notice)

    return alert
