"""System runs: stepwell's own workflows. Listings leave them out unless they are asked for."""

from __future__ import annotations

from typing import Final

from stepwell.model.messages import ASK
from stepwell.stores.base.filters import Condition, Field
from stepwell.stores.base.views import RunFilter

PREFIX: Final = "stepwell."  # of the names of our own workflows
BULK: Final = "stepwell.bulk"  # acts on many runs
ALERT: Final = "stepwell.alert"  # tells the notifiers about an alert
SYSTEM_DEFINITIONS: Final = (f"{BULK}@1", f"{ASK}@1")  # what every worker serves
_NAMING: Final = frozenset({Field.ID, Field.KEY, Field.WORKFLOW})
_HIDDEN: Final = Condition(Field.WORKFLOW, ((PREFIX, ""),), negated=True)


def without_system_runs(where: RunFilter) -> RunFilter:
    """The filter without system runs, unless it names runs itself: by id, key, parent or workflow."""
    if where.workflow is not None or where.key is not None or where.parent is not None:
        return where
    if any(one.field in _NAMING and not one.negated for one in where.conditions):
        return where
    return where._replace(conditions=(*where.conditions, _HIDDEN))
