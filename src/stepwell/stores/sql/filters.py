"""The one place that assembles SQL: conditions of listings, from an allow-list."""

from __future__ import annotations

from typing import Any

from stepwell.ids import RunId
from stepwell.stores.base.views import RunFilter

_CONDITIONS = {
    "statuses": "status in (select value from json_each(:statuses))",
    "workflow": "workflow = :workflow",
    "key": "key = :key",
    "parent": "parent = :parent",
    "before": "run_id < :before",
}


def run_conditions(where: RunFilter, before: RunId | None) -> tuple[str, dict[str, Any]]:
    """The condition and its parameters; `statuses` is left to the caller to encode as its database reads lists."""
    wanted = {**where._asdict(), "before": before}
    given = {name: value for name, value in wanted.items() if value is not None and value != ()}
    return " and ".join(_CONDITIONS[name] for name in given) or "true", given
