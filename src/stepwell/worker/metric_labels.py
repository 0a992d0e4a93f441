"""Labels of metrics that come from runs: some of their attributes and tags, with a bounded number of values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from stepwell.errors import InvalidOptionError
from stepwell.model.attributes import is_attribute_name, show
from stepwell.model.runs import Run

LABELS_MAX: Final = 5
VALUES_MAX: Final = 50
OTHER: Final = "other"

_ATTRIBUTE: Final = "attr."
_TAG: Final = "tag."


class RunLabels:
    """The labels that a worker was asked for, such as `attr.region` and `tag.team`.

    A run without the attribute or tag has the empty value. Each label has at most `VALUES_MAX` values: runs with a
    further value are counted under `other`, so the number of time series stays small whatever the runs contain.
    """

    def __init__(self, wanted: Sequence[str]) -> None:
        self._wanted = tuple(wanted)
        self.names = tuple(_checked(one) for one in self._wanted)
        if len(set(self.names)) < len(self.names) or len(self.names) > LABELS_MAX:
            raise InvalidOptionError(
                f"these labels cannot be used: {', '.join(self._wanted)}",
                why=f"at most {LABELS_MAX} labels, and each has a name of its own: {', '.join(self.names)}",
                fix='Metrics(labels=["attr.region", "tag.team"])',
            )
        self._values: tuple[set[str], ...] = tuple(set() for _ in self._wanted)

    def of(self, run: Run) -> tuple[str, ...]:
        """The values of a run, as it was when it was claimed."""
        if not self._wanted:
            return ()
        pairs = zip(self._wanted, self._values, strict=True)
        return tuple([self._bounded(seen, _read(run, one)) for one, seen in pairs])

    def _bounded(self, seen: set[str], value: str) -> str:
        if value and value not in seen:
            if len(seen) >= VALUES_MAX:
                return OTHER
            seen.add(value)
        return value


def _checked(wanted: str) -> str:
    """The name of a label in the metrics: only letters, digits and `_`."""
    attribute, tag = wanted.removeprefix(_ATTRIBUTE), wanted.removeprefix(_TAG)
    if not (attribute != wanted and is_attribute_name(attribute)) and not (tag != wanted and tag):
        raise InvalidOptionError(
            f"{wanted!r} cannot be a label of metrics",
            why="a label is an attribute or a tag of runs",
            fix='write attr.NAME or tag.NAME, as in Metrics(labels=["attr.region", "tag.team"])',
        )
    return re.sub(r"[^A-Za-z0-9_]", "_", wanted)


def _read(run: Run, wanted: str) -> str:
    if wanted.startswith(_ATTRIBUTE):
        name = wanted.removeprefix(_ATTRIBUTE)
        return next((show(one) for one in run.attributes if one.name == name), "")
    name = wanted.removeprefix(_TAG)
    return next((value or "true" for tag, value in run.tags if tag == name), "")
