"""The sinks of the shop: one accepts everything, one is not reachable, one rejects."""

from __future__ import annotations

from typing import Final

from stepwell import Fatal, Retry
from stepwell.sinks import EmittedEvent, handler
from stepwell.sinks.base import ALERTS, Sink


async def accept(event: EmittedEvent) -> None:
    """Deliver the event."""


async def not_reachable(event: EmittedEvent) -> None:
    """Fail for now."""
    raise ConnectionError("SMTP 421: mail.example is not available")


async def reject(event: EmittedEvent) -> None:
    """Fail for good."""
    raise Fatal(f"HTTP 410 Gone: <b>hooks.example</b> no longer takes {event.name}")


_SLOW: Final = Retry(max_attempts=99, initial="12h", factor=1.0, max_delay="12h")

SINKS: Final[tuple[Sink, ...]] = (
    handler(accept, events="order.*", name="warehouse"),
    handler(
        not_reachable,
        events="mail.*",
        name="mail",
        retry=Retry(max_attempts=99, initial="12h", factor=1.0, max_delay="12h"),
    ),
    handler(accept, events=f"{ALERTS}*", name="pager"),
    handler(reject, events=("odd.*", f"{ALERTS}*"), name="chat <i>hook"),
)
