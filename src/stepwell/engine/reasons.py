"""Reasons: where a run that has not ended well is, and why, each in one line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, assert_never

from stepwell.model.states import RunStatus

if TYPE_CHECKING:
    from stepwell.engine.views import HoldView, RunView, WaitView
    from stepwell.errors.records import FailureRecord
    from stepwell.stores.base.overviews import State
    from stepwell.stores.base.store import Store

UNDO_MARK = "~undo"  # in a path: the undo of the step before it
_OWN = "run"  # the name under which the failure of an undo keeps the failure of its run
_MAY_KEEP_OWN = frozenset({RunStatus.COMPENSATION_FAILED, RunStatus.COMPENSATING, RunStatus.PAUSED})
_NEED_WAITS = frozenset({RunStatus.WAITING, RunStatus.PAUSED, RunStatus.CANCELLING, RunStatus.COMPENSATING})


_EXPLAINED_MAX: Final = 200  # runs whose waits are read
_CHILDREN_MAX: Final = 3


class Reason(NamedTuple):
    """Where a run is, and why it is there; both are empty for a run that needs no explanation."""

    where: str = ""
    why: str = ""


class Origin(NamedTuple):
    """The failure that caused all others above it."""

    path: str
    failure: FailureRecord
    others: int  # failures beside it: of other branches, items or children

    @property
    def words(self) -> str:
        """The failure on one line."""
        more = f" (and {self.others} more)" if self.others else ""
        return self.failure.summary + more


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the reasons of the runs on one page depend on, besides the runs."""

    now: datetime
    served: Collection[str] = ()  # definitions that a live worker serves
    held: Mapping[str | None, HoldView] = field(default_factory=dict)  # workflows that are paused; None is all of them
    waits: Mapping[str, Sequence[WaitView]] = field(default_factory=dict)  # by run
    children: Mapping[str, Sequence[State]] = field(default_factory=dict)  # that have not ended, by run


async def look_around(store: Store, runs: Sequence[RunView]) -> Surroundings:
    """What the reasons of these runs depend on, in a few reads."""
    from stepwell.clock import to_datetime
    from stepwell.engine.views import hold_view, standing_views
    from stepwell.ids import RunId

    asked = [RunId(run.run_id) for run in runs if needs_waits(run)][:_EXPLAINED_MAX]
    standings = await store.overviews.list_standings(asked, limit=_CHILDREN_MAX) if asked else []
    now, served = store.now(), set[str]()
    held: dict[str | None, HoldView] = {}
    if any(run.status == RunStatus.PENDING for run in runs):
        workers = await store.views.list_workers()
        served = served.union(*(worker.definitions for worker in workers if worker.lease_until > now))
        held = {one.workflow: hold_view(one.hold, one.workflow) for one in await store.holds.list_holds()}
    return Surroundings(
        to_datetime(now),
        served,
        held,
        {run_id: standing_views(one) for run_id, one in zip(asked, standings, strict=True)},
        {run_id: one.children for run_id, one in zip(asked, standings, strict=True)},
    )


def needs_waits(run: RunView) -> bool:
    """Whether the reason of a run depends on what it waits for."""
    return run.status in _NEED_WAITS and not run.unreadable


def reason_of(run: RunView, around: Surroundings) -> Reason:
    """Where a run is and why, if it has not ended well."""
    if run.unreadable:
        return Reason("", run.unreadable)
    match RunStatus(run.status):
        case RunStatus.COMPLETED | RunStatus.RUNNING:
            return Reason()
        case RunStatus.CONTINUED:
            return Reason("", f"continued by run {run.successor}")
        case RunStatus.CANCELLED:
            return Reason("", run.reason)
        case RunStatus.FAILED | RunStatus.COMPENSATED:
            return _failed(run)
        case RunStatus.COMPENSATION_FAILED:
            return _stopped_rollback(run)
        case RunStatus.PAUSED:
            return _paused(run, around)
        case RunStatus.PENDING:
            return Reason("", _not_begun(run, around))
        case RunStatus.WAITING | RunStatus.CANCELLING | RunStatus.COMPENSATING:
            return _waiting(run, around)
        case never:
            assert_never(never)


def origin_of(failure: FailureRecord) -> Origin:
    """The failure at the bottom of a chain, and its path in the run whose failure this is."""
    from stepwell.errors import ChildFailed

    path, others, is_own = failure.path, 0, True
    while failure.causes:
        is_own = is_own and failure.code != ChildFailed.code  # below it, paths are those of the child
        first, *rest = failure.causes.values()
        others += len(rest)
        path = first.path if is_own and first.path else path
        failure = first
    return Origin(path, failure, others)


class Failing(Protocol):
    """A run that may have failed."""

    @property
    def status(self) -> str: ...
    @property
    def failure(self) -> FailureRecord | None: ...


def failures_of(run: Failing) -> tuple[FailureRecord | None, FailureRecord | None]:
    """The failure of the run itself, and the failure that stopped its rollback; the first alone if none did."""
    if run.failure is None or run.status not in _MAY_KEEP_OWN:
        return run.failure, None
    own = run.failure.causes.get(_OWN)
    if own is None:
        is_undo = run.status == RunStatus.COMPENSATION_FAILED
        return (None, run.failure) if is_undo else (run.failure, None)
    import msgspec

    rest = {name: cause for name, cause in run.failure.causes.items() if name != _OWN}
    return own, msgspec.structs.replace(run.failure, causes=rest)


def is_paused_by_code(run: RunView) -> bool:
    """Whether a run is paused because the code does not fit its history; other code lets it continue."""
    if run.status != RunStatus.PAUSED or run.hold is not None or run.failure is None:
        return False
    from stepwell.engine.causes import is_fixed_by_code

    own, stopped = failures_of(run)
    failure = stopped or own
    return failure is not None and is_fixed_by_code(failure)


def undone_path(path: str) -> str:
    """The path of the step that an undo, or something inside the undo, belongs to."""
    return path.partition(UNDO_MARK)[0]


def wait_line(wait: WaitView, children: Sequence[State] = ()) -> str:
    """What one wait waits for."""
    until = f" until {_second(wait.due_at)} UTC" if wait.due_at else ""
    match wait.kind:
        case "signal":
            return f"waits for signal {' or '.join(map(repr, wait.names)) or 'of any name'}{until}"
        case "topic":
            asked = f" with {', '.join(wait.where)}" if wait.where else ""
            return f"waits for event {wait.names[0]!r}{asked}{until}"
        case "child":
            shown = ", ".join(f"{child.key or child.run_id} ({child.status})" for child in children)
            return f"waits for child {shown}" if shown else "waits for its child"
        case "retry":
            last = wait.failed_attempts[-1] if wait.failed_attempts else None
            why = f": attempt {last.number} failed: {last.error}" if last else ""
            return f"retries at {_second(wait.due_at)} UTC{why}"
        case _:
            return f"sleeps{until}"


def _failed(run: RunView) -> Reason:
    if run.failure is None:
        return Reason("", run.reason)
    origin = origin_of(run.failure)
    return Reason(origin.path, origin.words)


def _stopped_rollback(run: RunView) -> Reason:
    own, stopped = failures_of(run)
    if stopped is None:
        return Reason("", run.reason)
    undo = origin_of(stopped)
    first = "" if own is None else f"; the run failed first: {origin_of(own).words}"
    return Reason(f"undo of {undone_path(undo.path)}", f"{undo.words}{first}")


def _paused(run: RunView, around: Surroundings) -> Reason:
    if run.hold is not None:
        first = next(iter(around.waits.get(run.run_id, ())), None)
        return Reason(first.path if first else "", _held(run.hold, "paused"))
    own, stopped = failures_of(run)
    failure = stopped or own
    if failure is None:
        return Reason("", run.reason)
    origin = origin_of(failure)
    said = f"changed code: {origin.failure.message}" if is_paused_by_code(run) else origin.words
    return Reason(origin.path, said)


def _held(hold: HoldView, what: str) -> str:
    return what + (f" by {hold.by}" if hold.by else "") + (f": {hold.reason}" if hold.reason else "")


def _not_begun(run: RunView, around: Surroundings) -> str:
    if (hold := around.held.get(run.workflow) or around.held.get(None)) is not None:
        return _held(hold, "workflow paused" if run.workflow in around.held else "all workflows paused")
    if f"{run.workflow}@{run.version}" not in around.served:
        return f"no live worker serves {run.workflow} v{run.version}"
    return f"begins at {_second(run.wake_at)} UTC" if run.wake_at and run.wake_at > around.now else ""


def _waiting(run: RunView, around: Surroundings) -> Reason:
    waits, children = around.waits.get(run.run_id, ()), around.children.get(run.run_id, ())
    if not waits:
        return Reason("", f"waits until {_second(run.wake_at)} UTC" if run.wake_at else "")
    first = wait_line(waits[0], children)
    return Reason(waits[0].path, first + (f" (and {len(waits) - 1} more)" if len(waits) > 1 else ""))


def _second(when: datetime | None) -> str:
    return "" if when is None else f"{when:%Y-%m-%d %H:%M:%S}"
