"""The alerter: looks at the rules of alerts, and records what changed."""

from __future__ import annotations

import logging
from typing import Final

from stepwell.clock import SECOND, Instant, Span
from stepwell.engine.alerts import Alerts
from stepwell.engine.records import RecordKind

_LOG = logging.getLogger("stepwell.worker")

EVERY: Final = Span(15 * SECOND)  # how often all workers together look at the rules, on average


class Alerter:
    """Looks at all rules, less often the more workers there are. Nothing is written unless a state changes; then the
    first worker that records it wins, and nothing is told twice.
    """

    name = "alerts"
    kinds: tuple[RecordKind, ...] = ()  # it knows when it looks next

    def __init__(self, alerts: Alerts) -> None:
        self._alerts = alerts

    async def run_once(self, now: Instant) -> Instant | None:
        """Look at every rule."""
        for name, rule in await self._alerts.rules():
            measured = await self._alerts.measures.measure(rule)
            changed = await self._alerts.note(name, measured)
            if changed == "firing":
                _LOG.warning("alert %s: %s (now %g)", name, rule.words(), measured.value)
            elif changed == "ok":
                _LOG.info("alert %s is over: %s (now %g)", name, rule.words(), measured.value)
        return Instant(now + EVERY * await self._alerts.count_workers())
