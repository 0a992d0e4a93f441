"""Reads for people."""

from __future__ import annotations

from stepwell.clock import SECOND, Instant, Span
from stepwell.conformance.case import StoreCase
from stepwell.conformance.reach import reach
from stepwell.conformance.scene import (
    FIRST,
    FLOW,
    LEASE,
    Scene,
    new_run,
    place,
    step,
    wait_child,
    wait_signal,
    wait_timer,
)
from stepwell.conformance.snapshot import snapshot
from stepwell.ids import RunId
from stepwell.model.runs import Run
from stepwell.model.states import RunStatus
from stepwell.stores.base.filters import Condition, Field
from stepwell.stores.base.views import RunFilter, UnfinishedCounts, UpcomingWork


class FindSuite(StoreCase):
    """`find`, `find_many`, `find_by_prefix` and `detail`."""

    async def test_a_run_is_found_by_its_id_first(self, scene: Scene) -> None:
        await scene.create("r1", key="k")
        await scene.create("r2", key="r1")

        assert (await scene.run("r1")).run_id == "r1"
        assert (await scene.run("k")).run_id == "r1"
        assert await scene.store.views.find("unknown") is None

    async def test_a_key_finds_the_active_run_or_the_one_created_last(self, scene: Scene) -> None:
        for run_id in ("r3", "r1", "r2"):
            await (await scene.begin(run_id, key="k")).end()
            scene.clock.advance(1)
        assert (await scene.run("k")).run_id == "r2"

        await (await scene.begin("r0", key="k")).park(wait_signal())
        assert (await scene.run("k")).run_id == "r0"

    async def test_an_active_run_is_found_before_one_created_later(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k")
        await turn.end(RunStatus.FAILED)
        scene.clock.advance(1)
        await (await scene.begin("r2", key="k")).end()

        await scene.store.runs.retry(RunId("r1"), by="ann")

        assert (await scene.run("k")).run_id == "r1"

    async def test_many_are_found_in_order(self, scene: Scene) -> None:
        await scene.create("r1", key="k")
        await scene.create("r2")

        found = await scene.store.views.find_many(["k", "unknown", "r2", "r1", "k"])

        assert [run and run.run_id for run in found] == ["r1", None, "r2", "r1", "r1"]
        assert found[0] == await scene.store.views.find("k")
        assert await scene.store.views.find_many([]) == []

    async def test_ids_are_found_by_their_beginning_letter_by_letter(self, scene: Scene) -> None:
        for run_id in ("ab-2", "ab-1", "AB-3", "a%", "a_", "b"):
            await scene.create(run_id)
        find = scene.store.views.find_by_prefix

        assert await find("ab", limit=9) == ["ab-1", "ab-2"]
        assert await find("ab", limit=1) == ["ab-1"]
        assert await find("a%", limit=9) == ["a%"]
        assert await find("a_", limit=9) == ["a_"]
        assert await find("zz", limit=9) == []
        assert len(await find("", limit=9)) == 6

    async def test_a_detail_has_everything_of_one_run(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.record("a")
        await scene.begin_child(turn, "c1")
        await scene.send("s1", "r1")

        detail = await scene.store.views.detail(RunId("r1"))

        assert detail is not None
        assert detail.run == await scene.run("r1")
        assert detail.history == await scene.history("r1")
        assert [signal.payload for signal in detail.signals] == [b"s1"]
        assert detail.children == (await scene.run("c1"),)
        assert await scene.store.views.detail(RunId("unknown")) is None


class ListSuite(StoreCase):
    """Listings."""

    async def _list(self, scene: Scene, limit: int = 99, before: str | None = None, **where: object) -> list[str]:
        runs = await scene.store.views.list_runs(
            RunFilter()._replace(**where),  # type: ignore[arg-type]
            limit=limit,
            before=None if before is None else RunId(before),
        )
        return [run.run_id for run in runs]

    async def test_runs_are_listed_newest_first_by_id(self, scene: Scene) -> None:
        for run_id in ("r2", "r3", "r1"):
            await scene.create(run_id)

        assert await self._list(scene) == ["r3", "r2", "r1"]
        [newest, *_] = await scene.store.views.list_runs(RunFilter(), limit=1)
        assert newest == await scene.run("r3")

    async def test_pages_are_stable_while_runs_are_added(self, scene: Scene) -> None:
        for n in range(1, 8):
            await scene.create(f"r{n}")

        seen = await self._list(scene, 3)
        await scene.create("r9")
        seen += await self._list(scene, 3, seen[-1])
        await scene.create("r8")
        seen += await self._list(scene, 3, seen[-1])

        assert seen == ["r7", "r6", "r5", "r4", "r3", "r2", "r1"]
        assert await self._list(scene, 3, "r1") == []

    async def test_filters_are_combined(self, scene: Scene) -> None:
        parent = await scene.begin("r1", key="k")
        await scene.begin_child(parent, "r2")
        await scene.create("r3", workflow="other")
        await (await scene.begin("r4")).end()
        await scene.create("r5", key="k5")

        assert await self._list(scene, statuses=(RunStatus.RUNNING, RunStatus.COMPLETED)) == ["r4", "r2", "r1"]
        assert await self._list(scene, workflow="other") == ["r3"]
        assert await self._list(scene, key="k") == ["r1"]
        assert await self._list(scene, parent=RunId("r1")) == ["r2"]
        assert await self._list(scene, statuses=(RunStatus.RUNNING,), workflow="flow", limit=1) == ["r2"]
        assert await self._list(scene, statuses=(RunStatus.RUNNING,), key="k5") == []

    async def test_workers_are_listed_oldest_first_live_or_not(self, scene: Scene) -> None:
        for worker in ("w3", "w2"):
            scene.clock.advance(6)
            await scene.register(worker)

        assert [worker.incarnation for worker in await scene.store.views.list_workers()] == ["w1", "w3", "w2"]

    async def test_held_signals_are_listed_oldest_first(self, scene: Scene) -> None:
        for n in (3, 1, 2):
            await scene.send(f"s{n}", f"k{n}", hold=True)

        held = await scene.store.views.list_held(limit=2)

        assert [(one.key, one.signal.payload) for one in held] == [("k3", b"s3"), ("k1", b"s1")]

    async def test_acts_are_listed_oldest_first_per_run(self, scene: Scene) -> None:
        await reach(scene, "r1", RunStatus.PAUSED, has_undo=True)
        await scene.create("r2")
        await scene.store.runs.resume(RunId("r1"), by="ann")
        scene.clock.advance(1)
        await scene.cancel("r1", reason="why")
        await scene.cancel("r2")

        acts = await scene.store.views.list_audit(RunId("r1"))

        assert [(act.verb, act.before, act.after, act.reason) for act in acts] == [
            ("resume", "paused", "pending", ""),
            ("cancel", "pending", "cancelling", "why"),
        ]
        assert await scene.store.views.list_audit(RunId("unknown")) == []

    async def test_definitions_are_those_of_runs_and_workers(self, scene: Scene) -> None:
        await scene.create("r1", version=3)
        await scene.create("r2", version=3)
        await (await scene.begin("r3")).end()
        await scene.register("w2", "other@1", "flow@3")

        assert sorted(await scene.store.views.list_definitions()) == [FLOW, "flow@3", "other@1"]

    async def test_unfinished_runs_are_counted_by_status_and_due_runs_separately(self, scene: Scene) -> None:
        views = scene.store.views
        assert await views.count_unfinished() == UnfinishedCounts({}, 0, None)
        await scene.create("r1", delay=Span(10 * SECOND))
        await scene.create("r2")
        created = await scene.run("r2")
        scene.clock.advance(5)
        await scene.create("r3", version=3)
        await (await scene.begin("r4")).end()
        await scene.begin("r5")

        counted = await views.count_unfinished()
        assert dict(counted.runs) == {RunStatus.PENDING: 3, RunStatus.RUNNING: 1}
        assert (counted.due, counted.due_since) == (2, created.wake_at)
        scene.clock.advance(6)
        assert (await views.count_unfinished()).due == 3

    async def test_runs_are_counted_for_a_filter_up_to_a_limit(self, scene: Scene) -> None:
        views = scene.store.views
        for number in range(3):
            await scene.create(f"r{number}", version=3)
        await (await scene.begin("r4")).end()

        assert await views.count_runs(RunFilter(), limit=10) == 4
        assert await views.count_runs(RunFilter(), limit=2) == 2
        both = RunFilter(statuses=(RunStatus.PENDING, RunStatus.COMPLETED))
        assert await views.count_runs(both, limit=10) == 4
        assert await views.count_runs(both, limit=3) == 3
        assert await views.count_runs(RunFilter(statuses=(RunStatus.FAILED,)), limit=10) == 0
        newer = RunFilter(conditions=(Condition(Field.VERSION, ((">=", "3"),)),))
        assert await views.count_runs(newer, limit=10) == 3

    async def test_runs_are_counted_by_definition_and_status(self, scene: Scene) -> None:
        assert await scene.store.views.tally_runs() == []
        await scene.create("r1", version=3)
        await scene.create("r2", version=3, priority=5)
        await scene.create("r3", version=10)
        turn = await scene.begin("r4")
        scene.clock.advance(5)
        await turn.end()

        ended = await scene.store.views.find("r4")
        created = [await scene.store.views.find(run_id) for run_id in ("r2", "r3")]
        assert ended is not None
        tallies = await scene.store.views.tally_runs()
        assert [(one.definition, one.status.value, one.runs) for one in tallies] == [
            (FLOW, "completed", 1),
            ("flow@10", "pending", 1),
            ("flow@3", "pending", 2),
        ]
        assert [one.last_at for one in tallies] == [
            ended.ended_at,
            *(run.created_at for run in reversed(created) if run is not None),
        ]

    async def test_a_definition_that_a_debounced_start_left_is_not_listed(self, scene: Scene) -> None:
        for version in (2, 3):
            planned = new_run("r1", key="k", version=version)
            await scene.store.runs.debounce(planned, quiet=Span(5), max_wait=Span(9))

        assert sorted(await scene.store.views.list_definitions()) == [FLOW, "flow@3"]


class UpcomingWorkSuite(StoreCase):
    """`next_wake`, `upcoming_work`, `orphans`; reads write nothing."""

    async def test_the_next_wake_is_the_earliest_of_the_definitions(self, scene: Scene) -> None:
        now = scene.clock.now()
        next_wake = scene.store.views.next_wake
        assert await next_wake([FLOW]) is None
        await scene.create("r1", delay=Span(9))
        await scene.create("r2", delay=Span(5), version=2)
        await (await scene.begin("r3")).park(wait_timer(Instant(now + 7)), wake_at=Instant(now + 7))
        await (await scene.begin("r4")).park(wait_signal())

        assert await next_wake([FLOW]) == now + 7
        assert await next_wake([FLOW, "flow@2", "unknown@1"]) == now + 5
        assert await next_wake(["unknown@1"]) is None
        assert await next_wake([]) is None
        await scene.cancel("r3", compensate=False)
        assert await next_wake([FLOW]) == now + 9
        scene.clock.advance("9us")
        await scene.claim_only("r1")
        assert await next_wake([FLOW]) is None

    async def test_upcoming_work_has_the_next_wake_stranded_runs_and_the_next_lease_end(self, scene: Scene) -> None:
        now, views = scene.clock.now(), scene.store.views
        await scene.create("r1", delay=Span(9))
        await scene.begin("r2")
        lease_ends_at = Instant(now + LEASE)

        assert await views.upcoming_work([FLOW]) == UpcomingWork(Instant(now + 9), False, lease_ends_at)
        assert await views.upcoming_work([]) == UpcomingWork(None, False, lease_ends_at)

        scene.clock.advance("10s")
        assert await views.upcoming_work(["unknown@1"]) == UpcomingWork(None, True, None)

    async def test_a_run_that_nothing_will_wake_is_an_orphan(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.park()
        other = await scene.begin("r2")
        child = await scene.begin_child(other, "c1")
        await other.park(wait_child(place(9)))
        lost = await scene.begin("r3")
        await lost.park(wait_timer(Instant(9)))

        assert sorted(await scene.store.views.orphans()) == ["r1", "r2", "r3"]
        for run_id in ("r1", "r2", "r3", child.run_id):
            await scene.cancel(run_id, compensate=False)

    async def test_runs_with_a_cause_of_progress_are_not_orphans(self, scene: Scene) -> None:
        for status in RunStatus:
            await reach(scene, f"r-{status.value}", status)
        parent = await scene.begin("p1")
        await scene.begin_child(parent, "c1")
        await parent.park(wait_child(FIRST))

        assert await scene.store.views.orphans() == []

    async def test_reading_writes_nothing(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k")
        await turn.commit(names=("a",), entries=(step(1, place(0)),))
        await scene.create("r2")
        before = await snapshot(scene.store)
        scene.clock.advance(60)
        views = scene.store.views

        found: Run | None = await views.find("k")
        assert found is not None
        await views.next_wake([FLOW])
        await views.orphans()
        await views.list_definitions()
        await views.tally_runs()
        await views.count_unfinished()
        await views.count_runs(RunFilter(), limit=10)
        assert await views.has_stranded()
        await scene.store.runs.load([RunId("r1")])
        await scene.store.runs.inbox(RunId("r1"))

        assert await snapshot(scene.store) == before
