"""Budgets: how much a step does before it should let other runs go first."""

from __future__ import annotations

from dataclasses import dataclass

from stepwell.clock import SECOND, Duration, span
from stepwell.errors import InvalidOptionError

NEARLY = 0.9  # of the time; the rest is for reporting progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one turn of a long step may use. A step that has used it is not stopped: `should_yield()` becomes true."""

    time: Duration | None = None
    rows: int | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        if self.time is not None and span(self.time, what="budget") == 0:
            raise _no_budget("time", self.time)
        for name in ("rows", "bytes"):
            limit = getattr(self, name)
            if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
                raise _no_budget(name, limit)


def budget_of(given: Duration | Budget | None) -> Budget | None:
    """The budget that an option gives as a duration or as a `Budget`."""
    return given if given is None or isinstance(given, Budget) else Budget(time=given)


class Spending:
    """What a turn has used of its budget."""

    __slots__ = ("_budget", "_portions", "_seconds", "_used")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._seconds = None if budget.time is None else span(budget.time) / SECOND
        self._used = {"rows": 0, "bytes": 0}
        self._portions = {"rows": 0, "bytes": 0}

    def count(self, *, rows: int, bytes: int) -> None:
        """Add rows and bytes that the body has processed."""
        for name, more in (("rows", rows), ("bytes", bytes)):
            if more < 0:
                raise InvalidOptionError(
                    f"count: {name} is {more}", where="StepContext.count", fix="pass 0 or a positive number"
                )
            self._used[name] += more
            self._portions[name] = max(self._portions[name], more)

    def is_nearly_used(self, seconds: float) -> bool:
        """Whether another portion as large as the largest so far would exceed the budget, or 90 % of its time."""
        if self._seconds is not None and seconds >= self._seconds * NEARLY:
            return True
        limits = (("rows", self._budget.rows), ("bytes", self._budget.bytes))
        return any(limit is not None and self._used[name] + self._portions[name] > limit for name, limit in limits)


def _no_budget(name: str, limit: object) -> InvalidOptionError:
    return InvalidOptionError(
        f"budget: {name} is {limit!r}",
        why="a budget must allow some work",
        fix='write budget="30s", for example, or Budget(time="30s", rows=10_000)',
    )
