"""Records: no update is lost and none is done twice, with its consequences or not at all; who waits for one gets its
answer; what is due is acted on once and on time; and a record ends with the run that needs it.

I54  A change is applied exactly once, to the version that it was made from; a stale or repeated one does nothing.
I55  The consequences of a change happen with it, all of them, once.
I56  What is due is acted on when it is due, once, and on time.
I57  A run waits for each record that it has open, and gets the answer of the change that closed it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from sim.books import FORM, KINDS, LABELS, NOTE, RANG, page_of
from sim.checks.shadow import Shadow
from sim.checks.signals import mark_of
from sim.checks.starts import holds_key
from sim.coroutines import at_once
from stepwell.clock import SECOND, Instant, Span, span
from stepwell.engine.records import RecordKind
from stepwell.ids import RunId
from stepwell.model.amendments import Amended, Amendment
from stepwell.model.commits import Applied, BeginRollback, Commit, End, Verdict
from stepwell.model.entries import Entry
from stepwell.model.records import (
    CLOSED_WITH_RUN,
    Changed,
    ChangeOutcome,
    NewRecord,
    NewRecordEvent,
    Record,
    RecordChange,
    RecordEvent,
    RecordFilter,
    answer_name,
    awaited_record,
)
from stepwell.model.runs import Run
from stepwell.model.signals import Delivery
from stepwell.model.states import TERMINAL, RunStatus
from stepwell.replay.headers import unpack
from stepwell.services.loop import SWEEPS

if TYPE_CHECKING:
    from sim.checker import Checker
    from sim.world import World

Rows = dict[str, Run]
Key = tuple[str, str]  # kind and id
_EVERY = (*KINDS, *RecordKind)
_ENDS = TERMINAL | {RunStatus.COMPENSATION_FAILED}
_ALL = 10_000
# What the loop of services takes beside its sweep: slow answers, and a body for which all code stands still.
_REST = 2.0  # seconds
# Restarts, pauses after a store that did not answer, and rests of a service that failed.
_AFTER_FAULTS = 25.0  # seconds


@dataclass(slots=True)
class Known:
    """One record as it must be."""

    record: Record
    events: list[RecordEvent]
    answer: str | None = None  # the mark of the answer with which it was closed
    due_since: Instant | None = None  # when it was said when it is due


@dataclass(slots=True)
class _Effects:
    """What one transition does to records, in this order, as far as its request tells."""

    is_trimmed: Callable[[Record], bool] = lambda record: False  # whether the code no longer comes to its place
    closings: dict[Key, tuple[str, NewRecordEvent]] = field(default_factory=dict)
    is_freed: Callable[[Record], bool] = lambda record: False  # whether its run no longer needs it


class Records:
    """Every record of a seed."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self.is_on = False
        self.known: dict[Key, Known] = {}
        self.after_end: dict[str, str] = {}  # marks of signals that an ended run keeps, and that run
        self._made: dict[str, int] = {}  # the version that each change made
        self._applied: dict[str, tuple[int, int]] = {}  # of each run: the last commit that was looked at
        self._runs: set[str] = set()  # that ever opened one
        self._received: set[str] = set()  # ids of records whose answers were received
        self._marks: Counter[str] = Counter()  # how often a signal must be somewhere
        self.late_max: Callable[[], Span | None] = lambda: None  # how late a service may be, if that is promised now

    # --- for people ---

    def forms(self, *, also_closed: bool = False) -> list[str]:
        """The ids of forms that can be answered."""
        known = (one.record for one in self.known.values())
        return sorted(one.record_id for one in known if one.kind == FORM and (one.is_open or also_closed))

    def find(self, record_id: str) -> Record | None:
        """A form."""
        found = self.known.get((FORM, record_id))
        return None if found is None else found.record

    def has_due(self) -> bool:
        """Whether somebody has to act on a record, now or later."""
        return any(one.record.due_at is not None for one in self.known.values())

    # --- after a transition ---

    def after(self, method: str, args: tuple[Any, ...], answer: Any, before: Rows, after: Rows, now: Instant) -> None:
        """A transition was performed: the records are what it makes of them, and nothing else."""
        if not self.is_on:
            return
        effects, touched = _Effects(), set[Key]()
        match method:
            case "change":
                self._changed(args[0], answer, before, after, now)
                touched = {(one.record.kind, one.record.record_id) for one in args[0]}
            case "apply":
                effects = self._committed(args[0], answer)
            case "perform" if answer.applied is not None:
                effects = self._committed([answer.commit or args[0]], [answer.applied])
            case "amend" if answer is Amended.APPLIED and before[args[0].run_id] != after[args[0].run_id]:
                effects.is_freed = self._freed_by(args[0])
            case _:
                pass
        touched |= self._close(effects, before, after)
        self._compare(touched, method, now)
        self._check_waits(before, after, touched, method)

    def received(self, shadow: Shadow, entry: Entry) -> None:
        """A run records the answer to its record: the one of the change that closed it."""
        ((name, *_, size),), payloads = unpack(entry.value)
        record_id, mark = awaited_record([name]) or "", mark_of(payloads[:size])
        known = self.known.get((FORM, record_id))
        path = shadow.path(entry.location)
        if known is None or (known.record.run_id, known.record.location) != (shadow.run_id, entry.location):
            self._violate("I57", shadow.run_id, f"{path} has the answer to a record that was not opened there")
        elif known.answer != mark:
            self._violate("I57", shadow.run_id, f"{path} was answered {mark}, and its record {known.answer}")
        if record_id in self._received:
            self._violate("I57", shadow.run_id, f"{path} was answered twice")
        self._received.add(record_id)
        self._checker.stats["forms answered"] += 1

    def seen_due(self, kinds: Iterable[str], found: Sequence[Record]) -> None:
        """What a store lists as due is due, longest first."""
        now, own = self._checker.inspector.now(), [one for one in found if one.kind in KINDS]
        for record in own:
            if record.due_at is None or record.due_at > now or not record.is_open:
                self._violate("I56", "", f"{record.kind} {record.record_id} is listed as due at {now}, {record.due_at}")
        times = [(one.due_at or 0, one.number) for one in own]
        if times != sorted(times):
            self._violate("I56", "", f"due records of {sorted(kinds)} are listed in another order than they are due")

    # --- changes ---

    def _changed(
        self, changes: Sequence[RecordChange], answers: Sequence[Changed], before: Rows, after: Rows, now: Instant
    ) -> None:
        started = {run_id for run_id in after if run_id not in before}
        told = [run_id for answer in answers for run_id in answer.started]
        if set(told) != started or len(told) != len(started):
            self._violate("I55", "", f"a change was answered with the starts {told}, and {sorted(started)} are there")
        taken = set(before)
        for change, answer in zip(changes, answers, strict=True):
            self._judge(change, answer, taken, before, after, now)
            taken.update(answer.started)

    def _judge(
        self, change: RecordChange, answer: Changed, taken: set[str], before: Rows, after: Rows, now: Instant
    ) -> None:
        new, made = change.record, self._made.get(change.change_id)
        known = self.known.get((new.kind, new.record_id))
        version = 0 if known is None else known.record.version
        what = f"{new.kind} {new.record_id}"
        if made is not None:
            self._checker.stats["changes repeated"] += 1
            expected = Changed(ChangeOutcome.CHANGED, made)
        elif version != change.expected:
            self._checker.stats["changes stale"] += 1
            expected = Changed(ChangeOutcome.STALE, version)
        else:
            self._checker.stats["changes"] += 1
            expected = Changed(ChangeOutcome.CHANGED, version + 1)
        if answer[:2] != expected[:2]:
            text = f"a change of {what} from version {change.expected} was answered {answer[:2]}, not {expected[:2]}"
            self._violate("I54", "", text)
            return
        if made is not None or expected.outcome is ChangeOutcome.STALE:
            if answer[2:] != expected[2:]:
                self._violate("I55", "", f"a change of {what} did nothing, and has consequences: {answer[2:]}")
            return
        self._check_ring(change, known, now)
        self._check_consequences(change, answer, taken, before, after, what)
        self._made[change.change_id] = version + 1
        self._apply(change, known, now)

    def _apply(self, change: RecordChange, known: Known | None, now: Instant) -> None:
        new = change.record
        if known is None:
            record = _opened(new, 0, None, None)
            known = self.known[new.kind, new.record_id] = Known(record, [])
            self._add_events(known, change.events)
        else:
            was = known.record
            known.record = _opened(new, was.number, was.run_id, was.location)._replace(
                version=was.version + 1, created_at=was.created_at
            )
            self._add_events(known, change.events)
            if was.is_open and not new.is_open:
                known.answer = next((mark_of(one.payload) for one in change.signals if one.target == was.run_id), None)
        known.due_since = now

    def _check_consequences(
        self, change: RecordChange, answer: Changed, taken: set[str], before: Rows, after: Rows, what: str
    ) -> None:
        """All of them have happened, where nothing stood in the way."""
        signals = self._checker.signals
        if len(answer.delivered) != len(change.signals):
            self._violate("I55", "", f"of {len(change.signals)} signals of {what}, {len(answer.delivered)} were sent")
            return
        signals.delivered(list(change.signals), list(answer.delivered))
        for signal, delivered in zip(change.signals, answer.delivered, strict=True):
            self._marks[mark_of(signal.payload)] += 1
            if delivered.delivery is Delivery.DUPLICATE:
                self._violate("I55", "", f"a signal of {what} was there before")
            elif delivered.delivery is Delivery.MISSING:
                self._checker.stats["signals after the end"] += 1
                self.after_end[mark_of(signal.payload)] = str(delivered.run_id)
        for new in change.starts:
            holders = [row for row in before.values() if row.key == new.key and holds_key(row)]
            holders += [after[one] for one in answer.started if after[one].key == new.key and one != new.run_id]
            is_free = new.run_id not in taken and (new.key is None or not holders)
            if is_free and new.run_id not in answer.started:
                self._violate("I55", new.run_id, f"{what} was changed, and this run was not started")

    def _check_ring(self, change: RecordChange, known: Known | None, now: Instant) -> None:
        """A service acts on what is due, for the time at which it was due."""
        line = change.events[0]
        if line.verb != RANG:
            return
        self._checker.stats["records that were due"] += 1
        record = None if known is None else known.record
        due = None if record is None or not record.is_open else record.due_at
        said = msgspec.json.decode(line.data[1:])["due"]
        if record is None or due is None or due > now or said != due:
            self._violate(
                "I56", "", f"{change.record.kind} {change.record.record_id} rang at {now} for {said}, due {due}"
            )
        elif known is not None:
            self._check_late(record, now - max(due, known.due_since or due), now)

    def _check_late(self, record: Record, late: int, now: Instant) -> None:
        late_max = self.late_max()
        if late_max is not None and late > late_max:
            text = f"{record.kind} {record.record_id} was due {late / SECOND:.3f} s ago, and nothing had gone wrong"
            self._violate("I56", "", text)

    # --- what runs do ---

    def _committed(self, commits: Sequence[Commit], answers: Sequence[Applied]) -> _Effects:
        effects, applied_now = _Effects(), dict[str, Commit]()
        for commit, applied in zip(commits, answers, strict=True):
            place = (commit.fence.epoch, commit.number)
            if applied.verdict is not Verdict.APPLIED or self._applied.get(commit.run_id) == place:
                continue
            self._applied[commit.run_id] = place
            for opening in commit.opened:
                self._open(commit.run_id, opening.location, opening.record, opening.events)
            for closing in commit.closed:
                key = (closing.kind, closing.record_id)
                known = self.known.get(key)
                if known is not None and known.record.is_open and known.record.run_id == commit.run_id:
                    self._checker.stats["forms withdrawn"] += 1
                    effects.closings[key] = (closing.state, closing.event)
            applied_now[commit.run_id] = commit
        effects.is_trimmed = lambda record: _is_trimmed(record, applied_now.get(record.run_id or ""))
        effects.is_freed = lambda record: _is_over(applied_now.get(record.run_id or ""))
        return effects

    def _open(self, run_id: RunId, location: Any, new: NewRecord, events: Sequence[NewRecordEvent]) -> None:
        self._checker.stats["forms opened"] += 1
        self._runs.add(run_id)
        if (new.kind, new.record_id) in self.known:
            self._violate("I57", run_id, f"{new.kind} {new.record_id} was opened twice")
            return
        known = self.known[new.kind, new.record_id] = Known(_opened(new, 0, run_id, location), [])
        self._add_events(known, events)

    def _freed_by(self, amendment: Amendment) -> Callable[[Record], bool]:
        """After a repair: where the run neither has a record of it nor waits."""
        [history] = at_once(self._checker.inspector.runs.load([amendment.run_id]))
        kept = {one.location for one in history.entries} - {one.location for one in amendment.entries}
        kept |= {one.location for one in history.waits if awaited_record(one.names) is not None}
        return lambda record: record.run_id == amendment.run_id and record.location not in kept

    def _close(self, effects: _Effects, before: Rows, after: Rows) -> set[Key]:
        """Close what ends with its run. Returns what was closed."""
        closed: set[Key] = set()
        for key, known in self.known.items():
            record = known.record
            if not record.is_open or record.run_id is None:
                continue
            was, row = before.get(record.run_id), after[record.run_id]
            has_ended = row.status in _ENDS and (was is None or was.status not in _ENDS)
            ends = record.end_state is not None
            if ends and effects.is_trimmed(record):
                self._end(known, record.end_state, CLOSED_WITH_RUN)
            elif key in effects.closings:
                self._end(known, *effects.closings[key])
            elif ends and (effects.is_freed(record) or has_ended):
                self._end(known, record.end_state, CLOSED_WITH_RUN)
            else:
                continue
            closed.add(key)
        return closed

    def _end(self, known: Known, state: str | None, event: NewRecordEvent) -> None:
        self._checker.stats["forms closed without an answer"] += 1
        record = known.record
        known.record = record._replace(version=record.version + 1, state=state or "", is_open=False, due_at=None)
        self._add_events(known, [event])

    def _add_events(self, known: Known, events: Iterable[NewRecordEvent]) -> None:
        version = known.record.version
        for verb, by, data, replaces in events:
            number = known.events[-1].number + 1 if known.events else 1
            known.events.append(RecordEvent(number, Instant(0), by, verb, version, data))
            if replaces:
                known.events[:] = [one for one in known.events if one.verb != verb or one.version == version]

    # --- the store ---

    def _compare(self, touched: set[Key], method: str, now: Instant) -> None:
        """The store has the records that it must have."""
        stored = {(one.kind, one.record_id): one for kind in _EVERY for one in self._list(RecordFilter(kind))}
        if stored.keys() != self.known.keys():
            strange = sorted(stored.keys() ^ self.known.keys())
            self._violate("I54", "", f"after {method}, these records are there or not: {strange[:3]}")
            return
        for key, record in stored.items():
            known = self.known[key]
            self._compare_one(known, record, method, now)
            if key in touched:
                self._compare_events(known, method, now)

    def _compare_one(self, known: Known, record: Record, method: str, now: Instant) -> None:
        was = known.record
        if was.number == 0:  # it is new
            was = was._replace(number=record.number, created_at=record.created_at)
            known.due_since = record.created_at
        has_changed = record.updated_at != was.updated_at
        expected = was._replace(updated_at=record.updated_at)
        if record != expected or not was.created_at <= record.updated_at <= now:
            names = [name for name, one, two in zip(Record._fields, record, expected, strict=True) if one != two]
            found = {name: getattr(record, name) for name in names}
            text = f"after {method}, {record.kind} {record.record_id} is {found}, not as it was written"
            is_run_over = record.is_open and not expected.is_open and expected.run_id is not None
            self._violate("I57" if is_run_over else "I54", record.run_id or "", text)
        if has_changed and record.version == 1 and record.created_at != record.updated_at:
            self._violate("I54", "", f"{record.kind} {record.record_id} was changed before it was made")
        known.record = record

    def _compare_events(self, known: Known, method: str, now: Instant) -> None:
        """Lines are appended, numbered without a gap, and never changed."""
        record = known.record
        events = at_once(self._checker.inspector.records.list_events(record.kind, record.record_id, limit=_ALL))
        expected = [
            line if line.at else line._replace(at=found.at)
            for line, found in zip(known.events, reversed(events), strict=False)
        ]
        if events[::-1] != expected or len(events) != len(known.events) or any(one.at > now for one in events):
            verbs = [(one.number, one.verb, one.version) for one in reversed(events)]
            wanted = [(one.number, one.verb, one.version) for one in known.events]
            text = f"after {method}, the lines of {record.kind} {record.record_id} are {verbs}, not {wanted}"
            self._violate("I54", record.run_id or "", text)
        known.events = events[::-1]

    def _check_waits(self, before: Rows, after: Rows, touched: set[Key], method: str) -> None:
        """A run waits for every record that it has open; and for a closed one only until it has its answer."""
        concerned = {one.run_id for key in touched if (one := self.known[key].record).run_id is not None}
        runs = [RunId(one) for one in sorted(self._runs) if one in concerned or before.get(one) != after[one]]
        for run_id, history in zip(runs, at_once(self._checker.inspector.runs.load(runs)) if runs else (), strict=True):
            awaited = {awaited_record(wait.names): wait.location for wait in history.waits}
            for known in self.known.values():
                record = known.record
                if record.run_id != run_id or not record.is_open or record.end_state is None:
                    continue
                if awaited.get(record.record_id) != record.location:
                    text = (
                        f"{record.kind} {record.record_id} is open, and its run does not wait for it (after {method})"
                    )
                    self._violate("I57", run_id, text)
            for record_id in awaited:
                if record_id is not None:
                    self._check_awaited(run_id, record_id, method)

    def _check_awaited(self, run_id: RunId, record_id: str, method: str) -> None:
        known = self.known.get((FORM, record_id))
        if known is None:
            self._violate("I57", run_id, f"it waits for a record that was never opened (after {method})")
        elif not known.record.is_open:
            inbox = at_once(self._checker.inspector.runs.inbox(run_id))
            if answer_name(record_id) not in [signal.name for signal in inbox.signals]:
                text = (
                    f"it waits for {record_id}, which is {known.record.state}, and no answer is there (after {method})"
                )
                self._violate("I57", run_id, text)

    def _list(self, where: RecordFilter) -> list[Record]:
        return at_once(self._checker.inspector.records.list_records(where, limit=_ALL))

    def _violate(self, invariant: str, run_id: str, text: str) -> None:
        self._checker.violate(invariant, run_id, text)

    # --- the end ---

    def check_late(self, bound: float) -> None:
        """Long after the last fault, nothing is left lying that was due."""
        now = self._checker.inspector.now()
        for known in self.known.values():
            due = known.record.due_at
            if due is not None and max(due, known.due_since or due) < now - bound * SECOND:
                text = f"{known.record.kind} {known.record.record_id} was due at {due}, and nobody acts on it"
                self._violate("I56", "", text)

    def end(self, world: World, kept: Counter[str]) -> None:
        """Everything that can only be said when all has ended. `kept` counts the signals that nobody has received."""
        if not self.is_on:
            return
        now = self._checker.inspector.now()
        for known in self.known.values():
            self._compare_events(known, "all", now)
        for sent in world.clients.desk.sent:
            self._check_sent(sent.kind, sent.change, kept)
        for decided in world.clients.desk.decided:
            note = self.known.get((NOTE, decided.name))
            count = 0 if note is None else page_of(note.record).marks.count(decided.mark)
            if count > 1 or (decided.is_told and count < 1):
                self._violate("I54", "", f"change {decided.mark} of {decided.name} is in it {count} times")
        for mark, count in self._marks.items():
            there = kept[mark] + len(self._checker.signals.used[mark])
            if there != count:
                self._violate("I55", "", f"signal {mark} of {count} changes is there {there} times")
        self._check_lists()
        self._check_prune()

    def _check_sent(self, kind: str, change: RecordChange, kept: Counter[str]) -> None:
        """A change was made once, and its mark is in the body; or it was not, and there is no trace of it."""
        known, mark = self.known.get((kind, change.record.record_id)), page_of_change(change)[-1]
        count = 0 if known is None else page_of(known.record).marks.count(mark)
        version = self._made.get(change.change_id)
        if count != (1 if version is not None else 0):
            self._violate("I54", "", f"change {mark} of {kind} {change.record.record_id} is in it {count} times")
        signals = [mark_of(signal.payload) for signal in change.signals]
        traces = [one for one in signals if kept[one] or self._checker.signals.used[one]]
        if version is None and traces:
            self._violate("I55", "", f"change {mark} was not made, and signals {traces} were sent")

    def _check_lists(self) -> None:
        """Lists and counts show what there is."""
        records = self._checker.inspector.records
        known = sorted((one.record for one in self.known.values()), key=lambda one: one.number)
        for kind in KINDS:
            for label in LABELS:
                where = RecordFilter(kind, labels=(label,), is_open=True, order="oldest")
                wanted = [one for one in known if one.kind == kind and one.is_open and label in one.labels]
                if self._list(where) != wanted or at_once(records.count(where, limit=_ALL)) != len(wanted):
                    self._violate("I54", "", f"open {kind}s with the label {label} are not listed as they are")
            due = [one for one in known if one.kind == kind and one.due_at is not None]
            times = sorted(one.due_at or 0 for one in due)
            listed = self._list(RecordFilter(kind, order="due"))
            if [one.due_at for one in listed] != times or at_once(records.next_due([kind])) != next(iter(times), None):
                self._violate("I56", "", f"{kind}s that are due are not listed as they are")

    def _check_prune(self) -> None:
        """Only what is closed is pruned, in batches."""
        records = self._checker.inspector.records
        for kind in KINDS:
            closed = sum(not one.record.is_open for one in self.known.values() if one.record.kind == kind)
            open_before = self._list(RecordFilter(kind, is_open=True))
            pruned = 0
            while (count := at_once(records.prune(kind, older_than=Span(-SECOND), limit=2))) > 0:
                pruned += count
            if pruned != closed or self._list(RecordFilter(kind)) != open_before:
                self._violate("I39", "", f"{pruned} of {closed} closed {kind}s were pruned")


def page_of_change(change: RecordChange) -> tuple[str, ...]:
    """The marks of the body that a change makes."""
    marks: list[str] = msgspec.json.decode(change.record.body[1:])["marks"]
    return tuple(marks)


def late_max(world: World) -> Span | None:
    """How late a service may be: as if its hint was lost, and it sweeps. None where nothing is promised."""
    is_over = world.loop.time() > world.calm_at + _AFTER_FAULTS
    if not is_over and (not world.mix.is_calm or world.stats["poisonings"]):
        return None
    return Span(SWEEPS * span(world.shape.settings.sweep_every) + round(_REST * SECOND))


def _opened(new: NewRecord, number: int, run_id: RunId | None, location: Any) -> Record:
    """A record as it begins."""
    due_at = new.due_at if new.is_open else None
    what = (new.kind, new.record_id, 1, new.state, new.labels, due_at, new.is_open, new.end_state)
    return Record(number, *what, run_id, location, new.body, Instant(0), Instant(0))


def _is_trimmed(record: Record, commit: Commit | None) -> bool:
    """Whether a commit forgets the place of a record."""
    at = record.location
    return commit is not None and at is not None and any(low <= at < high for low, high in commit.trims)


def _is_over(commit: Commit | None) -> bool:
    """Whether a commit ends what its run was doing."""
    return commit is not None and isinstance(commit.move, (BeginRollback, End))
