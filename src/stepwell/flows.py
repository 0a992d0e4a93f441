"""Steps that call something by its name or address: `flow`, `flow_at`, `flow_step` and `http_step`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwell.replay.outside_calls import flow, flow_at, flow_step, http_step

__all__ = [
    "flow",
    "flow_at",
    "flow_step",
    "http_step",
]

_HOMES = {"stepwell.replay.outside_calls": ["flow", "flow_at", "flow_step", "http_step"]}

if not TYPE_CHECKING:  # a type checker knows exactly the names above
    from stepwell.lazy import lazy_names

    __getattr__ = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
