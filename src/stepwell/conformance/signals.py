"""Delivering signals: none lost, none duplicated, in order."""

from __future__ import annotations

from stepwell.clock import Instant
from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import Scene, new_run, new_signal, place, wait_signal
from stepwell.conformance.snapshot import snapshot
from stepwell.ids import RunId, SignalId
from stepwell.model.commits import Applied, End, Verdict
from stepwell.model.signals import Delivered, Delivery, Question
from stepwell.model.states import RunStatus

_R1 = RunId("r1")


class SignalSuite(StoreCase):
    """`deliver`, the mailbox, and consuming from it."""

    async def test_a_signal_is_stored_with_its_time_and_bytes(self, scene: Scene) -> None:
        await scene.create("r1")
        scene.clock.advance(1)

        delivered = await scene.send("s1", "r1", "näme", payload=bytes(range(256)))

        assert delivered == Delivered(Delivery.DELIVERED, _R1)
        [signal] = (await scene.store.runs.inbox(_R1)).signals
        assert (signal.name, signal.payload, signal.sent_at) == ("näme", bytes(range(256)), scene.clock.now())

    async def test_a_key_finds_its_active_run(self, scene: Scene) -> None:
        await (await scene.begin("r0", key="k")).end()
        await scene.create("r1", key="k")

        assert await scene.send("s1", "k") == Delivered(Delivery.DELIVERED, _R1)
        assert await scene.mail("r1") == ["s1"]

    async def test_a_run_id_is_tried_before_a_key(self, scene: Scene) -> None:
        await scene.create("r1")
        await scene.create("r2", key="r1")

        assert (await scene.send("s1", "r1")).run_id == "r1"

    async def test_a_signal_without_a_run_is_missing_and_not_stored(self, scene: Scene) -> None:
        await (await scene.begin("r1", key="k")).end()
        before = await snapshot(scene.store)

        for target in ("r1", "k", "unknown"):
            assert await scene.send(f"to-{target}", target) == Delivered(Delivery.MISSING)
        assert await snapshot(scene.store) == before

    async def test_a_signal_to_the_id_of_an_ended_run_is_missing_and_not_held(self, scene: Scene) -> None:
        await (await scene.begin("r1", key="k")).end()

        assert await scene.send("s1", "r1", hold=True) == Delivered(Delivery.MISSING)
        assert await scene.store.views.list_held(limit=9) == []

    async def test_order_is_the_order_of_delivery(self, scene: Scene, elsewhere: Scene) -> None:
        await scene.create("r1")
        await scene.send("s1", "r1")
        await elsewhere.send("s2", "r1")
        await scene.store.signals.deliver([new_signal("s4", "r1", "b"), new_signal("s3", "r1", "a")])

        signals = (await elsewhere.store.runs.inbox(_R1)).signals
        assert [signal.payload for signal in signals] == [b"s1", b"s2", b"s4", b"s3"]
        numbers = [signal.number for signal in signals]
        assert numbers == sorted(set(numbers))

    async def test_a_reserved_name_reaches_only_a_wait_that_names_it(self, scene: Scene) -> None:
        for run_id, wait in (("r1", wait_signal()), ("r2", wait_signal("~mine")), ("r3", wait_signal("~other"))):
            await scene.waiting(run_id, wait)

        sent = [await scene.send(f"to {run_id}", run_id, "~mine") for run_id in ("r1", "r2", "r3")]

        assert [delivered.woke for delivered in sent] == [False, True, False]
        await scene.claim_only("r2")
        turn = await scene.begin("r4")
        await scene.send("to r4", "r4", "~mine")
        assert not (await turn.park(wait_signal(), wait_signal("a", at=place(1)))).is_awake
        assert (await scene.run("r4")).wake_at is None

    async def test_a_known_signal_id_is_a_duplicate(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await scene.create("r2")
        await scene.send("s1", "r1")
        before = await snapshot(scene.store)

        assert await scene.send("s1", "r1") == Delivered(Delivery.DUPLICATE, _R1)
        assert (await scene.send("s1", "r2")).delivery is Delivery.DUPLICATE
        assert await snapshot(scene.store) == before

        [signal] = (await scene.store.runs.inbox(_R1)).signals
        await turn.commit(consumed=(signal.number,))
        assert (await scene.send("s1", "r1")).delivery is Delivery.DUPLICATE
        assert await scene.mail("r1") == []

    async def test_a_dedup_key_counts_per_run_and_name_also_after_it_is_consumed(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await scene.create("r2")
        await scene.send("s1", "r1", "a", dedup_key="d")

        assert await scene.send("s2", "r1", "a", dedup_key="d") == Delivered(Delivery.DUPLICATE, _R1)
        assert (await scene.send("s3", "r1", "b", dedup_key="d")).delivery is Delivery.DELIVERED
        assert (await scene.send("s4", "r2", "a", dedup_key="d")).delivery is Delivery.DELIVERED
        assert (await scene.send("s5", "r1", "a")).delivery is Delivery.DELIVERED

        [first, *_] = (await scene.store.runs.inbox(_R1)).signals
        await turn.commit(consumed=(first.number,))
        assert (await scene.send("s6", "r1", "a", dedup_key="d")).delivery is Delivery.DUPLICATE
        assert await scene.mail("r1") == ["s3", "s5"]

    async def test_a_consumed_signal_is_gone_and_the_rest_stays_in_order(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await scene.store.signals.deliver([new_signal(f"s{n}", "r1") for n in range(1, 5)])
        signals = (await scene.store.runs.inbox(_R1)).signals

        await turn.commit(consumed=(signals[2].number, signals[0].number))

        assert await scene.mail("r1") == ["s2", "s4"]

    async def test_delivering_no_signals_does_nothing(self, scene: Scene) -> None:
        assert await scene.store.signals.deliver([]) == ([], [])


class HoldSuite(StoreCase):
    """Signals for a key without a run, and signals over a chain of runs."""

    async def test_a_held_signal_waits_for_the_run_with_its_key(self, scene: Scene) -> None:
        assert await scene.send("s2", "k", hold=True) == Delivered(Delivery.HELD)
        scene.clock.advance(1)
        await scene.store.signals.deliver([new_signal("s1", "k", hold=True), new_signal("s3", "other", hold=True)])

        held = await scene.store.views.list_held(limit=9)
        assert [(one.key, one.signal.payload) for one in held] == [("k", b"s2"), ("k", b"s1"), ("other", b"s3")]
        turn = await scene.begin("r1", key="k")

        assert [signal.payload for signal in turn.claimed.inbox.signals] == [b"s2", b"s1"]
        assert [one.key for one in await scene.store.views.list_held(limit=9)] == ["other"]
        await scene.send("s4", "k", hold=True)
        assert await scene.mail("r1") == ["s2", "s1", "s4"]
        assert (await scene.store.runs.inbox(_R1)).signals[0].sent_at == Instant(scene.clock.now() - 1_000_000)

    async def test_held_signals_have_no_duplicates_either(self, scene: Scene) -> None:
        await scene.send("s1", "k", "a", dedup_key="d", hold=True)

        assert (await scene.send("s1", "k", "a", hold=True)).delivery is Delivery.DUPLICATE
        assert (await scene.send("s2", "k", "a", dedup_key="d", hold=True)).delivery is Delivery.DUPLICATE
        assert (await scene.send("s3", "k2", "a", dedup_key="d", hold=True)).delivery is Delivery.HELD
        await scene.create("r1", key="k")
        assert (await scene.send("s1", "r1", "a")).delivery is Delivery.DUPLICATE
        assert (await scene.send("s4", "k", "a", dedup_key="d")).delivery is Delivery.DUPLICATE
        assert await scene.mail("r1") == ["s1"]

    async def test_a_held_signal_that_its_run_knows_already_counts_as_read_by_it(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k")
        await scene.send("s1", "k", dedup_key="d")
        await turn.end(RunStatus.FAILED)
        await scene.send("s2", "k", dedup_key="d", hold=True, asks=True)

        await scene.store.runs.retry(_R1, by="ann")

        assert await scene.mail("r1") == ["s1"]
        assert await scene.store.views.list_held(limit=9) == []
        assert await scene.send("s2", "elsewhere") == Delivered(Delivery.DUPLICATE, _R1)
        assert await scene.store.views.find_question(SignalId("s2")) == Question(_R1, RunStatus.PENDING, True, None)

    async def test_a_start_that_meets_an_active_run_takes_nothing_over(self, scene: Scene) -> None:
        await scene.create("r1", key="k")
        await scene.send("s1", "other", hold=True)

        await scene.create("r2", key="k")

        assert await scene.mail("r1") == []
        assert len(await scene.store.views.list_held(limit=9)) == 1

    async def test_a_continued_run_passes_signals_on_to_its_successor(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k")
        for successor in ("r2", "r3"):
            await turn.commit(move=End(RunStatus.CONTINUED, successor=new_run(successor)))
            turn = await scene.claim_only(successor)

        assert await scene.send("s1", "r1") == Delivered(Delivery.DELIVERED, RunId("r3"))
        assert await scene.send("s2", "k") == Delivered(Delivery.DELIVERED, RunId("r3"))
        await turn.end()
        assert await scene.send("s3", "r1") == Delivered(Delivery.MISSING)

    async def test_unconsumed_signals_move_to_the_successor(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await scene.store.signals.deliver([new_signal(f"s{n}", "r1", dedup_key=f"d{n}") for n in (1, 2, 3)])
        [_, second, _] = (await scene.store.runs.inbox(_R1)).signals

        await turn.commit(consumed=(second.number,), move=End(RunStatus.CONTINUED, successor=new_run("r2")))

        assert await scene.mail("r1") == []
        assert await scene.mail("r2") == ["s1", "s3"]
        assert (await scene.send("s1", "r1")).delivery is Delivery.DUPLICATE
        assert (await scene.send("s9", "r2", dedup_key="d3")).delivery is Delivery.DUPLICATE

    async def test_a_run_that_must_read_everything_does_not_end_with_unread_signals(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await scene.store.signals.deliver([new_signal(f"s{n}", "r1") for n in (1, 2)])
        first, second = [one.number for one in (await scene.store.runs.inbox(_R1)).signals]

        assert await turn.end(unread_above=0) == Applied(Verdict.UNREAD)
        assert await turn.end(unread_above=first) == Applied(Verdict.UNREAD)
        assert (await scene.run("r1")).status is RunStatus.RUNNING
        both = await turn.commit(consumed=(first, second), move=End(RunStatus.COMPLETED, unread_above=0))
        assert both.verdict is Verdict.APPLIED

    async def test_what_a_run_had_from_the_beginning_counts_only_if_it_has_received_some(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await scene.store.signals.deliver([new_signal(f"s{n}", "r1") for n in (1, 2, 3)])
        scene.clock.advance(1)
        await turn.commit(move=End(RunStatus.CONTINUED, successor=new_run("r2")))
        turn = await scene.claim_only("r2")
        first, *_ = [one.number for one in (await scene.store.runs.inbox(RunId("r2"))).signals]
        assert (await turn.commit(consumed=(first,))).verdict is Verdict.APPLIED

        assert await turn.end(unread_above=0) == Applied(Verdict.UNREAD)
        scene.clock.advance(1)
        await turn.commit(move=End(RunStatus.CONTINUED, successor=new_run("r3")))
        turn = await scene.claim_only("r3")
        assert (await turn.end(unread_above=0)).verdict is Verdict.APPLIED
        assert len(await scene.store.views.list_unread(limit=9)) == 2

    async def test_a_signal_that_came_after_the_beginning_counts(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(move=End(RunStatus.CONTINUED, successor=new_run("r2")))
        turn = await scene.claim_only("r2")
        scene.clock.advance(1)
        await scene.send("s1", "r2")

        assert await turn.end(unread_above=0) == Applied(Verdict.UNREAD)

    async def test_a_full_mailbox_takes_no_signal_but_knows_the_ones_it_has(self, scene: Scene) -> None:
        await scene.begin("r1", key="k")
        for n, target in enumerate(("r1", "k", "r1"), 1):
            delivered = await scene.send(f"s{n}", target, dedup_key=f"d{n}", pending_max=3)
            assert delivered == Delivered(Delivery.DELIVERED, _R1, pending=n)

        assert await scene.send("s4", "k", pending_max=3) == Delivered(Delivery.FULL, _R1, pending=3)
        assert (await scene.send("s1", "r1", pending_max=3)).delivery is Delivery.DUPLICATE
        assert (await scene.send("s9", "r1", dedup_key="d2", pending_max=3)).delivery is Delivery.DUPLICATE
        assert await scene.send("s5", "r1") == Delivered(Delivery.DELIVERED, _R1)

    async def test_a_key_holds_no_more_signals_than_its_run_may_have(self, scene: Scene) -> None:
        held = [await scene.send(f"s{n}", "k", hold=True, pending_max=2) for n in (1, 2, 3)]

        assert held == [
            Delivered(Delivery.HELD, pending=1),
            Delivered(Delivery.HELD, pending=2),
            Delivered(Delivery.FULL, pending=2),
        ]
        made, delivered, claimed = await scene.store.signals.deliver_or_create(
            new_signal("s4", "k", pending_max=2), new_run("r1", key="k")
        )
        assert (made.is_new, delivered, claimed) == (False, Delivered(Delivery.FULL, pending=2), [])
        assert await scene.store.views.find("k") is None

    async def test_pending_signals_of_an_ended_run_stay_visible(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await scene.send("s1", "r1")
        await turn.end()

        detail = await scene.store.views.detail(_R1)

        assert detail is not None
        assert [signal.payload for signal in detail.signals] == [b"s1"]
