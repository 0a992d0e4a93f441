"""How an application is looked after: rules that watch runs, and how long ended runs are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwell.engine.alert_rules import Alert
    from stepwell.engine.retention import Retention

__all__ = [
    "Alert",
    "Retention",
]

_HOMES = {
    "stepwell.engine.alert_rules": ["Alert"],
    "stepwell.engine.retention": ["Retention"],
}

if not TYPE_CHECKING:  # a type checker knows exactly the names above
    from stepwell.lazy import lazy_names

    __getattr__ = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
