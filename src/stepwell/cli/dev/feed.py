"""What runs do, read from the database: any client may start them, and any worker may execute them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from stepwell.cli.bodies import entry_body, failure_body
from stepwell.cli.dev.lines import Event
from stepwell.cli.statuses import STATUSES
from stepwell.cli.texts import brief, clean, duration, is_plain_word, shell_word, shorten
from stepwell.cli.values import shown_value
from stepwell.clock import Instant, to_datetime
from stepwell.engine.views import EntryView, HoldView, RunView, WaitView, entry_views, run_view, wait_views
from stepwell.errors import WaitTimeout
from stepwell.ids import RunId
from stepwell.model.runs import Run
from stepwell.model.states import ACTIVE, RunStatus
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import Detail, RunFilter

_PAGE: Final = 100
_PAGES_MAX: Final = 10
_ACTIVE_MAX: Final = 1_000  # that are followed
_ENDED_MAX: Final = 5_000  # whose ids are remembered
_PATH_WIDTH: Final = 18
_ERROR_MAX: Final = 160

Tell = Callable[[Event], None]


@dataclass(slots=True)
class _Told:
    """What was already printed about a run."""

    mark: tuple[Any, ...] = ()
    seq: int = 0
    status: str = ""
    waits: set[tuple[str, str, datetime | None]] = field(default_factory=set)
    tries: set[tuple[str, int]] = field(default_factory=set)
    hold: HoldView | None = None


class Feed:
    """Reports each thing once: starts, steps, failed attempts, waits, ends."""

    def __init__(self, store: Store, tell: Tell) -> None:
        self._store = store
        self._tell = tell
        self._told: dict[RunId, _Told] = {}
        self._active: set[RunId] = set()
        self._since = Instant(0)  # runs that were created before it are not reported

    async def begin(self) -> list[Detail]:
        """Take everything up to now as reported; returns the runs that have not ended."""
        unfinished, self._since = [], self._store.now()
        for run in (await self._changed()).values():
            told = self._told[run.run_id] = _Told(_mark(run))
            if run.status in ACTIVE:
                detail = await self._store.views.detail(run.run_id)
                if detail is not None:
                    for _ in self._news(detail, told):
                        pass
                    unfinished.append(detail)
        return unfinished

    async def look(self) -> None:
        """Report what is new."""
        for run in (await self._changed()).values():
            told = self._told.setdefault(run.run_id, _Told())
            if told.mark == _mark(run):
                continue
            is_new, told.mark = told.mark == (), _mark(run)
            detail = await self._store.views.detail(run.run_id)
            if detail is None:
                continue
            is_old = is_new and run.created_at < self._since
            if is_new and not is_old:
                self._tell(_started(run_view(detail.run)))
            for event in self._news(detail, told):
                if not is_old:
                    self._tell(event)
        self._forget_old()

    async def _changed(self) -> dict[RunId, Run]:
        """Runs that may have changed, in the order of their creation."""
        views = self._store.views
        active = await views.list_runs(RunFilter(statuses=tuple(sorted(ACTIVE))), limit=_ACTIVE_MAX)
        found = {run.run_id: run for run in active}
        before = None
        for _ in range(_PAGES_MAX):
            page = await views.list_runs(RunFilter(), limit=_PAGE, before=before)
            fresh = [run for run in page if run.run_id not in self._told and run.created_at >= self._since]
            found.update((run.run_id, run) for run in fresh if run.run_id not in found)
            if len(page) < _PAGE or not fresh:
                break
            before = page[-1].run_id
        gone = sorted(self._active - found.keys())
        for run in await views.find_many(gone) if gone else []:
            if run is not None:
                found[run.run_id] = run
        self._active = {run.run_id for run in found.values() if run.status in ACTIVE}
        return dict(sorted(found.items(), key=lambda item: (item[1].created_at, item[0])))

    def _forget_old(self) -> None:
        if len(self._told) > 2 * _ENDED_MAX:
            ended = [run_id for run_id in self._told if run_id not in self._active]
            for run_id in ended[:-_ENDED_MAX]:
                del self._told[run_id]

    def _news(self, detail: Detail, told: _Told) -> Iterator[Event]:
        run, entries, waits = run_view(detail.run), entry_views(detail), wait_views(detail)
        done = [_recorded(run, entry) for entry in sorted(entries, key=lambda one: one.seq) if entry.seq > told.seq]
        told.seq = max([told.seq, *(entry.seq for entry in entries)])
        yield from sorted([*self._tries(run, entries, waits, told), *done], key=lambda event: event.at)
        latest = {(wait.path, wait.kind, wait.due_at) for wait in waits}
        for wait in waits:
            if wait.kind != "retry" and (wait.path, wait.kind, wait.due_at) not in told.waits:
                yield _waiting(run, wait, to_datetime(self._store.now()))
        told.waits = latest
        is_held_anew, told.hold = run.hold != told.hold, run.hold
        if is_held_anew and not run.is_ended and run.status not in _NOTABLE:
            yield _held(run, to_datetime(self._store.now()))
        if run.status != told.status or (is_held_anew and run.hold is not None and run.status == RunStatus.PAUSED):
            told.status = run.status
            if run.is_ended or run.status in _NOTABLE:
                yield _state(run, to_datetime(self._store.now()))

    def _tries(self, run: RunView, entries: list[EntryView], waits: list[WaitView], told: _Told) -> Iterator[Event]:
        places = [(one.path, one.failed_attempts) for one in entries]
        places += [(one.path, one.failed_attempts) for one in waits]
        for path, tries in places:
            for attempt in tries:
                if (path, attempt.number) not in told.tries:
                    told.tries.add((path, attempt.number))
                    if attempt.next_at is not None:
                        soon = duration((attempt.next_at - attempt.at).total_seconds())
                        error = shorten(clean(attempt.error), _ERROR_MAX)
                        words = f"  ↻ {path:<{_PATH_WIDTH}} attempt {attempt.number} failed: {error}; retry in {soon}"
                        facts = {"path": path, "attempt": attempt.number, "error": attempt.error}
                        yield Event("retry", words, attempt.at, run.run_id, name_of(run), facts)


_NOTABLE: Final = frozenset({RunStatus.PAUSED, RunStatus.COMPENSATING, RunStatus.COMPENSATION_FAILED})


def name_of(run: RunView) -> str:
    """The name of a run for people: its key, or its id."""
    return run.key or run.run_id


def _word_of(run: RunView) -> str:
    """The run in a command that people copy."""
    return run.key if run.key is not None and is_plain_word(run.key) else shell_word(run.run_id)


def _mark(run: Run) -> tuple[Any, ...]:
    """What differs when there may be something to report."""
    return run.revision, run.last_seq, run.status, run.ended_at, run.wake_at, run.hold


def _started(run: RunView) -> Event:
    version = f" v{run.version}" if run.version > 1 else ""
    words = f"run {name_of(run)} started  {run.workflow}{version}" + (f"  child of {run.parent}" if run.parent else "")
    facts = {"workflow": run.workflow, "version": run.version, "key": run.key, "parent": run.parent}
    return Event("started", words, run.created_at, run.run_id, name_of(run), facts)


def _recorded(run: RunView, entry: EntryView) -> Event:
    path = entry.path
    if entry.failure is not None and entry.failure.code == WaitTimeout.code:
        mark, said = "●", "timed out; nothing arrived"
    elif entry.failure is not None:
        mark, said = "✕", shorten(clean(entry.failure.summary), _ERROR_MAX)
    elif entry.kind == "undo":
        mark, path, said = "↶", path.removesuffix("~undo"), "undone"
    else:
        mark, said = "✓", _value(entry)
    took = "" if entry.kind == "sleep" else duration(entry.took)
    words = f"  {mark} {path:<{_PATH_WIDTH}} {took:>8}  {said}".rstrip()
    name = entry.kind if mark != "✕" else "failed"
    return Event(name, words, entry.at, run.run_id, name_of(run), entry_body(entry))


def _value(entry: EntryView) -> str:
    match entry.kind:
        case "sleep":
            return "slept"
        case "receive" if entry.value:
            return f"received {entry.value[0][0]!r}"
        case _:
            return f"→ {shorten(shown, 48)}" if (shown := shown_value(entry)) else ""


def _held(run: RunView, now: datetime) -> Event:
    """A person paused a run that is being executed, or resumed a run."""
    words, held = f"▶ run {name_of(run)} resumed", None
    if run.hold is not None:
        words = f"‖ run {name_of(run)} pauses after its running steps: paused{_by(run.hold)}"
        held = {"by": run.hold.by, "reason": run.hold.reason, "at": run.hold.at.isoformat()}
    return Event("held", words, now, run.run_id, name_of(run), {"status": run.status, "hold": held})


def _by(hold: HoldView) -> str:
    who = f" by {clean(hold.by)}" if hold.by else ""
    return who + (f": {shorten(clean(hold.reason), _ERROR_MAX)}" if hold.reason else "")


def _waiting(run: RunView, wait: WaitView, now: datetime) -> Event:
    left = None if wait.due_at is None else duration(max(0.0, (wait.due_at - now).total_seconds()))
    until = "" if left is None else f", {left} at most"
    match wait.kind:
        case "signal":
            what = " or ".join(repr(name) for name in wait.names) or "of any name"
            said = f"waiting for signal {what}{until}"
            said += f"  → stepwell signal {_word_of(run)} {shell_word(wait.names[0]) if wait.names else 'NAME'}"
        case "topic":
            said = f"waiting for an event of {wait.names[0]!r}{until}"
        case "child":
            said = "waiting for its child run"
        case _:
            said = "sleeping" if left is None else f"sleeping for {left}"
    facts = {
        "path": wait.path,
        "kind": wait.kind,
        "names": list(wait.names),
        "due_at": wait.due_at.isoformat() if wait.due_at else None,
    }
    if run.status == RunStatus.PAUSED:
        said = f"paused; after a resume: {said}"
    elif run.hold is not None:
        said = f"{said}  (about to be paused)"
    words = f"  ‖ {wait.path:<{_PATH_WIDTH}} {said}"
    return Event("waiting", words, now, run.run_id, name_of(run), facts)


def _state(run: RunView, now: datetime) -> Event:
    shown = STATUSES[RunStatus(run.status)]
    took = f"  {duration((run.ended_at - run.created_at).total_seconds())}" if run.ended_at else ""
    said = ""
    if run.failure is not None:
        said = f": {shorten(clean(run.failure.summary), _ERROR_MAX)}"
    elif run.output is not None:
        said = f"  → {brief(run.output, 48)}"
    elif run.hold is not None:
        said = _by(run.hold)
    elif run.reason:
        said = f": {shorten(clean(run.reason), _ERROR_MAX)}"
    words = f"{shown.icon} run {name_of(run)} {shown.words}{took if run.failure is None else ''}{said}"
    if not run.is_ended and run.status != RunStatus.COMPENSATING:
        words += f"  → stepwell {'why' if run.hold is None else 'resume'} {_word_of(run)}"
    facts = {
        "status": run.status,
        "workflow": run.workflow,
        "output": run.output,
        "failure": None if run.failure is None else failure_body(run.failure),
    }
    return Event("run", words, run.ended_at or now, run.run_id, name_of(run), facts)
