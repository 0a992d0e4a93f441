"""Creating and claiming runs."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.clock import Instant, Span
from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import FIRST, FLOW, Scene, child_of, new_event, new_run, new_signal
from stepwell.conformance.snapshot import snapshot
from stepwell.errors import LeaseLostError
from stepwell.ids import Incarnation, RunId
from stepwell.model.runs import Created, History, Inbox, Run, normal_key
from stepwell.model.states import RunStatus
from stepwell.model.workers import Claimant

_MINUTE = Span(60_000_000)


class RunSuite(StoreCase):
    """`create`, `claim` and `load`."""

    async def test_a_new_run_is_pending_and_due_now(self, scene: Scene) -> None:
        created = await scene.create("r1", key="k", input=b"\x00\xffbytes")

        now = scene.clock.now()
        assert created == Created(RunId("r1"), is_new=True)
        assert await scene.run("r1") == Run(
            RunId("r1"), "flow", 1, RunStatus.PENDING, "k", 0, None, 0, 0, now, None, None, now, b"\x00\xffbytes"
        )

    async def test_a_delayed_run_is_due_later_and_never_claimed_early(self, scene: Scene) -> None:
        await scene.create("r1", delay=_MINUTE)
        due = Instant(scene.clock.now() + _MINUTE)
        assert (await scene.run("r1")).wake_at == due

        scene.clock.advance("9s")
        assert await scene.claim() == []
        await scene.store.workers.renew(scene.incarnation, _MINUTE)
        scene.clock.advance("50s")
        scene.clock.advance("999999us")
        assert await scene.claim() == []
        scene.clock.advance("1us")
        await scene.claim_only("r1")

    async def test_repeating_a_start_with_its_own_id_changes_nothing(self, scene: Scene) -> None:
        await scene.create("r1", key="k")
        before = await snapshot(scene.store)
        scene.clock.advance(1)

        assert await scene.create("r1", key="k") == Created(RunId("r1"), is_new=True)
        assert await snapshot(scene.store) == before

    async def test_repeating_a_start_is_known_by_its_id_also_after_the_run_ended(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k")
        await turn.end()
        before = await snapshot(scene.store)

        assert await scene.create("r1", key="k") == Created(RunId("r1"), is_new=True)
        assert await snapshot(scene.store) == before

    async def test_a_taken_id_of_a_caller_is_rejected(self, scene: Scene) -> None:
        await scene.create("r1")
        before = await snapshot(scene.store)

        same = await scene.create("r1", own_id=False)
        differs = await scene.create("r1", own_id=False, input=b"other")

        assert same == Created(RunId("r1"), is_new=False, is_duplicate_id=True)
        assert differs == Created(RunId("r1"), is_new=False, same_input=False, is_duplicate_id=True)
        assert await snapshot(scene.store) == before

    async def test_of_many_with_a_taken_id_none_is_started(self, scene: Scene) -> None:
        await scene.create("r1")
        before = await snapshot(scene.store)
        plain, keyed, taken = new_run("r2"), new_run("r3", key="k"), new_run("r1")._replace(own_id=False)

        for claimant in (None, scene.claimant()):
            for runs in ([plain, taken], [taken, keyed], [keyed, plain._replace(own_id=False), taken]):
                created = await scene.store.runs.create(runs, claimant)
                assert [one.is_duplicate_id for one in created] == [run.run_id == "r1" for run in runs]
                assert [one.run_id for one in created] == [run.run_id for run in runs]
                assert not any(one.is_new or one.claimed for one in created)

        assert await snapshot(scene.store) == before

    async def test_of_many_with_one_id_twice_none_is_started(self, scene: Scene) -> None:
        before = await snapshot(scene.store)
        first, other = (new_run("r1", input=value)._replace(own_id=False) for value in (b"1", b"2"))

        created = await scene.store.runs.create([first, other])

        assert created == [Created(RunId("r1"), False), Created(RunId("r1"), False, False, is_duplicate_id=True)]
        assert await snapshot(scene.store) == before

    async def test_an_active_run_is_returned_for_its_key(self, scene: Scene) -> None:
        await scene.create("r1", key="k")
        before = await snapshot(scene.store)

        assert await scene.create("r2", key="k") == Created(RunId("r1"), is_new=False)
        assert await scene.create("r3", key="k", input=b"other") == Created(RunId("r1"), is_new=False, same_input=False)
        assert await snapshot(scene.store) == before

    async def test_keys_are_compared_in_normal_form(self, scene: Scene) -> None:
        await scene.create("r1", key=normal_key(" Straße-É "))

        again = await scene.create("r2", key=normal_key("STRASSE-E\u0301"))

        assert again == Created(RunId("r1"), is_new=False)

    async def test_runs_without_a_key_never_conflict(self, scene: Scene) -> None:
        assert (await scene.create("r1")).is_new
        assert await scene.create("r2") == Created(RunId("r2"), is_new=True)

    async def test_an_ended_run_frees_its_key(self, scene: Scene) -> None:
        await (await scene.begin("r1", key="k")).end()

        assert await scene.create("r2", key="k") == Created(RunId("r2"), is_new=True)

    async def test_an_ended_run_is_returned_within_the_dedup_window(self, scene: Scene) -> None:
        await (await scene.begin("r1", key="k")).end()
        scene.clock.advance("59s")

        assert await scene.create("r2", key="k", dedup=_MINUTE) == Created(RunId("r1"), is_new=False)
        scene.clock.advance("1s")
        assert await scene.create("r3", key="k", dedup=_MINUTE) == Created(RunId("r3"), is_new=True)

    async def test_the_run_that_ended_last_is_returned_within_the_dedup_window(self, scene: Scene) -> None:
        await (await scene.begin("r2", key="k")).end()
        scene.clock.advance(1)
        await (await scene.begin("r1", key="k")).end(RunStatus.FAILED)
        scene.clock.advance(1)

        assert (await scene.create("r3", key="k", dedup=_MINUTE)).run_id == "r1"

    async def test_a_batch_is_created_in_order_and_collapses_on_keys(self, scene: Scene) -> None:
        created = await scene.store.runs.create(
            [new_run("r1", key="k"), new_run("r2"), new_run("r3", key="k", input=b"other"), new_run("r2")]
        )

        assert created == [
            Created(RunId("r1"), is_new=True),
            Created(RunId("r2"), is_new=True),
            Created(RunId("r1"), is_new=False, same_input=False),
            Created(RunId("r2"), is_new=True),
        ]
        assert await scene.store.views.find("r3") is None

    async def test_large_batches_and_inputs_are_stored(self, scene: Scene) -> None:
        ids = [RunId(f"r{n:04}") for n in range(2_500)]
        big = bytes(range(256)) * 4_096

        await scene.store.runs.create([new_run(run_id, input=big if n == 7 else b"") for n, run_id in enumerate(ids)])

        found = await scene.store.views.find_many(ids)
        assert [run and run.run_id for run in found] == ids
        assert (await scene.run("r0007")).input == big
        assert len(await scene.store.runs.load(ids)) == len(ids)
        assert len(await scene.claim(limit=2_000)) == 2_000
        assert len(await scene.store.runs.relinquish(scene.incarnation, ids[100:])) == 100

    async def test_creating_no_runs_does_nothing(self, scene: Scene) -> None:
        assert await scene.store.runs.create([]) == []

    async def test_a_new_run_is_claimed_with_its_creation(self, scene: Scene) -> None:
        [created] = await scene.store.runs.create([new_run("r1")], scene.claimant())

        now = scene.clock.now()
        assert created.claimed is not None
        assert created.claimed.run == await scene.run("r1")
        assert created.claimed.is_fresh
        run = created.claimed.run
        assert (run.status, run.epoch, run.owner, run.wake_at, run.started_at) == (
            RunStatus.RUNNING,
            1,
            scene.incarnation,
            None,
            now,
        )

    async def test_claiming_with_creation_respects_limit_delay_and_definition(self, scene: Scene) -> None:
        created = await scene.store.runs.create(
            [new_run("r1", delay=_MINUTE), new_run("r2", version=2), new_run("r3"), new_run("r4")],
            scene.claimant(limit=1),
        )

        assert [one.run_id for one in created if one.claimed] == ["r3"]
        assert [await scene.status(run) for run in ("r1", "r2", "r4")] == [RunStatus.PENDING] * 3

    async def test_a_delayed_run_with_a_passed_deadline_is_not_claimed_with_its_creation(self, scene: Scene) -> None:
        late: dict[str, Any] = {"delay": Span(1), "deadline_at": scene.clock.now()}
        turn = await scene.begin("r1")

        [created] = await scene.store.runs.create([new_run("r2", **late)], scene.claimant())
        applied = await turn.commit(children=(child_of("r1", "r3", FIRST, **late),), claimant=scene.claimant())
        published, claimed = await scene.store.events.publish(
            [new_event("e1", starts=(new_run("r4", **late),))], scene.claimant()
        )

        assert (created.claimed, applied.claimed, claimed) == (None, (), [])
        assert published[0].started == ("r4",)
        assert [turn.run_id for turn in await scene.claim()] == ["r2", "r3", "r4"]

    async def test_creating_for_a_dead_or_unknown_worker_claims_nothing(self, scene: Scene) -> None:
        scene.clock.advance(10)

        created = await scene.store.runs.create([new_run("r1")], scene.claimant())
        unknown = await scene.store.runs.create([new_run("r2")], scene.claimant("unknown"))

        assert created == [Created(RunId("r1"), is_new=True)]
        assert unknown == [Created(RunId("r2"), is_new=True)]

    async def test_an_existing_run_is_not_claimed_by_a_start(self, scene: Scene) -> None:
        await scene.create("r1", key="k")

        created = await scene.store.runs.create([new_run("r1"), new_run("r2", key="k")], scene.claimant())

        assert [one.claimed for one in created] == [None, None]
        assert await scene.status("r1") is RunStatus.PENDING


class ClaimSuite(StoreCase):
    """`claim`, and what it returns."""

    async def test_a_claim_owns_the_run_under_a_new_epoch(self, scene: Scene) -> None:
        await scene.create("r1")
        scene.clock.advance(1)

        turn = await scene.claim_only("r1")

        run = turn.claimed.run
        assert run == await scene.run("r1")
        assert (run.status, run.owner, run.epoch, run.wake_at) == (RunStatus.RUNNING, scene.incarnation, 1, None)
        assert run.started_at == scene.clock.now()
        assert turn.claimed.is_fresh
        assert await scene.claim() == []

    async def test_the_epoch_grows_with_every_claim_and_the_first_start_stays(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        started = turn.claimed.run.started_at
        for epoch in (2, 3, 4):
            scene.clock.advance(1)
            await turn.park(wake_at=scene.clock.now())
            turn = await scene.claim_only("r1")
            assert (turn.fence.epoch, turn.claimed.run.started_at) == (epoch, started)
        assert not turn.claimed.is_fresh

    async def test_the_longest_due_are_claimed_first_up_to_the_limit(self, scene: Scene) -> None:
        for run_id, delay in (("r1", 3), ("r2", 1), ("r3", 2), ("r4", 9)):
            await scene.create(run_id, delay=Span(delay * 1_000_000))
        scene.clock.advance(4)

        assert [turn.run_id for turn in await scene.claim(limit=2)] == ["r2", "r3"]
        assert [turn.run_id for turn in await scene.claim(limit=2)] == ["r1"]
        assert await scene.claim(limit=2) == []
        assert await scene.claim(limit=0) == []

    async def test_only_served_definitions_are_claimed(self, scene: Scene) -> None:
        await scene.create("r1", version=2)
        await scene.create("r2", workflow="elsewhere")
        await scene.create("r3")

        async def claim(*definitions: str) -> list[str]:
            claimant = Claimant(scene.incarnation, 9, definitions)
            return [one.run.run_id for one in await scene.store.runs.claim(claimant)]

        assert await claim() == []
        assert await claim("flow@1", "flow@3") == ["r3"]
        assert sorted(await claim("flow@2", "elsewhere@1")) == ["r1", "r2"]

    async def test_the_longest_due_comes_first_whatever_its_definition(self, scene: Scene) -> None:
        for run_id, delay, version in (("r1", 3, 1), ("r2", 1, 2), ("r3", 2, 1), ("r4", 4, 2)):
            await scene.create(run_id, delay=Span(delay), version=version)
        scene.clock.advance(1)

        claimed = await scene.store.runs.claim(Claimant(scene.incarnation, 3, ("flow@1", "flow@2")))

        assert [one.run.run_id for one in claimed] == ["r2", "r3", "r1"]

    async def test_a_claim_without_a_live_lease_is_rejected(self, scene: Scene) -> None:
        await scene.create("r1")
        before = await snapshot(scene.store)

        with pytest.raises(LeaseLostError):
            await scene.claim("unknown")
        scene.clock.advance(10)
        with pytest.raises(LeaseLostError):
            await scene.claim()

        assert await snapshot(scene.store) == before

    async def test_a_claim_hands_over_the_inbox(self, scene: Scene) -> None:
        await scene.create("r1")
        await scene.store.signals.deliver([new_signal("s1", "r1", "a"), new_signal("s2", "r1", "b")])

        turn = await scene.claim_only("r1")

        assert [(one.name, one.payload) for one in turn.claimed.inbox.signals] == [("a", b"s1"), ("b", b"s2")]

    async def test_claims_keep_cancelling_and_compensating(self, scene: Scene) -> None:
        compensating = await scene.begin("r1")
        await compensating.roll_back()
        cancelling = await scene.begin("r2")
        await scene.store.runs.cancel(RunId("r2"), compensate=True, reason="")
        await scene.store.runs.relinquish(scene.incarnation, ())

        turns = {turn.run_id: turn.claimed.run for turn in await scene.claim()}

        assert turns[compensating.run_id].status is RunStatus.COMPENSATING
        assert turns[cancelling.run_id].status is RunStatus.CANCELLING
        assert {run.epoch for run in turns.values()} == {2}

    async def test_loading_answers_each_id_in_order(self, scene: Scene) -> None:
        await (await scene.begin("r1")).record("a")
        await (await scene.begin("r2")).record("b")

        loaded = await scene.store.runs.load([RunId("r2"), RunId("unknown"), RunId("r1")])

        assert [history.names for history in loaded] == [("b",), (), ("a",)]
        assert loaded[1] == History()
        assert await scene.store.runs.inbox(RunId("unknown")) == Inbox()

    async def test_another_process_sees_and_claims_what_this_one_created(self, scene: Scene, elsewhere: Scene) -> None:
        await elsewhere.register()
        await scene.create("r1")

        turn = await elsewhere.claim_only("r1")

        assert turn.fence.incarnation == Incarnation("w2")
        assert await scene.run("r1") == turn.claimed.run
        assert turn.claimed.run.definition == FLOW
