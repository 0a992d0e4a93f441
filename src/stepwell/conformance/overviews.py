"""Overviews: bounded reads for pages."""

from __future__ import annotations

from stepwell.clock import SECOND, Instant, Span
from stepwell.conformance.case import StoreCase
from stepwell.conformance.reach import reach
from stepwell.conformance.scene import FIRST, Scene, child_of, place, step, wait_signal, wait_timer, wait_topic
from stepwell.ids import EventId, RunId
from stepwell.model.commits import Park
from stepwell.model.entries import Attempt, Progress
from stepwell.model.locations import undo
from stepwell.model.states import EntryKind, RunStatus, WaitKind
from stepwell.stores.base.filters import Condition, Field, Order, SortKey
from stepwell.stores.base.overviews import (
    NOWHERE,
    Bin,
    Histogram,
    Passage,
    PastEvent,
    Summary,
    TopicUse,
    WaitGroup,
)
from stepwell.stores.base.views import RunFilter

_S = RunStatus
SECOND_SPAN = Span(SECOND)
NOTHING = Passage((), (), (), ())


class OverviewSuite(StoreCase):
    """Summaries, histograms, standings, movement, topics and waits."""

    async def test_summaries_are_the_runs_of_a_listing_without_payloads(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k")
        scene.clock.advance(1)
        await turn.end(_S.FAILED, failure=b"no")
        await scene.create("r2", version=3)
        list_summaries = scene.store.overviews.list_summaries

        failed, other = await scene.run("r1"), await scene.run("r2")
        times = failed.created_at, failed.started_at, failed.ended_at
        assert await list_summaries(RunFilter(), limit=9) == [
            Summary(RunId("r2"), "flow", 3, _S.PENDING, None, other.created_at, None, None, None),
            Summary(RunId("r1"), "flow", 1, _S.FAILED, "k", *times, b"no"),
        ]
        assert [one.run_id for one in await list_summaries(RunFilter(), limit=1)] == ["r2"]
        assert [one.run_id for one in await list_summaries(RunFilter(), limit=9, before=RunId("r2"))] == ["r1"]
        by_age = RunFilter(order=Order(SortKey.CREATED, False))
        assert [one.run_id for one in await list_summaries(by_age, limit=9)] == ["r1", "r2"]

    async def _create_five(self, scene: Scene) -> Instant:
        """Five runs: one in each of three seconds, then two in one; the second has failed, the last two go on."""
        began = scene.store.now()
        await (await scene.begin("r1")).end()
        scene.clock.advance(1)
        await (await scene.begin("r2", key="k")).end(_S.FAILED, failure=b"no")
        scene.clock.advance(1)
        await (await scene.begin("r3")).end()
        scene.clock.advance(1)
        await scene.create("r4", version=2)
        await (await scene.begin("r5")).park(wait_signal())
        return began

    async def test_runs_are_counted_by_the_time_of_their_creation(self, scene: Scene) -> None:
        began = await self._create_five(scene)
        until = Instant(began + 10 * SECOND)

        async def count(where: RunFilter, width: int = 1, since: int = 0) -> Histogram:
            first = Instant(began + since * SECOND)
            return await scene.store.overviews.count_created(
                where, since=first, until=until, width=Span(width * SECOND), scan_max=100
            )

        everything = (Bin(0, 1, 0), Bin(1, 1, 1), Bin(2, 1, 0), Bin(3, 2, 0))
        assert await count(RunFilter()) == Histogram(everything, began, True)
        assert (await count(RunFilter(), width=2)).bins == (Bin(0, 2, 1), Bin(1, 3, 0))
        assert (await count(RunFilter(), since=2)).bins == (Bin(0, 1, 0), Bin(1, 2, 0))
        assert (await count(RunFilter(statuses=(_S.FAILED, _S.WAITING)))).bins == (Bin(1, 1, 1), Bin(3, 1, 0))
        assert (await count(RunFilter(workflow="other"))).bins == ()
        assert (await count(RunFilter(key="k"))).bins == (Bin(1, 1, 1),)
        newer = RunFilter(workflow="flow", conditions=(Condition(Field.VERSION, ((">", "1"),)),))
        assert (await count(newer)).bins == (Bin(3, 1, 0),)
        no_key = RunFilter(conditions=(Condition(Field.KEY, (("k",),), negated=True),))
        assert [one.number for one in (await count(no_key)).bins] == [0, 2, 3]

    async def test_what_is_not_counted_is_said(self, scene: Scene) -> None:
        began = await self._create_five(scene)
        until = Instant(began + 10 * SECOND)
        count = scene.store.overviews.count_created

        two = await count(RunFilter(), since=began, until=until, width=SECOND_SPAN, scan_max=2)
        one = await count(RunFilter(), since=began, until=until, width=SECOND_SPAN, scan_max=1)
        none = await count(RunFilter(), since=began, until=began, width=SECOND_SPAN, scan_max=1)

        assert two == Histogram((Bin(1, 1, 1), Bin(2, 1, 0), Bin(3, 2, 0)), Instant(began + 1), True)
        assert (one.bins[0], one.since, one.is_whole) == (Bin(2, 1, 0), began + SECOND + 1, False)
        assert none.bins == ()

    async def test_a_standing_has_what_a_run_waits_for_and_has_not_received(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        retry = wait_timer(Instant(9_000_000_000_000_000), place(1))._replace(kind=WaitKind.RETRY)
        tried = Attempt(place(1), 1, Instant(5), b"no", Instant(9))
        old = Attempt(place(0), 1, Instant(4), b"no", Instant(5))
        await turn.commit(names=("a", "b"), entries=(step(1, place(0)),), attempts=(old, tried))
        for number in range(3):
            await turn.commit(children=(child_of("r1", f"c{number}", place(2)),))
        await scene.cancel("c0", compensate=False)
        await scene.send("s1", "r1", "other")
        await scene.send("s2", "r1", "other")
        await turn.commit(progress=(Progress(place(3), Instant(7), done=3),))
        await turn.commit(waits=(wait_signal("go"), retry))
        await scene.create("r2")

        first, unknown, second = await scene.store.overviews.list_standings(
            [RunId("r1"), RunId("unknown"), RunId("r2")], limit=1
        )

        assert (first.names, first.waits, first.attempts) == (("a", "b"), (wait_signal("go"), retry), (old, tried))
        assert [(child.run_id, child.status) for child in first.children] == [("c1", _S.PENDING)]
        assert [signal.payload for signal in first.signals] == [b"s1"]
        assert [one.done for one in first.progress] == [3]
        assert unknown == second == NOWHERE

    async def test_movement_has_what_was_created_ended_or_has_an_owner_and_what_is_watched(self, scene: Scene) -> None:
        await reach(scene, "paused", _S.PAUSED)
        await (await scene.begin("waiting")).park(wait_signal())
        await (await scene.begin("watched")).park(wait_signal())
        await (await scene.begin("old")).end()
        running = await scene.begin("running", key="k")
        ending = await scene.begin("ending")
        scene.clock.advance(1)
        since = scene.store.now()
        await running.record("a")
        await ending.end()
        await (await scene.begin("new")).park(wait_signal())

        async def look(limit: int = 99) -> tuple[dict[str, tuple[str, int]], bool]:
            found = await scene.store.overviews.list_movement(since, [RunId("watched"), RunId("?")], limit=limit)
            return {one.run_id: (one.status.value, one.revision) for one in found.runs}, found.is_whole

        assert await look() == (
            {
                name: (run.status.value, run.revision)
                for name in ("paused", "watched", "running", "ending", "new")
                for run in [await scene.run(name)]
            },
            True,
        )
        found, is_whole = await look(limit=0)
        assert (list(found), is_whole) == (["watched"], False)
        [state] = [
            one
            for one in (await scene.store.overviews.list_movement(since, [], limit=9)).runs
            if one.run_id == "running"
        ]
        run = await scene.run("running")
        assert state == (run.run_id, "flow", 1, _S.RUNNING, "k", run.revision, run.created_at, None)

    async def test_topics_have_their_waits_kept_events_and_latest_events(self, scene: Scene) -> None:
        await (await scene.begin("r1")).park(wait_topic("news"))
        await (await scene.begin("r2")).park(wait_topic("mail"))
        at = scene.store.now()
        await scene.publish("e1", "mail")
        await scene.publish("e2", "kept", retain=Span(SECOND))
        await scene.publish("e3", "gone", retain=Span(1))
        scene.clock.advance("1ms")

        assert await scene.store.overviews.list_topics(limit=99) == [
            TopicUse("gone", 0, 0, 1, at),
            TopicUse("kept", 0, 1, 1, at),
            TopicUse("mail", 0, 0, 1, at),
            TopicUse("news", 1, 0, 0, None),
        ]
        assert [one[0] for one in await scene.store.overviews.list_topics(limit=1) if one.published] == ["gone"]

    async def test_the_latest_events_are_listed_with_what_became_of_them(self, scene: Scene) -> None:
        await (await scene.begin("r1")).park(wait_topic("news"))
        at = scene.store.now()
        await scene.publish("e1", "news")
        await scene.publish("e2", "kept", retain=Span(SECOND))
        await scene.publish("e3", "gone", retain=Span(1))
        await scene.publish("e4", "kept")
        scene.clock.advance("1ms")
        ask = scene.store.overviews.list_past_events

        until = Instant(at + SECOND)
        assert await ask(None, limit=9, scan_max=99) == [
            PastEvent(EventId("e4"), "kept", "all", at, 0, None),
            PastEvent(EventId("e3"), "gone", "all", at, 0, None),
            PastEvent(EventId("e2"), "kept", "all", at, 0, until),
            PastEvent(EventId("e1"), "news", "all", at, 1, None),
        ]
        assert [one.event_id for one in await ask("kept", limit=9, scan_max=99)] == ["e4", "e2"]
        assert [one.event_id for one in await ask("kept", limit=1, scan_max=99)] == ["e4"]
        assert [one.event_id for one in await ask("kept", limit=9, scan_max=2)] == ["e4"]
        assert await ask("nobody", limit=9, scan_max=99) == []

    async def test_waits_are_grouped_by_what_comes_and_who_waits(self, scene: Scene) -> None:
        due = wait_signal("go")._replace(due_at=Instant(8_000_000_000_000_000))
        await (await scene.begin("r1")).park(due)
        await (await scene.begin("r2")).park(wait_signal("go"), wait_timer(Instant(9_000_000_000_000_000), place(1)))
        await (await scene.begin("r3")).park(wait_topic("news", 'a="1"'))
        await (await scene.begin("r4")).park(wait_topic("mail"))
        await scene.publish("e1", "mail")
        groups = await scene.store.overviews.tally_waits(limit=99)

        assert groups == [
            WaitGroup(WaitKind.SIGNAL, ("go",), "flow", 1, 2, due.due_at, RunId("r1")),
            WaitGroup(WaitKind.TOPIC, ("news",), "flow", 1, 1, None, RunId("r3")),
        ]
        assert sum(one.runs for one in await scene.store.overviews.tally_waits(limit=1)) == 1

    async def test_a_signal_that_no_run_will_read_is_found_by_its_number(self, scene: Scene) -> None:
        await scene.send("s1", "later", hold=True)
        turn = await scene.begin("r1")
        await scene.send("s2", "r1")
        find, views = scene.store.overviews.find_undelivered, scene.store.views
        [held] = await views.list_held(limit=9)
        [pending] = (await scene.store.runs.inbox(RunId("r1"))).signals
        assert await find(pending.number) is None
        await turn.end()
        [unread] = await views.list_unread(limit=9)

        assert await find(held.signal.number) == held
        assert await find(unread.signal.number) == unread
        assert await find(1_000_000) is None


class PassageSuite(StoreCase):
    """Parts of histories."""

    async def _record_four(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(
            names=("b", "a"),
            entries=(step(1, place(1), undo=b"u"), step(2, place(0)), step(3, undo(place(1)), kind=EntryKind.UNDO)),
            attempts=(Attempt(place(1), 1, Instant(5), b"no", None),),
        )
        await turn.commit(
            names=("c",), entries=(step(4, place(2)),), waits=(wait_signal("go", at=FIRST),), move=Park(None)
        )

    async def test_an_outline_is_the_history_without_its_values(self, scene: Scene) -> None:
        await self._record_four(scene)
        history = await scene.history("r1")

        outline = await scene.store.overviews.read_outline(RunId("r1"))

        assert outline is not None
        assert outline.run == await scene.run("r1")
        assert (outline.names, outline.waits, outline.progress) == (history.names, history.waits, ())
        assert [entry.seq for entry in outline.entries] == [1, 2, 3, 4]
        bare = [entry._replace(value=b"", undo=entry.undo and b"") for entry in history.entries]
        assert list(outline.entries) == bare
        assert outline.entries[0].undo == b""
        assert await scene.store.overviews.read_outline(RunId("unknown")) is None

    async def test_entries_are_read_in_pages_and_by_their_numbers(self, scene: Scene) -> None:
        await self._record_four(scene)
        history = await scene.history("r1")
        overviews = scene.store.overviews

        first = await overviews.list_entries(RunId("r1"), after=0, limit=2)
        rest = await overviews.list_entries(RunId("r1"), after=2, limit=9)
        found = await overviews.find_entries(RunId("r1"), [4, 1, 99])

        assert first == Passage(history.names, history.entries[:2], history.attempts, (place(1),))
        assert rest == Passage(history.names, history.entries[2:], (), ())
        assert found == Passage(history.names, history.entries[::3], history.attempts, (place(1),))
        assert await overviews.list_entries(RunId("r1"), after=4, limit=9) == Passage(history.names, (), (), ())
        assert await overviews.find_entries(RunId("unknown"), [1]) == NOTHING
        assert await overviews.list_entries(RunId("unknown"), after=0, limit=9) == NOTHING
