"""Records: changes and their consequences, what runs open and close, and what is due."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell.clock import SECOND, Instant, Span
from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import (
    FIRST,
    Scene,
    new_run,
    new_signal,
    place,
    wait_signal,
)
from stepwell.conformance.snapshot import snapshot
from stepwell.errors import AlreadyExistsError
from stepwell.ids import RunId
from stepwell.model.locations import Location
from stepwell.model.records import (
    AFTER_END,
    DUE_MAX,
    ID_MAX,
    KIND_MAX,
    LABEL_MAX,
    LABELS_MAX,
    STATE_MAX,
    VERB_MAX,
    Changed,
    ChangeOutcome,
    NewRecord,
    NewRecordEvent,
    Record,
    RecordChange,
    RecordClosing,
    RecordEvent,
    RecordFilter,
    RecordOpening,
)
from stepwell.model.signals import Delivered, Delivery
from stepwell.model.states import RunStatus
from stepwell.stores.base.views import HeldSignal

_S = RunStatus
_R1 = RunId("r1")
_CHANGED, _STALE = ChangeOutcome.CHANGED, ChangeOutcome.STALE


def new_record(record_id: str, **changes: Any) -> NewRecord:
    """An open record without labels."""
    return NewRecord("task", record_id, "open", record_id.encode())._replace(**changes)


def new_change(change_id: str, record: NewRecord, expected: int = 0, **parts: Any) -> RecordChange:
    """A change with one event, whose verb is the id of the change."""
    return RecordChange(change_id, expected, record, (NewRecordEvent(change_id),))._replace(**parts)


async def change(scene: Scene, change_id: str, record: NewRecord, expected: int = 0, **parts: Any) -> Changed:
    """Apply one change."""
    [changed] = await scene.store.records.change([new_change(change_id, record, expected, **parts)])
    return changed


def opening(record_id: str, at: Location = FIRST, **changes: Any) -> RecordOpening:
    """A record that a run opens, and that ends with it in the state `gone`."""
    record = new_record(record_id, end_state="gone")._replace(**changes)
    return RecordOpening(at, record, (NewRecordEvent("created"),))


def closing(record_id: str, state: str = "done", **changes: Any) -> RecordClosing:
    """A record that a run closes."""
    return RecordClosing("task", record_id, state, NewRecordEvent("decided", "ann", b"yes"))._replace(**changes)


async def stored(scene: Scene, record_id: str, kind: str = "task") -> Record:
    """A record that exists."""
    record = await scene.store.records.find(kind, record_id)
    assert record is not None
    return record


async def verbs(scene: Scene, record_id: str) -> list[str]:
    """The verbs of a record's history, oldest first."""
    events = await scene.store.records.list_events("task", record_id, limit=99)
    assert [event.number for event in events] == list(range(len(events), 0, -1))
    return [event.verb for event in reversed(events)]


async def open_ones(scene: Scene) -> list[str]:
    """The ids of open records, oldest first."""
    where = RecordFilter("task", is_open=True, order="oldest")
    return [record.record_id for record in await scene.store.records.list_records(where, limit=99)]


_ANY = new_record("t2")
_TEXTS = (("kind", KIND_MAX), ("record_id", ID_MAX), ("state", STATE_MAX), ("end_state", STATE_MAX))
_WRONG_TEXTS: tuple[dict[str, Any], ...] = tuple(
    {name: text} for name, size in _TEXTS for text in ("", "x" * (size + 1), "a\x00", "\ud800")
)
_LABELS = (("b", "a"), ("a", "a"), ("",), ("x" * (LABEL_MAX + 1),), tuple(f"{n:03}" for n in range(LABELS_MAX + 1)))
_WRONG = (
    new_change("", _ANY),
    new_change("c2", _ANY, events=()),
    new_change("c2", _ANY, events=(NewRecordEvent("x" * (VERB_MAX + 1)),)),
    new_change("c2", _ANY, events=(NewRecordEvent("x", "a\x00b"),)),
    new_change("c2", _ANY, signals=(new_signal("s1", "k", hold=True),)),
    new_change("c2", _ANY, signals=(new_signal("s1", "k", asks=True),)),
    new_change("c2", _ANY._replace(due_at=Instant(DUE_MAX + 1))),
    new_change("c2", _ANY._replace(due_at=Instant(-1))),
    *(new_change("c2", _ANY._replace(labels=labels)) for labels in _LABELS),
    *(new_change("c2", _ANY._replace(**wrong)) for wrong in _WRONG_TEXTS),
)


class RecordSuite(StoreCase):
    """`change`: one version after the other, with consequences."""

    async def test_a_record_is_read_back_as_it_was_written(self, scene: Scene) -> None:
        every, now = bytes(range(256)), scene.clock.now()
        labels = tuple(sorted(("role:managers", "Rolle:ä", "🙂", "a'b", "%_")))
        new = NewRecord("Übersicht", "ж/1 '\"", "offen “so”", every, labels, DUE_MAX, True, "zu Ende")
        events = (NewRecordEvent("created", "ann ä", every), NewRecordEvent("noted"))

        [changed] = await scene.store.records.change([RecordChange("c1", 0, new, events)])

        assert changed == Changed(_CHANGED, 1)
        number = (await stored(scene, new.record_id, "Übersicht")).number
        what = ("Übersicht", new.record_id, 1, new.state, labels, DUE_MAX, True, "zu Ende", None, None, every)
        assert await scene.store.records.find("Übersicht", new.record_id) == Record(number, *what, now, now)
        assert await scene.store.records.list_events("Übersicht", new.record_id, limit=9) == [
            RecordEvent(2, now, "", "noted", 1, b""),
            RecordEvent(1, now, "ann ä", "created", 1, every),
        ]
        assert await scene.store.records.find("task", new.record_id) is None

    async def test_a_change_replaces_everything_but_the_identity(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(opened=(opening("t1", place(3), labels=("a", "b"), due_at=Instant(5)),))
        first = await stored(scene, "t1")
        scene.clock.advance(1)
        now = scene.clock.now()

        changes = [
            new_change("c1", new_record("t1", state="claimed", body=b"2", labels=("b", "c"), due_at=Instant(7)), 1),
            new_change("c2", new_record("t1", state="done", is_open=False, due_at=Instant(8)), 2),
            new_change("c3", new_record("t1", labels=("d",), due_at=Instant(9)), 3),
        ]
        versions = [(await scene.store.records.change([one]))[0].version for one in changes[:1]]
        claimed = await stored(scene, "t1")
        versions += [one.version for one in await scene.store.records.change(changes[1:2])]
        done = await stored(scene, "t1")
        versions += [one.version for one in await scene.store.records.change(changes[2:])]

        assert versions == [2, 3, 4]
        assert claimed == first._replace(
            version=2, state="claimed", body=b"2", labels=("b", "c"), due_at=Instant(7), end_state=None, updated_at=now
        )
        assert done == claimed._replace(version=3, state="done", body=b"t1", labels=(), due_at=None, is_open=False)
        assert await stored(scene, "t1") == done._replace(
            version=4, state="open", labels=("d",), due_at=Instant(9), is_open=True
        )
        assert await verbs(scene, "t1") == ["created", "c1", "c2", "c3"]
        assert (first.run_id, first.location) == (_R1, place(3))

    @pytest.mark.parametrize("expected", [0, 1, 3])
    async def test_a_stale_change_leaves_no_trace(self, scene: Scene, expected: int) -> None:
        await scene.waiting("r1", wait_signal())
        await change(scene, "c1", new_record("t1"))
        await change(scene, "c2", new_record("t1"), 1)
        before = await snapshot(scene.store)
        effects: dict[str, Any] = {"signals": (new_signal("s1", "r1"),), "starts": (new_run("r2"),)}

        stale = await change(scene, "c3", new_record("t1", state="taken", labels=("a",)), expected, **effects)
        missing = await change(scene, "c4", new_record("t2"), 1, **effects)

        assert (stale, missing) == (Changed(_STALE, 2), Changed(_STALE, 0))
        assert await snapshot(scene.store) == before
        assert (await change(scene, "c3", new_record("t1", state="taken"), 2)).version == 3

    async def test_a_repeated_change_is_answered_again_and_does_nothing(self, scene: Scene) -> None:
        await scene.waiting("r1", wait_signal())
        effects: dict[str, Any] = {"signals": (new_signal("s1", "r1"),), "starts": (new_run("r2"),)}
        first = await change(scene, "c1", new_record("t1"), **effects)
        await change(scene, "c2", new_record("t1", state="later"), 1)
        before = await snapshot(scene.store)

        again = await change(scene, "c1", new_record("t1"), **effects)

        assert first == Changed(_CHANGED, 1, (Delivered(Delivery.DELIVERED, _R1, woke=True),), (RunId("r2"),))
        assert again == Changed(_CHANGED, 1)
        assert await snapshot(scene.store) == before

    async def test_changes_of_one_call_are_applied_in_order_and_apart(self, scene: Scene) -> None:
        await change(scene, "c0", new_record("t2"))
        changes = [
            new_change("c1", new_record("t1")),
            new_change("c2", new_record("t2", state="stale")),
            new_change("c1", new_record("t1", state="again")),
            new_change("c3", new_record("t1", state="next"), 1),
            new_change("c4", new_record("t3")),
        ]

        answers = await scene.store.records.change(changes)

        outcomes = [(one.outcome, one.version) for one in answers]
        assert outcomes == [(_CHANGED, 1), (_STALE, 1), (_CHANGED, 1), (_CHANGED, 2), (_CHANGED, 1)]
        assert [(await stored(scene, one)).state for one in ("t1", "t2", "t3")] == ["next", "open", "open"]

    # --- consequences ---

    async def test_signals_and_starts_happen_with_the_change_and_may_be_claimed(self, scene: Scene) -> None:
        for run_id in ("r1", "r2"):
            await scene.waiting(run_id, wait_signal("decided"))
        signals = [new_signal(f"s{n}", f"r{n}", "decided") for n in (1, 2)]
        starts = (new_run("r3"), new_run("r4"))
        changes = [
            new_change("c1", new_record("t1"), signals=(signals[0],), starts=starts),
            new_change("c2", new_record("t2"), signals=(signals[1],)),
        ]

        first, second = await scene.store.records.change(changes, scene.claimant(limit=3))

        assert [one.run.run_id for one in first.claimed] == ["r3", "r4", "r1"]
        assert (first.started, first.delivered) == (("r3", "r4"), (Delivered(Delivery.DELIVERED, _R1, woke=True),))
        assert [signal.payload for one in first.claimed for signal in one.inbox.signals] == [b"s1"]
        # The limit holds for all changes of a call together.
        assert (second.claimed, [one.woke for one in second.delivered]) == ((), [True])
        assert [turn.run_id for turn in await scene.claim()] == ["r2"]

    async def test_a_signal_reaches_the_run_that_the_same_change_starts(self, scene: Scene) -> None:
        starts, signals = (new_run("r1", key="k"),), (new_signal("s1", "k"), new_signal("s2", "r1"))

        changed = await change(scene, "c1", new_record("t1"), starts=starts, signals=signals)

        assert [one.run_id for one in changed.delivered] == ["r1", "r1"]
        assert await scene.mail("r1") == ["s1", "s2"]

    async def test_a_start_that_is_taken_starts_nothing_and_the_rest_happens(self, scene: Scene) -> None:
        await scene.create("r1", key="k")
        starts = (
            *(new_run("r1", own_id=is_own) for is_own in (True, False)),
            *(new_run("r2", key="k"), new_run("r3", key="free"), new_run("r4", key="free")),
        )

        changed = await change(scene, "c1", new_record("t1"), starts=starts)

        assert changed == Changed(_CHANGED, 1, (), (RunId("r3"),))
        assert [run is None for run in await scene.store.views.find_many(["r2", "r4"])] == [True, True]

    async def test_a_start_that_must_not_meet_its_key_rejects_the_whole_call(self, scene: Scene) -> None:
        await scene.create("r1", key="k")
        before = await snapshot(scene.store)
        conflict = new_run("r3", key="k", on_conflict="raise")
        changes = [
            new_change("c1", new_record("t1"), starts=(new_run("r2"),)),
            new_change("c2", new_record("t2"), starts=(conflict,)),
        ]

        with pytest.raises(AlreadyExistsError):
            await scene.store.records.change(changes)

        assert await snapshot(scene.store) == before

    async def test_an_ended_run_keeps_what_comes_too_late_as_a_refused_signal(self, scene: Scene) -> None:
        await (await scene.begin("r1", key="k")).end()
        await (await scene.begin("r2", key="k")).end(_S.CONTINUED, successor=new_run("r3"))
        await (await scene.claim_only("r3")).end()
        await (await scene.begin("r4", discards=True)).end()
        late = [
            ("to k", "k", "d"),
            ("to r2", "r2", "d"),
            ("to r1", "r1", "e"),
            ("to r4", "r4", None),
            ("to r1", "r1", None),
        ]

        signals = tuple(new_signal(name, target, dedup_key=dedup_key) for name, target, dedup_key in late)
        changed = await change(scene, "c1", new_record("t1"), signals=signals)

        missing, duplicate = Delivery.MISSING, Delivery.DUPLICATE
        met = [(missing, "r3"), (duplicate, "r3"), (missing, "r1"), (missing, "r4"), (duplicate, "r1")]
        assert [one[:2] for one in changed.delivered] == met
        unread = await scene.store.views.list_unread(limit=9)
        kept = [("r3", AFTER_END, b"to k"), ("r1", AFTER_END, b"to r1"), ("r4", AFTER_END, b"to r4")]
        assert [(one.run_id, one.reason, one.signal.payload) for one in unread] == kept

    async def test_without_any_run_a_signal_is_held_for_its_target(self, scene: Scene) -> None:
        await scene.store.runs.debounce(new_run("r1", key="planned"), quiet=Span(9), max_wait=Span(9))
        signals = tuple(new_signal(f"to {target}", target, dedup_key="d") for target in ("nobody", "nobody", "planned"))

        changed = await change(scene, "c1", new_record("t1"), signals=signals)

        assert [one.delivery for one in changed.delivered] == [Delivery.HELD, Delivery.DUPLICATE, Delivery.HELD]
        held: list[HeldSignal] = await scene.store.views.list_held(limit=9)
        assert [(one.key, one.signal.payload) for one in held] == [("nobody", b"to nobody"), ("planned", b"to planned")]
        await scene.create("r2", key="nobody")
        assert await scene.mail("r2") == ["to nobody"]

    # --- what is rejected ---

    async def test_a_wrong_change_rejects_the_call_before_it_writes(self, scene: Scene) -> None:
        for wrong in _WRONG:
            with pytest.raises(ValueError):
                await scene.store.records.change([new_change("c1", new_record("t1")), wrong])

        assert await open_ones(scene) == []

    async def test_everything_may_be_as_long_as_its_limit(self, scene: Scene) -> None:
        labels = tuple(f"{n:03}".ljust(LABEL_MAX, "ж") for n in range(LABELS_MAX))
        long = new_record("i" * ID_MAX, state="s" * STATE_MAX, labels=labels, end_state="e" * STATE_MAX)

        assert (await change(scene, "c" * VERB_MAX, long)).version == 1
        assert (await stored(scene, "i" * ID_MAX)).labels == labels
        assert await scene.store.records.count(RecordFilter("task", labels=labels), limit=9) == 1

    # --- races ---

    async def test_of_two_changers_one_wins_and_the_other_leaves_no_trace(self, scene: Scene, elsewhere: Scene) -> None:
        await scene.waiting("r1", wait_signal())
        await change(scene, "c0", new_record("t1"))
        rivals = [(one, f"c{n}") for n, one in enumerate([scene, elsewhere] * 4, 1)]

        answers = await asyncio.gather(
            *(
                change(at, name, new_record("t1", state=name), 1, signals=(new_signal(name, "r1"),))
                for at, name in rivals
            )
        )

        [won] = [name for (_, name), one in zip(rivals, answers, strict=True) if one.outcome is _CHANGED]
        assert {one.version for one in answers} == {2}
        assert (await stored(scene, "t1")).state == won
        assert (await verbs(scene, "t1"), await scene.mail("r1")) == (["c0", won], [won])

    async def test_of_two_creators_one_wins(self, scene: Scene, elsewhere: Scene) -> None:
        answers = await asyncio.gather(
            *(change(at, f"c{n}", new_record("t1")) for n, at in enumerate([scene, elsewhere] * 4))
        )

        assert sorted(one.outcome for one in answers) == [_CHANGED, *[_STALE] * 7]
        assert len(await verbs(scene, "t1")) == 1


class DueRecordSuite(StoreCase):
    """`due`, `next_due` and `prune`."""

    async def _due(self, scene: Scene, *kinds: str, limit: int = 9) -> list[str]:
        return [one.record_id for one in await scene.store.records.due(kinds or ("task",), limit=limit)]

    async def test_open_records_are_due_at_their_time_longest_due_first(self, scene: Scene) -> None:
        now = scene.clock.now()
        times = {"t1": now + 3, "t2": now + 1, "t3": None, "t4": now + 3, "t5": now + 4}
        await scene.store.records.change(
            [new_change(name, new_record(name, due_at=at)) for name, at in times.items()]
            + [new_change("v", new_record("v", kind="Übersicht", due_at=now + 2))]
        )
        await change(scene, "c", new_record("closed", due_at=Instant(now + 1), is_open=False))
        assert await self._due(scene) == []
        assert await scene.store.records.next_due(["task", "Übersicht"]) == now + 1
        assert await scene.store.records.next_due(["none"]) is None
        assert await scene.store.records.next_due([]) is None

        scene.clock.advance("3us")

        assert await self._due(scene) == ["t2", "t1", "t4"]
        assert await self._due(scene, "Übersicht", "task", "none", "task") == ["t2", "v", "t1", "t4"]
        assert await self._due(scene, "task", "Übersicht", limit=2) == ["t2", "v"]
        assert await self._due(scene, "Übersicht") == ["v"]
        [first, *_] = await scene.store.records.due(["task"], limit=1)
        assert first == await stored(scene, "t2")
        await change(scene, "later", new_record("t2", due_at=Instant(now + 9)), 1)
        await change(scene, "closed now", new_record("t1", due_at=Instant(now), is_open=False), 1)
        assert await self._due(scene) == ["t4"]

    async def test_an_event_replaces_the_earlier_ones_with_its_verb(self, scene: Scene) -> None:
        again = (NewRecordEvent("ticked", replaces=True), NewRecordEvent("noted"))
        await change(scene, "c1", new_record("t1"))
        await change(scene, "c2", new_record("t2"), events=(NewRecordEvent("ticked"),))
        for expected in (1, 2, 3):
            await change(scene, f"c{expected + 1} again", new_record("t1"), expected, events=again)

        events = await scene.store.records.list_events("task", "t1", limit=99)
        assert [(event.verb, event.version) for event in events] == [
            ("noted", 4),
            ("ticked", 4),
            ("noted", 3),
            ("noted", 2),
            ("c1", 1),
        ]
        assert [event.number for event in events] == [7, 6, 5, 3, 1]
        assert await verbs(scene, "t2") == ["ticked"]
        assert (await change(scene, "c4 again", new_record("t1"), 3, events=again)).version == 4
        assert len(await scene.store.records.list_events("task", "t1", limit=99)) == 5

    async def test_a_due_time_in_the_past_is_due_at_once_and_the_last_one_is_in_the_year_9999(
        self, scene: Scene
    ) -> None:
        for name, at in {"begun": Instant(0), "past": Instant(scene.clock.now() - SECOND), "last": DUE_MAX}.items():
            await change(scene, name, new_record(name, due_at=at))
        assert await self._due(scene) == ["begun", "past"]
        assert await scene.store.records.next_due(["task"]) == 0

        where = RecordFilter("task", order="due", due_before=DUE_MAX)
        listed = await scene.store.records.list_records(where, limit=9)
        assert [one.record_id for one in listed] == ["begun", "past"]
        assert (await stored(scene, "last")).due_at == DUE_MAX

    async def test_pruning_removes_old_closed_records_and_their_events_only(self, scene: Scene) -> None:
        for number in range(4):
            await change(scene, f"old {number}", new_record(f"t{number}", is_open=False, labels=("a",)))
            scene.clock.advance(1)
        await change(scene, "open", new_record("t4", labels=("a",)))
        await change(scene, "other", new_record("t0", kind="Übersicht", is_open=False))
        await change(scene, "reopened", new_record("t1"), 1)
        await change(scene, "touched", new_record("t3", is_open=False), 1)
        scene.clock.advance("10s")
        await change(scene, "young", new_record("t5", is_open=False))
        prune = scene.store.records.prune

        assert await prune("none", older_than=Span(0), limit=9) == 0
        assert await prune("task", older_than=Span(10_000_000), limit=1) == 1
        assert await scene.store.records.find("task", "t0") is None
        assert await prune("task", older_than=Span(10_000_000), limit=9) == 1
        assert await prune("task", older_than=Span(10_000_000), limit=9) == 0
        scene.clock.advance("1us")
        assert await prune("task", older_than=Span(10_000_000), limit=9) == 1

        left = await scene.store.records.list_records(RecordFilter("task", order="oldest"), limit=9)
        assert [one.record_id for one in left] == ["t1", "t4", "t5"]
        assert await scene.store.records.list_events("task", "t0", limit=9) == []
        assert [(await stored(scene, "t0", "Übersicht")).is_open] == [False]
        labelled = await scene.store.records.list_records(RecordFilter("task", labels=("a",)), limit=9)
        assert [one.record_id for one in labelled] == ["t4"]

    async def test_a_pruned_record_may_be_created_again_with_another_number(self, scene: Scene) -> None:
        await change(scene, "c1", new_record("t1", is_open=False))
        first = await stored(scene, "t1")
        scene.clock.advance(1)
        await scene.store.records.prune("task", older_than=Span(0), limit=1)

        assert (await change(scene, "c2", new_record("t1"))).version == 1

        assert (await stored(scene, "t1")).number > first.number
        assert await verbs(scene, "t1") == ["c2"]
