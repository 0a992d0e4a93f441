"""What a worker tells your code: `Observer` is the protocol, `Metrics` and `Traces` implement it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwell.worker.metrics import Metrics
    from stepwell.worker.observers import Observer
    from stepwell.worker.traces import Traces

__all__ = [
    "Metrics",
    "Observer",
    "Traces",
]

_HOMES = {
    "stepwell.worker.metrics": ["Metrics"],
    "stepwell.worker.observers": ["Observer"],
    "stepwell.worker.traces": ["Traces"],
}

if not TYPE_CHECKING:  # a type checker knows exactly the names above
    from stepwell.lazy import lazy_names

    __getattr__ = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
