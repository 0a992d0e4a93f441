"""Events: to every wait that was stored before, once; to one run, if they are for one; and never lost on the way."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from sim.checks.shadow import Shadow
from sim.coroutines import at_once
from sim.programs import TOPICS
from stepwell.ids import RunId
from stepwell.model.commits import Applied, Commit, Verdict
from stepwell.model.entries import Entry
from stepwell.model.events import KeptEvent, NewEvent, Publication, Published, is_answered, receiver
from stepwell.model.runs import Run
from stepwell.model.states import TERMINAL, EntryKind, EntryStatus, RunStatus, WaitKind
from stepwell.model.waits import Wait
from stepwell.replay.headers import unpack

if TYPE_CHECKING:
    from sim.checker import Checker

Rows = dict[str, Run]


class Events:
    """Every event by its id, and the inboxes as they must be."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self.published: dict[str, tuple[NewEvent, int, int]] = {}  # with when, and how many runs it reached
        self.used: defaultdict[str, list[str]] = defaultdict(list)  # event -> the chains that received it
        self._again: set[tuple[str, str]] = set()  # with the chain that may receive it again
        self.runs: set[str] = set()  # that ever waited for an event
        self._inboxes: dict[str, dict[int, str]] = {}
        self._waiting: list[tuple[str, Wait]] = []  # before a transition: waits that no event is on its way to
        self._stored: dict[str, tuple[Wait, ...]] = {}
        self._kept: list[KeptEvent] = []

    # --- before and after a transition ---

    def before(self, method: str, args: tuple[Any, ...]) -> None:
        """Note what a transition must heed."""
        if method == "publish":
            self._waiting = [
                (run_id, wait)
                for run_id in sorted(self.runs)
                for wait in self._waits(run_id)
                if not any(wait.location in event.locations for event in self._events(run_id))
            ]
        elif method in ("apply", "perform") and any(
            wait.since != "wait" for commit in args[0] for wait in commit.waits or ()
        ):
            self._kept = self._list_kept()
            self._stored = {commit.run_id: self._waits(commit.run_id) for commit in args[0]}

    def after(self, method: str, rows: Rows) -> None:
        """Nothing leaves an inbox unread but by an end, and what is there for a wait wakes its run."""
        checker, now = self._checker, self._checker.inspector.now()
        self.runs |= {row.successor for run_id in self.runs if (row := rows[run_id]).successor is not None}
        for run_id in sorted(self.runs):
            row, events = rows[run_id], self._events(run_id)
            unread = {event.number: event.event_id for event in events}
            lost = self._inboxes.get(run_id, {}).keys() - unread.keys()
            if lost and row.successor is not None:
                lost -= {event.number for event in self._events(row.successor)}
            if lost and (row.status not in TERMINAL or row.status is RunStatus.CONTINUED):
                checker.violate("I21", run_id, f"{len(lost)} events are gone, and were not received (after {method})")
            if unread and row.status in TERMINAL:
                checker.violate("I21", run_id, f"it has ended, and keeps {len(unread)} events from others")
            self._inboxes[run_id] = unread
            is_asleep = row.status is RunStatus.WAITING and (row.wake_at is None or row.wake_at > now)
            if unread and is_asleep and any(receiver(event, self._waits(run_id)) for event in events):
                checker.violate("I15", run_id, f"an event is there that it waits for, and it sleeps (after {method})")

    # --- publishing ---

    def publishing(self, events: list[NewEvent], answers: list[Published], before: Rows) -> None:
        """What became of an event."""
        for new, answer in zip(events, answers, strict=True):
            if answer.publication is Publication.PUBLISHED:
                self._check_published(new, answer, before)

    def _check_published(self, new: NewEvent, answer: Published, before: Rows) -> None:
        checker = self._checker
        if new.event_id in self.published:
            checker.violate("I23", "", f"event {new.event_id} was published twice")
        self.published[new.event_id] = (new, checker.inspector.now(), answer.reached)
        expected = {
            run_id
            for run_id, wait in self._waiting
            if before[run_id].status not in TERMINAL
            and before[run_id].status is not RunStatus.CANCELLING
            and is_answered(wait, new.topic, new.facets)
        }
        got = {one for one in self.runs if any(event.event_id == new.event_id for event in self._events(one))}
        checker.stats["events delivered"] += len(got)
        is_right = got == expected if new.deliver == "all" else got <= expected and len(got) == min(1, len(expected))
        if not is_right:
            text = f"event {new.event_id} ({new.deliver}) reached {sorted(got)}, and waiting were {sorted(expected)}"
            checker.violate("I21", "", text)
        if answer.reached != len(got):
            checker.violate("I21", "", f"event {new.event_id} reached {len(got)} runs, and {answer.reached} were told")
        is_kept = any(event.event_id == new.event_id for event in self._list_kept())
        if is_kept != (new.retain is not None and (new.deliver == "all" or not got)):
            checker.violate("I21", "", f"event {new.event_id} is {'' if is_kept else 'not '}kept by its topic")

    # --- commits ---

    def received(self, shadow: Shadow, commit: Commit) -> None:
        """A commit takes events out of the inbox: exactly those that its entries carry, each once in a chain."""
        checker, run_id = self._checker, shadow.run_id
        if any(wait.kind is WaitKind.TOPIC for wait in commit.waits or ()):
            self.runs.add(run_id)
        carried = {event_id for entry in commit.entries if (event_id := _event_of(entry)) is not None}
        inbox = self._inboxes.get(run_id, {})
        taken = {inbox.pop(number, f"unknown {number}") for number in commit.received}
        if taken != carried:
            checker.violate(
                "I22", run_id, f"the events {sorted(taken)} left the inbox, and {sorted(carried)} were used"
            )
        chain = self._chain(run_id)
        for event_id in carried:
            checker.stats["events received"] += 1
            new = self.published[event_id][0] if event_id in self.published else None
            if new is None:
                checker.violate("I21", run_id, f"event {event_id} was received, and never published")
            elif new.deliver == "all" and (event_id, chain) in self._again:
                pass
            elif chain in self.used[event_id] or (new.deliver == "one" and self.used[event_id]):
                checker.violate("I21", run_id, f"event {event_id} ({new.deliver}) was received twice")
            self.used[event_id].append(chain)

    def forgotten(self, run_id: str, entry: Entry) -> None:
        """A repair took an entry out: what its topic still keeps may come again."""
        event_id = _event_of(entry)
        if event_id is not None:
            self._again.add((event_id, self._chain(run_id)))

    def revived(self, run_id: str) -> None:
        """A run that had failed goes on: with its end it had forgotten what it received of what topics still keep."""
        chain = self._chain(run_id)
        self._again.update((event_id, chain) for event_id, chains in self.used.items() if chain in chains)

    def applied(self, commits: list[Commit], answers: list[Applied], rows: Rows) -> None:
        """A new wait that asks for kept events has one, if there was one for it."""
        now, kept, stored = self._checker.inspector.now(), self._kept, self._stored
        self._kept, self._stored = [], {}
        left = {event.event_id for event in self._list_kept()} if kept else set()
        for commit, answer in zip(commits, answers, strict=True):
            row = rows[commit.run_id]
            if answer.verdict is not Verdict.APPLIED or row.status in TERMINAL or not left:
                continue
            for wait in commit.waits or ():
                if wait.since == "wait" or wait in stored.get(commit.run_id, ()):
                    continue
                has_one = any(wait.location in event.locations for event in self._events(commit.run_id))
                got = [event for event in kept if event.event_id in left and self._is_for(event, wait, row, now)]
                if got and not has_one:
                    self._checker.violate("I21", commit.run_id, f"kept event {got[0].event_id} was not given to a wait")

    def _is_for(self, event: KeptEvent, wait: Wait, row: Run, now: int) -> bool:
        if event.kept_until <= now or (wait.since == "start" and event.published_at < row.created_at):
            return False
        has = any(one.event_id == event.event_id for one in self._events(row.run_id))
        facets = self.published[event.event_id][0].facets
        is_new = self._chain(row.run_id) not in self.used[event.event_id]
        return is_new and not has and is_answered(wait, event.topic, facets)

    def holders(self) -> list[str]:
        """The runs that have events which they have not received."""
        return sorted(run_id for run_id, inbox in self._inboxes.items() if inbox)

    # --- the end ---

    def end(self) -> None:
        """An event for one run was received, or is still kept, or its time is over."""
        now, kept = self._checker.inspector.now(), {event.event_id for event in self._list_kept()}
        for event_id, (new, at, reached) in self.published.items():
            if new.deliver == "all" or self.used[event_id] or event_id in kept:
                continue
            is_over = at + new.retain <= now if new.retain is not None else reached == 0
            if not is_over:
                self._checker.violate("I21", "", f"event {event_id} (one) was neither received nor kept")

    # --- inside ---

    def _chain(self, run_id: str) -> str:
        rows = self._checker.rows_now
        while (previous := rows[run_id].previous) is not None:
            run_id = previous.run_id
        return run_id

    def _waits(self, run_id: str) -> tuple[Wait, ...]:
        [history] = at_once(self._checker.inspector.runs.load([RunId(run_id)]))
        return tuple(wait for wait in history.waits if wait.kind is WaitKind.TOPIC)

    def _events(self, run_id: str) -> Any:
        return at_once(self._checker.inspector.runs.inbox(RunId(run_id))).events

    def _list_kept(self) -> list[KeptEvent]:
        return at_once(self._checker.inspector.views.list_events(limit=10_000))


def _event_of(entry: Any) -> str | None:
    """The id of the event that an entry carries."""
    if entry.status is not EntryStatus.DONE or entry.kind not in (EntryKind.TOPIC, EntryKind.WAIT_ANY):
        return None
    value = unpack(entry.value)[1] if entry.kind is EntryKind.WAIT_ANY else entry.value
    header, _ = unpack(value)
    return header[1] if len(header) == 2 and header[0] in TOPICS else None
