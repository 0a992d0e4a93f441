"""Rules of alerts as people write them, and what is stored of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from stepwell.clock import SECOND, Duration, Span, span
from stepwell.errors import DuplicateNameError, InvalidOptionError
from stepwell.model.alerts import Rule, RuleKind
from stepwell.model.locations import check_name
from stepwell.replay.workflows import Workflow
from stepwell.setting_sources import Found

_COUNT_MAX: Final = 10_000
_WITHIN_MAX: Final = Span(7 * 86_400 * SECOND)  # of a count: it is counted anew each time
_WITHIN_MIN: Final = Span(10 * SECOND)


@dataclass(frozen=True, slots=True, init=False)
class Alert:
    """Watches runs, and tells the notifiers once when its rule fires and once when that is over.

        App(workflows=[order], alerts=[Alert("orders fail", order, count=5, within="10m")], sinks=[mail, chat])

    Give exactly one condition:

    * `failed=True`: a run has failed, in the last hour or `within`;
    * `count=5, within="10m"`: so many runs have failed within that time;
    * `consecutive=3`: so many runs have failed in a row; a run that completes breaks the row;
    * `stalled="1d"`: a run has made no progress for so long, and nothing will wake it by itself;
    * `rollback_incomplete=True`: an undo has failed for good. Every app with alerts has this rule;
    * `oldest_ready="15m"`: a run has been due for so long, and no worker has claimed it.

    Without a `workflow`, a rule watches all of them. Notifiers are sinks that want events `stepwell.alert.*`.
    """

    name: str
    rule: Rule

    def __init__(
        self,
        name: str,
        workflow: Workflow[Any, Any] | str | None = None,
        *,
        failed: bool = False,
        count: int | None = None,
        consecutive: int | None = None,
        within: Duration | None = None,
        stalled: Duration | None = None,
        rollback_incomplete: bool = False,
        oldest_ready: Duration | None = None,
    ) -> None:
        of = workflow.name if isinstance(workflow, Workflow) else workflow
        given = {
            RuleKind.FAILED: failed or None,
            RuleKind.COUNT: count,
            RuleKind.CONSECUTIVE: consecutive,
            RuleKind.STALLED: stalled,
            RuleKind.ROLLBACK_INCOMPLETE: rollback_incomplete or None,
            RuleKind.OLDEST_READY: oldest_ready,
        }
        kinds = [kind for kind, value in given.items() if value is not None]
        if len(kinds) != 1:
            named = " and ".join(kinds) or "none"
            raise InvalidOptionError(
                f"alert {name!r:.80} has {len(kinds)} conditions: {named}",
                fix='give exactly one, such as count=5, within="10m"',
            )
        kind, value = kinds[0], given[kinds[0]]
        if of is not None:
            check_name(of, what="workflow")
        object.__setattr__(self, "name", check_name(name, what="alert name"))
        object.__setattr__(self, "rule", _rule(name, kind, of, value, within))


def _rule(name: str, kind: RuleKind, workflow: str | None, value: Any, within: Duration | None) -> Rule:
    if within is not None and kind not in (RuleKind.COUNT, RuleKind.FAILED):
        raise InvalidOptionError(f"alert {name!r:.80}: within has no meaning with {kind}", fix="leave `within` out")
    match kind:
        case RuleKind.COUNT:
            if within is None:
                raise InvalidOptionError(f"alert {name!r:.80}: count needs a time", fix='count=5, within="10m"')
            return Rule(kind, workflow, _number(name, value), _time(name, within))
        case RuleKind.FAILED:
            return Rule(kind, workflow, 1, _time(name, "1h" if within is None else within))
        case RuleKind.CONSECUTIVE:
            if workflow is None:
                raise InvalidOptionError(
                    f"alert {name!r:.80}: failures in a row are those of one workflow", fix="name the workflow"
                )
            return Rule(kind, workflow, _number(name, value))
        case RuleKind.ROLLBACK_INCOMPLETE:
            return Rule(kind, workflow)
        case _:
            return Rule(kind, workflow, 1, _time(name, value, longest=None))


def _number(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _COUNT_MAX:
        raise InvalidOptionError(f"alert {name!r:.80}: {value!r:.40} is no count", fix=f"use 1 to {_COUNT_MAX:,}")
    return value


def _time(name: str, value: Duration, *, longest: Span | None = _WITHIN_MAX) -> Span:
    found = span(value, what=f"alert {name!r:.80}")
    if found < _WITHIN_MIN or (longest is not None and found > longest):
        raise InvalidOptionError(f"alert {name!r:.80}: {value!r} is no time to watch", fix='use "10s" to "7d"')
    return found


DEFAULT: Final = Alert("rollback incomplete", rollback_incomplete=True)
"""What every app with alerts watches."""


def with_default(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    """The rules of an app, by name. Raises `DuplicateNameError`."""
    found: dict[str, Alert] = {DEFAULT.name: DEFAULT}
    own: set[str] = set()
    given: Any
    for given in alerts:
        if not isinstance(given, Alert):
            raise InvalidOptionError(f"{given!r:.80} is not an alert", fix='alerts=[Alert("name", failed=True)]')
        if given.name in own:
            raise DuplicateNameError(f"two alerts are called {given.name!r}", fix="give one of them another name")
        own.add(given.name)
        found[given.name] = given
    return tuple(found.values())


_TIME: Final = ((str, int, float), '"10m"')
_FILE_KEYS: Final[Mapping[str, tuple[Any, str]]] = {  # with what they may be, and an example
    "workflow": (str, '"order"'),
    "within": _TIME,
    "failed": (bool, "true"),
    "count": (int, "5"),
    "consecutive": (int, "3"),
    "stalled": _TIME,
    "rollback_incomplete": (bool, "true"),
    "oldest_ready": _TIME,
}


def with_file(alerts: tuple[Alert, ...] | None, rules: Mapping[str, Found]) -> tuple[Alert, ...] | None:
    """The rules of an app and those of the settings file. Raises `InvalidOptionError` and `DuplicateNameError`."""
    if not rules:
        return alerts
    known = {alert.name for alert in alerts or ()}
    found = [_from_file(name, rule) for name, rule in rules.items()]
    for alert in found:
        if alert.name in known and alert.name != DEFAULT.name:
            raise DuplicateNameError(
                f"alert {alert.name!r} is in the code and in the settings file",
                where=rules[alert.name].origin.where,
                why="the two may differ, and nobody would see which one counts",
                fix="remove it from one of them, or give one of them another name",
            )
    return with_default([*(one for one in alerts or () if one.name not in rules), *found])


def _from_file(name: str, found: Found) -> Alert:
    for key, value in found.value.items():
        if key not in _FILE_KEYS:
            raise InvalidOptionError(
                f"alert {name!r:.80}: {key!r:.40} is not a part of a rule",
                where=found.origin.where,
                fix=f"one of {', '.join(_FILE_KEYS)}",
            )
        kind, example = _FILE_KEYS[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise InvalidOptionError(
                f"alert {name!r:.80}: {key} is {value!r:.40}", where=found.origin.where, fix=f"{key} = {example}"
            )
    try:
        return Alert(name, **found.value)
    except InvalidOptionError as error:
        raise InvalidOptionError(error.title, where=found.origin.where, why=error.why, fix=error.fix) from None


class AlertBody(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of a rule, and of its state."""

    kind: str
    workflow: str | None
    count: int
    within: int
    by: str = ""  # who created it; empty: the code
    value: float = 0.0
    runs: list[str] = []
    since: int | None = None  # when it began to fire
    fired: int = 0  # how often
    last_at: int | None = None  # when it fired last
    is_told: bool = False  # the notifiers know that it fires
    seen_by: str = ""
    note: str = ""
    muted_until: int | None = None
    muted_by: str = ""
    changed_at: int = 0

    @property
    def rule(self) -> Rule:
        """The rule."""
        return Rule(RuleKind(self.kind), self.workflow, self.count, Span(self.within))


def body_of(alert: Alert, by: str) -> AlertBody:
    """A new rule."""
    rule = alert.rule
    return AlertBody(kind=rule.kind.value, workflow=rule.workflow, count=rule.least, within=rule.within, by=by)
