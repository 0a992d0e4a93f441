"""Children: started with a commit, awaited by waits, cancelled by trims."""

from __future__ import annotations

import pytest

from stepwell.clock import Span
from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import FIRST, Scene, child_of, new_run, place, wait_child, wait_run, wait_signal
from stepwell.conformance.snapshot import snapshot
from stepwell.ids import RunId
from stepwell.model.commits import Applied, End, Park, Pause, Verdict
from stepwell.model.failures import decode_failure
from stepwell.model.locations import iteration, iterations
from stepwell.model.runs import ChildOutcome, Parent
from stepwell.model.states import RunStatus

_P1 = RunId("p1")


class ChildSuite(StoreCase):
    """Starting children, and receiving their outcomes."""

    async def test_children_start_with_the_commit(self, scene: Scene) -> None:
        parent = await scene.begin("p1")

        applied = await parent.commit(
            names=("a",),
            children=(child_of("p1", "c1", FIRST), child_of("p1", "c2", place(1), detached=True, delay=Span(5))),
        )

        now = scene.clock.now()
        assert applied == Applied(Verdict.APPLIED, revision=1)
        first, second = await scene.run("c1"), await scene.run("c2")
        assert (first.status, first.parent, first.wake_at) == (RunStatus.PENDING, Parent(_P1, FIRST), now)
        assert (second.parent, second.wake_at) == (Parent(_P1, place(1), True), now + 5)
        detail = await scene.store.views.detail(_P1)
        assert detail is not None
        assert sorted(detail.children) == [first, second]

    async def test_children_are_claimed_for_the_claimant_up_to_its_limit(self, scene: Scene) -> None:
        parents = [await scene.begin(f"p{n}") for n in (1, 2)]
        commits = [
            turn.next(children=tuple(child_of(turn.run_id, f"{turn.run_id}-c{n}", place(n)) for n in (1, 2)))
            for turn in parents
        ]

        applied = await scene.store.runs.apply(commits, scene.claimant(limit=3))

        claimed = [[one.run.run_id for one in outcome.claimed] for outcome in applied]
        assert claimed == [["p1-c1", "p1-c2"], ["p2-c1"]]
        assert applied[0].claimed[0].is_fresh
        assert applied[0].claimed[0].run == await scene.run("p1-c1")
        assert await scene.status("p2-c2") is RunStatus.PENDING

    async def test_a_commit_for_a_dead_worker_starts_children_for_others(self, scene: Scene) -> None:
        parent = await scene.begin("p1")

        applied = await parent.commit(children=(child_of("p1", "c1", FIRST),), claimant=scene.claimant("unknown"))

        assert applied == Applied(Verdict.APPLIED, revision=1)
        assert await scene.status("c1") is RunStatus.PENDING

    async def test_a_child_with_a_taken_id_is_skipped(self, scene: Scene) -> None:
        parent = await scene.begin("p1")
        await scene.begin_child(parent, "c1")
        before = await scene.run("c1")

        applied = await parent.commit(children=(child_of("p1", "c1", FIRST, input=b"x"),), claimant=scene.claimant())

        assert applied == Applied(Verdict.APPLIED, revision=2)
        assert await scene.run("c1") == before

    async def test_a_child_whose_key_is_taken_is_created_failed(self, scene: Scene) -> None:
        await scene.create("r1", key="k")
        parent = await scene.begin("p1")
        scene.clock.advance(1)

        parked = await parent.commit(
            names=("a",),
            children=(child_of("p1", "c1", FIRST, key="k", dedup=Span(5)),),
            waits=(wait_child(FIRST),),
            move=Park(None),
            claimant=scene.claimant(),
        )

        assert parked == Applied(Verdict.APPLIED, revision=1, is_awake=True)
        child = await scene.run("c1")
        assert child.dedup == 0  # no start can meet it: it has no key
        assert (child.status, child.key, child.ended_at, child.wake_at, child.epoch) == (
            RunStatus.FAILED,
            None,
            scene.clock.now(),
            None,
            0,
        )
        assert child.failure is not None
        failure = decode_failure(child.failure)
        assert (failure.type, failure.code) == ("AlreadyExistsError", "SW405")
        [outcome] = (await scene.store.runs.inbox(_P1)).children
        assert outcome == ChildOutcome(FIRST, RunId("c1"), RunStatus.FAILED, None, child.failure)
        assert (await scene.run("r1")).key == "k"

    async def test_the_failure_of_a_child_without_its_key_is_readable_whatever_the_names_are(
        self, scene: Scene
    ) -> None:
        holder, name = 'say "yes" \\', '"no" \\'
        await scene.create(holder, key="k")
        parent = await scene.begin("p1")

        await parent.commit(names=(name,), children=(child_of("p1", "c1", FIRST, key="k"),))

        child = await scene.run("c1")
        assert child.failure is not None
        failure = decode_failure(child.failure)
        assert (failure.path, holder in failure.message) == (name, True)

    async def test_a_child_that_is_created_failed_discards_its_signals(self, scene: Scene) -> None:
        await scene.create("r1", key="k")
        parent = await scene.begin("p1")
        await parent.commit(names=("a",), children=(child_of("p1", "c1", FIRST, key="k", discards=True),))
        await scene.store.runs.retry(RunId("c1"), by="ann")
        await scene.send("s1", "c1")

        await scene.cancel("c1")

        assert await scene.status("c1") is RunStatus.CANCELLED
        assert await scene.store.views.list_unread(limit=9) == []

    async def test_a_key_is_taken_by_a_sibling_too(self, scene: Scene) -> None:
        parent = await scene.begin("p1")

        twins = tuple(child_of("p1", f"c{n}", place(n), key="k") for n in (1, 2))
        await parent.commit(names=("a", "b", "c"), children=twins)

        assert [await scene.status(run) for run in ("c1", "c2")] == [RunStatus.PENDING, RunStatus.FAILED]

    async def test_a_child_takes_over_what_was_held_for_its_key(self, scene: Scene) -> None:
        await scene.send("s1", "k", hold=True)
        parent = await scene.begin("p1")

        child = await scene.begin_child(parent, "c1", key="k")

        assert [signal.payload for signal in child.claimed.inbox.signals] == [b"s1"]

    @pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED])
    async def test_the_end_of_a_child_wakes_its_waiting_parent(self, scene: Scene, status: RunStatus) -> None:
        parent = await scene.begin("p1")
        child = await scene.begin_child(parent, "c1")
        assert not (await parent.park(wait_child(FIRST))).is_awake
        scene.clock.advance(1)

        await child.end(status, output=b"\x00", failure=b"\xff")

        assert (await scene.run("p1")).wake_at == scene.clock.now()
        again = await scene.claim_only("p1")
        assert again.claimed.inbox.children == (ChildOutcome(FIRST, RunId("c1"), status, b"\x00", b"\xff"),)

    async def test_a_child_that_ended_before_the_wait_keeps_the_parent_awake(self, scene: Scene) -> None:
        parent = await scene.begin("p1")
        child = await scene.begin_child(parent, "c1")
        await child.end(output=b"x")
        assert (await scene.run("p1")).owner == scene.incarnation

        assert (await parent.park(wait_child(FIRST))).is_awake
        [outcome] = (await scene.claim_only("p1")).claimed.inbox.children
        assert outcome.output == b"x"

    async def test_only_awaited_children_wake_the_parent(self, scene: Scene) -> None:
        parent = await scene.begin("p1")
        first = await scene.begin_child(parent, "c1", place(0))
        second = await scene.begin_child(parent, "c2", place(1))
        await first.end()
        assert (await scene.store.runs.inbox(_P1)).children == ()

        assert not (await parent.park(wait_child(place(1)))).is_awake
        assert (await scene.store.runs.inbox(_P1)).children == ()
        await second.end()
        assert [one.run_id for one in (await scene.store.runs.inbox(_P1)).children] == ["c2"]

    @pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED])
    async def test_the_end_of_any_run_wakes_the_runs_that_wait_for_it(self, scene: Scene, status: RunStatus) -> None:
        other = await scene.begin("other")
        for name in ("p1", "p2"):
            assert not (await (await scene.begin(name)).park(wait_run("other"))).is_awake
        scene.clock.advance(1)

        await other.end(status, output=b"\x00", failure=b"\xff")

        turns = await scene.claim()
        assert [turn.run_id for turn in turns] == ["p1", "p2"]
        for turn in turns:
            assert turn.claimed.inbox.children == (ChildOutcome(FIRST, RunId("other"), status, b"\x00", b"\xff"),)

    async def test_the_cancel_of_a_run_wakes_the_runs_that_wait_for_it(self, scene: Scene) -> None:
        turn = await scene.begin("p1")
        await scene.create("other")
        await turn.park(wait_run("other"))

        await scene.cancel("other")

        [outcome] = (await scene.claim_only("p1")).claimed.inbox.children
        assert (outcome.run_id, outcome.status) == ("other", RunStatus.CANCELLED)

    async def test_a_run_that_has_ended_keeps_one_that_waits_for_it_awake(self, scene: Scene) -> None:
        await (await scene.begin("other")).end(output=b"x")
        turn = await scene.begin("p1")

        assert (await turn.park(wait_run("other"))).is_awake
        [outcome] = (await scene.claim_only("p1")).claimed.inbox.children
        assert (outcome.run_id, outcome.output) == ("other", b"x")

    async def test_a_run_that_does_not_exist_has_failed_without_a_failure(self, scene: Scene) -> None:
        assert (await (await scene.begin("p1")).park(wait_run("nobody"))).is_awake

        inbox = (await scene.claim_only("p1")).claimed.inbox
        assert inbox.children == (ChildOutcome(FIRST, RunId("nobody"), RunStatus.FAILED, None, None),)

    @pytest.mark.parametrize("is_before", [True, False])
    async def test_a_wait_for_a_run_follows_the_runs_that_continue_it(self, scene: Scene, is_before: bool) -> None:
        other = await scene.begin("other")
        if is_before:
            await (await scene.begin("p1")).park(wait_run("other"))
        await other.commit(move=End(RunStatus.CONTINUED, successor=new_run("next")))
        following = await scene.claim_only("next")
        if not is_before:
            await (await scene.begin("p1")).park(wait_run("other"))
        assert (await scene.run("p1")).wake_at is None

        await following.end(output=b"x")

        [outcome] = (await scene.claim_only("p1")).claimed.inbox.children
        assert (outcome.run_id, outcome.output) == ("next", b"x")

    async def test_outcomes_of_spawned_children_arrive_ahead(self, scene: Scene) -> None:
        parent = await scene.begin("p1")
        ends = [RunStatus.COMPLETED, RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.COMPLETED]
        for number, status in enumerate(ends):
            child = await scene.begin_child(parent, f"c{number}", place(number), detached=number != 3)
            await child.end(status, output=b"x", failure=b"y")

        await parent.park(wait_child(FIRST))

        # Not the outcome of a child that an operator may reopen, or that nobody has spawned.
        inbox = (await scene.claim_only("p1")).claimed.inbox
        assert [one.run_id for one in inbox.children] == ["c0", "c1"]

    async def test_a_compensating_parent_is_woken_too(self, scene: Scene) -> None:
        parent = await scene.begin("p1")
        child = await scene.begin_child(parent, "c1")
        await parent.roll_back()
        await parent.park(wait_child(FIRST))

        await child.end()

        run = await scene.run("p1")
        assert (run.status, run.wake_at) == (RunStatus.COMPENSATING, scene.clock.now())

    async def test_a_paused_or_owned_parent_is_not_changed(self, scene: Scene) -> None:
        parent = await scene.begin("p1")
        child = await scene.begin_child(parent, "c1")
        other = await scene.begin_child(parent, "c2", place(1))
        await parent.commit(waits=(wait_child(FIRST), wait_child(place(1))))

        before = await scene.run("p1")
        await child.end()
        assert await scene.run("p1") == before
        await parent.commit(move=Pause(b"x"))
        before = await scene.run("p1")
        await other.end()
        assert await scene.run("p1") == before


class TrimmedChildSuite(StoreCase):
    """A trim cancels the attached active children that were started in its range."""

    async def test_a_trim_cancels_attached_active_children_in_its_range(self, scene: Scene) -> None:
        parent = await scene.begin("p1")
        loop = FIRST
        await scene.begin_child(parent, "owned", iteration(loop, 1))
        waiting = await scene.begin_child(parent, "waiting", iteration(loop, 2))
        await scene.begin_child(waiting, "below", FIRST)
        await waiting.park(wait_child(FIRST))
        done = await scene.begin_child(parent, "done", iteration(loop, 2))
        await done.end()
        await scene.begin_child(parent, "detached", iteration(loop, 2), detached=True)
        await scene.begin_child(parent, "outside", iteration(loop, 3))
        revision = (await scene.run("p1")).revision

        assert (await parent.commit(trims=(iterations(loop, 0, 3),))).revision == revision + 1

        statuses = {
            run: await scene.status(run) for run in ("owned", "waiting", "below", "done", "detached", "outside")
        }
        assert statuses == {
            "owned": RunStatus.CANCELLING,
            "waiting": RunStatus.CANCELLED,
            "below": RunStatus.CANCELLING,
            "done": RunStatus.COMPLETED,
            "detached": RunStatus.RUNNING,
            "outside": RunStatus.RUNNING,
        }

    async def test_a_fenced_trim_cancels_no_child(self, scene: Scene) -> None:
        parent = await scene.begin("p1")
        await scene.begin_child(parent, "c1")
        before = await snapshot(scene.store)

        late = parent.next(trims=((place(0), place(1)),))._replace(number=9)

        assert (await parent.send(late)).verdict is Verdict.FENCED
        assert await snapshot(scene.store) == before

    async def test_a_commit_may_trim_and_wait_for_something_else(self, scene: Scene) -> None:
        parent = await scene.begin("p1")
        child = await scene.begin_child(parent, "c1")
        await child.park(wait_signal())

        parked = await parent.commit(trims=((place(0), place(1)),), waits=(wait_signal(),), move=Park(None))

        assert not parked.is_awake
        assert await scene.status("c1") is RunStatus.CANCELLED
        assert (await scene.run("p1")).wake_at is None
