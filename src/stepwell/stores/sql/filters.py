"""The one place that assembles SQL: conditions of listings, from an allow-list."""

from __future__ import annotations

from typing import Any

from stepwell.ids import RunId
from stepwell.model.states import RunStatus
from stepwell.stores.base.views import RunFilter

_CONDITIONS = {
    "status": "status = :status",
    "workflow": "workflow = :workflow",
    "key": "key = :key",
    "parent": "parent = :parent",
    "before": "run_id < :before",
}
# Says nothing new, but lets a database use an index that leaves the completed runs out.
_NOT_COMPLETED = "status <> 'completed'"


def run_conditions(where: RunFilter, before: RunId | None) -> list[tuple[str, dict[str, Any]]]:
    """Conditions with their parameters: one for each status, because each is then a range of an index in order."""
    common = {"workflow": where.workflow, "key": where.key, "parent": where.parent, "before": before}
    return [_conditions({"status": status, **common}) for status in dict.fromkeys(where.statuses or (None,))]


def _conditions(wanted: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    given = {name: value for name, value in wanted.items() if value is not None}
    texts = [_CONDITIONS[name] for name in given]
    if given.get("status", RunStatus.COMPLETED) is not RunStatus.COMPLETED:
        texts.append(_NOT_COMPLETED)
    return " and ".join(texts) or "true", given
