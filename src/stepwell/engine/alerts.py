"""Alerts: rules that watch runs. A rule fires, tells the notifiers once, and tells them once when it is over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import msgspec

from stepwell.clock import SECOND, Duration, Instant, Span, span, to_datetime
from stepwell.engine.alert_measures import Measures
from stepwell.engine.alert_rules import Alert, AlertBody, body_of, with_default
from stepwell.engine.backend import Backend
from stepwell.engine.records import PAGE, Document, Draft, Line, NewLine, RecordKind, Records
from stepwell.engine.starts import input_place
from stepwell.engine.system_runs import ALERT
from stepwell.errors import InvalidOptionError
from stepwell.ids import RunId, derived_run_id
from stepwell.model.alerts import Measured, Rule, in_words
from stepwell.model.runs import NewRun
from stepwell.model.states import AlertState
from stepwell.redaction import redact

VERSION: Final = 1
ALERT_DEFINITION: Final = f"{ALERT}@{VERSION}"
_MUTE_MAX: Final = span("365d")
_FIX: Final = "stepwell alert ls"


@dataclass(frozen=True, slots=True)
class AlertView:
    """A rule, and its state."""

    name: str
    state: str
    rule: str  # in words
    kind: str
    workflow: str | None
    count: int
    within_seconds: float
    value: float  # how many, or for how many seconds; in a listing, when its state changed last
    runs: tuple[str, ...]  # that it is about
    since: datetime | None  # when it began to fire
    last_at: datetime | None  # when it fired last
    fired: int  # how often
    seen_by: str
    note: str
    muted_until: datetime | None
    muted_by: str
    by: str  # who created it; empty: the code
    changed_at: datetime | None
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class AlertActView:
    """A line of the history of a rule."""

    at: datetime
    verb: str
    by: str
    details: Any


class Alerts:
    """`engine.alerts`: rules that watch runs. Code declares them, or people create them."""

    def __init__(self, backend: Backend, alerts: Iterable[Alert] | None, notifiers: Iterable[str] = ()) -> None:
        self._backend = backend
        self._records = Records(backend, RecordKind.ALERT, AlertBody)
        self.measures = Measures(backend)
        self.declared = None if alerts is None else with_default(alerts)
        self.notifiers = tuple(notifiers)  # the sinks of the app that want alerts

    # --- people ---

    async def create(self, alert: Alert, *, by: str = "") -> bool:
        """Create a rule, or change it. False if it is like this already."""
        return await self._records.change(alert.name, lambda it: _declared(it, body_of(alert, by or "a person"), by))

    async def delete(self, name: str, *, by: str = "") -> bool:
        """Delete a rule. A worker whose code still has it declares it again when it starts the next time."""
        await self._records.get(name, fix=_FIX)
        return await self._records.change(name, lambda it: _kept(it, AlertState.DELETED, "deleted", by))

    async def acknowledge(self, name: str, *, by: str = "", note: str = "") -> bool:
        """Note that a person knows that a rule fires. False if it does not fire, or somebody knows already."""
        await self._records.get(name, fix=_FIX)
        said = redact(note)

        def decide(it: Document[AlertBody] | None) -> Draft[AlertBody] | None:
            if it is None or it.record.state != AlertState.FIRING:
                return None
            body = msgspec.structs.replace(it.body, seen_by=by or "a person", note=said)
            return _draft(it, AlertState.SEEN, body, "acknowledged", by, {"note": said} if said else None)

        return await self._records.change(name, decide)

    async def mute(self, name: str, duration: Duration = "1h", *, by: str = "", note: str = "") -> bool:
        """Tell nobody about a rule for a time. Its state still changes. A duration of 0 ends that."""
        await self._records.get(name, fix=_FIX)
        said, quiet = redact(note), span(duration, what="duration")
        if quiet > _MUTE_MAX:
            raise InvalidOptionError(f"{duration!r} is too long", fix="mute it for a year at most, or delete it")
        now = self._backend.store.now()

        def decide(it: Document[AlertBody] | None) -> Draft[AlertBody] | None:
            if it is None or it.content is None or (quiet == 0 and it.content.muted_until is None):
                return None
            until = Instant(now + quiet) if quiet else None
            body = msgspec.structs.replace(it.content, muted_until=until, muted_by=by if quiet else "", note=said)
            data = {"seconds": quiet / SECOND, "note": said} if quiet else None
            return _draft(it, AlertState(it.record.state), body, "muted" if quiet else "unmuted", by, data)

        return await self._records.change(name, decide)

    async def test(self, name: str, *, by: str = "") -> str:
        """Tell the notifiers about a rule, marked as a test; returns the id of the run that does it. A notifier that
        does not take it is retried like any sink, and then is a dead letter.
        """
        body = (await self._records.get(name, fix=_FIX)).body
        act = self._backend.new_act()
        run = self._notice("test", name, body, f"test {act}", by=by)

        def decide(it: Document[AlertBody] | None) -> Draft[AlertBody]:
            assert it is not None
            data = {"run": run.run_id}
            return _draft(it, AlertState(it.record.state), it.body, "tested", by, data, starts=(run,))

        await self._records.change(name, decide)
        return run.run_id

    async def get(self, name: str) -> AlertView:
        """One rule, with what it finds now. Raises `NotFoundError`."""
        found = await self._records.get(name, fix=_FIX)
        if found.content is None:
            return _view(found)
        measured = await self.measures.measure(found.content.rule)
        return replace(_view(found), value=measured.value, runs=measured.runs)

    async def history(self, name: str, *, limit: int = 20) -> list[AlertActView]:
        """What happened to a rule, newest first."""
        lines = await self._records.history(name, limit=limit)
        return [_act(line) for line in lines]

    # --- workers ---

    async def declare(self) -> None:
        """Store the rules of the app. What people did to them stays."""
        for alert in self.declared or ():
            await self._records.change(alert.name, lambda it, alert=alert: _declared(it, body_of(alert, ""), ""))  # type: ignore[misc]

    async def rules(self) -> Sequence[tuple[str, Rule]]:
        """The rules that can be read here, by name."""
        found: list[Document[AlertBody]] = []
        after: str | None = None
        while True:
            page = await self._records.list(limit=PAGE, after=after)
            found += page
            if len(page) < PAGE:
                return [(one.record.record_id, one.content.rule) for one in found if one.content is not None]
            after = page[-1].record.record_id

    async def count_workers(self) -> int:
        """How many workers are alive; at least one, because one asks."""
        now = self._backend.store.now()
        workers = await self._backend.retrying(lambda store: store.views.list_workers())
        return max(1, sum(one.lease_until > now for one in workers))

    async def note(self, name: str, measured: Measured) -> str:
        """Record what a look found; returns "firing" or "ok" if that changed the state, else an empty text.

        The notifiers are told in the same transaction, by a run with an id of its own: once for each change, whatever
        crashes. While the rule is muted they are not told, and not of its end either.
        """
        now, changed = self._backend.store.now(), ""

        def decide(it: Document[AlertBody] | None) -> Draft[AlertBody] | None:
            nonlocal changed
            changed = ""
            if it is None or not it.record.is_open or it.content is None:
                return None
            body = msgspec.structs.replace(it.content, value=measured.value, runs=list(measured.runs), changed_at=now)
            fires = it.record.state != AlertState.OK
            if measured.is_firing == fires:
                return None
            is_muted = body.muted_until is not None and body.muted_until > now
            if measured.is_firing:
                changed = "firing"
                tells = not is_muted
                after = msgspec.structs.replace(
                    body, since=now, last_at=now, fired=body.fired + 1, is_told=tells, seen_by="", note=""
                )
                state = AlertState.FIRING
            else:
                changed = "ok"
                tells = body.is_told and not is_muted
                after = msgspec.structs.replace(body, since=None, is_told=False, seen_by="", note="")
                state = AlertState.OK
            told = (self._notice(changed, name, after, f"{changed} {after.fired}"),) if tells else ()
            data = {"value": measured.value, "runs": list(measured.runs), "told": bool(told)}
            return _draft(it, state, after, changed, "", data, starts=told)

        await self._records.change(name, decide)
        return changed

    def _notice(self, what: str, name: str, body: AlertBody, occasion: str, *, by: str = "") -> NewRun:
        run_id = derived_run_id(RunId(ALERT), f"{name}\x1f{occasion}\x1f{body.since or body.last_at or 0}")
        notice = {
            "event": what,
            "alert": name,
            "rule": body.rule.words(),
            "value": body.value,
            "runs": body.runs,
            "since": None if body.since is None else to_datetime(Instant(body.since)).isoformat(),
            "by": by,
        }
        stored = self._backend.codec.encode(notice, place=input_place(ALERT, run_id))
        return NewRun(run_id, ALERT, VERSION, stored, discards=True)

    # Last, because below it `list` is this method.
    async def list(self, *, state: str | None = None, limit: int = 100, after: str | None = None) -> list[AlertView]:
        """Rules, newest first: all, or those in one state. The next page is behind `after`, the name of the last rule
        of this one.
        """
        states = () if state is None else (_read_state(state),)
        found = await self._records.list(states=states, limit=min(limit, PAGE * 5), after=after)
        return [_view(one) for one in found]


def _declared(it: Document[AlertBody] | None, new: AlertBody, by: str) -> Draft[AlertBody] | None:
    """The rule as it is declared. Its state, and what people did, stay unless the rule itself changed."""
    if it is not None and it.record.is_open and it.content is not None:
        old = it.content
        if old.rule == new.rule:
            return None
        return _draft(it, AlertState.OK, new, "changed", by, {"rule": new.rule.words()})
    line = NewLine("created" if it is None else "created again", by, {"rule": new.rule.words()})
    return Draft(state=AlertState.OK, body=new, lines=(line,))


def _kept(it: Document[AlertBody] | None, state: AlertState, verb: str, by: str) -> Draft[AlertBody] | None:
    return None if it is None or it.record.state == state else Draft(state=state, lines=(NewLine(verb, by),))


def _draft(
    it: Document[AlertBody],
    state: AlertState,
    body: AlertBody,
    verb: str,
    by: str,
    data: Mapping[str, Any] | None,
    *,
    starts: tuple[NewRun, ...] = (),
) -> Draft[AlertBody]:
    return Draft(state=state, body=body, lines=(NewLine(verb, by, data),), starts=starts)


def _read_state(state: str) -> AlertState:
    try:
        return AlertState(state)
    except ValueError:
        raise InvalidOptionError(f"an alert is never {state!r:.40}", fix=f"one of {', '.join(AlertState)}") from None


def _time(at: int | None) -> datetime | None:
    return None if at is None else to_datetime(Instant(at))


def _view(one: Document[AlertBody]) -> AlertView:
    body, record = one.content, one.record
    if body is None:
        title = "" if one.problem is None else one.problem.title
        nothing = (None, None, 0, "", "", None, "", "", None)
        return AlertView(record.record_id, record.state, "", "", None, 0, 0.0, 0.0, (), *nothing, unreadable=title)
    return AlertView(
        name=record.record_id,
        state=record.state,
        rule=body.rule.words(),
        kind=body.kind,
        workflow=body.workflow,
        count=body.count,
        within_seconds=body.within / SECOND,
        value=body.value,
        runs=tuple(body.runs),
        since=_time(body.since),
        last_at=_time(body.last_at),
        fired=body.fired,
        seen_by=body.seen_by,
        note=body.note,
        muted_until=_time(body.muted_until),
        muted_by=body.muted_by,
        by=body.by,
        changed_at=_time(body.changed_at or None),
    )


def _act(line: Line) -> AlertActView:
    return AlertActView(to_datetime(line.at), line.verb, line.by, line.data)


def describe(view: AlertView) -> str:
    """What a rule found, in words."""
    if view.kind in ("stalled", "oldest_ready"):
        return in_words(Span(round(view.value) * SECOND))
    return f"{view.value:g}"
