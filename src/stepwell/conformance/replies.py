"""Signals that no run reads, that a run refuses, that ask for a reply, and that start their run."""

from __future__ import annotations

import asyncio

import pytest

from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import Scene, new_run, new_signal, wait_signal
from stepwell.conformance.snapshot import snapshot
from stepwell.ids import RunId, SignalId
from stepwell.model.commits import End, Park
from stepwell.model.signals import Delivered, Delivery, Question, Redelivery, Refusal, Reply, ReplyStatus
from stepwell.model.states import RunStatus
from stepwell.stores.base.wakeups import Hint, HintKind

_R1, _R2 = RunId("r1"), RunId("r2")
_GIVEN, _REFUSED = ReplyStatus.GIVEN, ReplyStatus.REFUSED
_DELIVERED, _DUPLICATE, _MISSING = Delivery.DELIVERED, Delivery.DUPLICATE, Delivery.MISSING


class AnswerSuite(StoreCase):
    """Signals that ask, their replies, and signals that a run refuses."""

    async def test_a_signal_that_asks_shows_its_id_to_the_run(self, scene: Scene) -> None:
        await scene.create("r1")
        await scene.send("s1", "r1")
        await scene.send("s2", "r1", asks=True)

        plain, asking = (await scene.store.runs.inbox(_R1)).signals
        assert (plain.ask_id, asking.ask_id) == (None, "s2")

    async def test_a_reply_is_stored_with_its_commit(self, scene: Scene, elsewhere: Scene) -> None:
        turn = await scene.begin("r1")
        find = elsewhere.store.views.find_question
        assert await find(SignalId("s1")) is None
        await scene.send("s1", "r1", asks=True)
        assert await find(SignalId("s1")) == Question(_R1, RunStatus.RUNNING, False, None)
        [signal] = (await scene.store.runs.inbox(_R1)).signals
        await turn.commit(consumed=(signal.number,))
        assert await find(SignalId("s1")) == Question(_R1, RunStatus.RUNNING, True, None)
        heard: list[Hint] = []
        unlisten = scene.store.wakeups.listen(heard.append)

        reply, late = Reply(signal.number, _GIVEN, b"yes"), Reply(signal.number, _REFUSED, b"no")
        await turn.commit(replies=(reply,))
        assert any(hint.kind is HintKind.REPLIED and _R1 in hint.runs for hint in heard)
        unlisten()
        await turn.commit(replies=(late,))
        await turn.end()

        assert await find(SignalId("s1")) == Question(_R1, RunStatus.COMPLETED, True, reply)

    async def test_a_held_question_has_no_run_yet(self, scene: Scene) -> None:
        await scene.send("s1", "k", asks=True, hold=True)

        assert await scene.store.views.find_question(SignalId("s1")) == Question(None, None, False, None)
        [held] = await scene.store.views.list_held(limit=9, key="k")
        assert held.signal.ask_id == "s1"
        assert await scene.store.views.list_held(limit=9, key="other") == []

    async def test_a_refused_signal_is_no_longer_pending_and_still_there(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await scene.send("s1", "r1", dedup_key="d")
        await scene.send("s2", "r1")
        first, _ = (await scene.store.runs.inbox(_R1)).signals

        await turn.commit(refused=(Refusal(first.number, "no"),))

        assert await scene.mail("r1") == ["s2"]
        [unread] = await scene.store.views.list_unread(limit=9)
        assert (unread.run_id, unread.reason, unread.signal) == (_R1, "no", first)
        assert (await scene.send("s3", "r1", dedup_key="d")).delivery is _DUPLICATE
        assert (await turn.park(wait_signal("other"))).is_awake is False
        assert await scene.store.views.list_unread(limit=9, run_id=_R2) == []

    async def test_a_refused_signal_does_not_wake_its_run_nor_move_on_with_it(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await scene.send("s1", "r1")
        [signal] = (await scene.store.runs.inbox(_R1)).signals

        parked = await turn.commit(refused=(Refusal(signal.number, "no"),), waits=(wait_signal("go"),), move=Park(None))
        assert parked.is_awake is False
        await scene.send("s2", "r1")
        again = await scene.claim_only("r1")
        await again.commit(move=End(RunStatus.CONTINUED, successor=new_run("r2")))

        assert await scene.mail("r2") == ["s2"]
        assert [one.run_id for one in await scene.store.views.list_unread(limit=9)] == [_R1]

    async def test_only_a_pending_signal_can_be_refused(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await scene.send("s1", "r1")
        [signal] = (await scene.store.runs.inbox(_R1)).signals
        await turn.commit(consumed=(signal.number,))
        before = await snapshot(scene.store)

        with pytest.raises(ValueError, match="no pending signal"):
            await turn.commit(refused=(Refusal(signal.number, "no"),))
        assert await snapshot(scene.store) == before

    async def test_a_refused_signal_cannot_be_consumed(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await scene.send("s1", "r1")
        [signal] = (await scene.store.runs.inbox(_R1)).signals
        await turn.commit(refused=(Refusal(signal.number, "no"),))
        before = await snapshot(scene.store)

        with pytest.raises(ValueError, match="no pending signal"):
            await turn.commit(consumed=(signal.number,))
        assert await snapshot(scene.store) == before

    @pytest.mark.parametrize("discards", [True, False])
    async def test_unread_signals_are_kept_or_discarded_at_the_end(self, scene: Scene, discards: bool) -> None:
        turn = await scene.begin("r1", discards=discards)
        await scene.send("s1", "r1")
        await scene.send("s2", "r1")
        first, _ = (await scene.store.runs.inbox(_R1)).signals

        await turn.commit(refused=(Refusal(first.number, "no"),))
        assert len(await scene.store.views.list_unread(limit=9)) == 1
        await turn.end()

        left = [one.signal.payload for one in await scene.store.views.list_unread(limit=9, run_id=_R1)]
        assert left == ([b"s1"] if discards else [b"s1", b"s2"])
        assert len(await scene.store.views.list_unread(limit=1)) == 1
        assert (await scene.send("s2", "r1")).delivery is _DUPLICATE

    async def test_a_cancelled_run_discards_signals_and_a_failed_one_keeps_them(self, scene: Scene) -> None:
        for run_id in ("r1", "r2", "r3"):
            turn = await scene.begin(run_id, discards=True)
            await scene.send(f"s{run_id}", run_id)
            match run_id:
                case "r1":
                    await turn.park(wait_signal("other"))
                    await scene.cancel("r1")
                case "r2":
                    await turn.end(RunStatus.FAILED)
                case _:
                    await turn.commit(move=End(RunStatus.CONTINUED, successor=new_run("r4")))

        assert [one.run_id for one in await scene.store.views.list_unread(limit=9)] == [_R2]
        assert await scene.mail("r4") == ["sr3"]


class RedeliverySuite(StoreCase):
    """`redeliver`: signals that no run will read."""

    async def test_held_signals_go_to_another_run_in_order(self, scene: Scene) -> None:
        for name in ("s1", "s2", "s3"):
            await scene.send(name, "misspelt", hold=True)
        turn = await scene.begin("r1", key="k")
        await scene.send("s4", "k")
        [fourth] = (await scene.store.runs.inbox(_R1)).signals
        await turn.park(wait_signal("other"))
        held = await scene.store.views.list_held(limit=2)

        delivered, _ = await scene.store.signals.redeliver(
            [Redelivery(one.signal.number, "k", one.signal.payload + b"!") for one in held]
        )

        assert delivered == [Delivered(_DELIVERED, _R1)] * 2
        signals = (await scene.store.runs.inbox(_R1)).signals
        assert [one.payload for one in signals] == [b"s4", b"s1!", b"s2!"]
        # A running run has passed the numbers so far, so a redelivered signal gets a higher number.
        assert all(one.number > fourth.number for one in signals[1:])
        assert [one.signal.payload for one in await scene.store.views.list_held(limit=9)] == [b"s3"]

    async def test_a_redelivered_signal_wakes_its_run(self, scene: Scene) -> None:
        await scene.send("s1", "k", hold=True)
        turn = await scene.begin("r1")
        await turn.park(wait_signal("go"))
        [held] = await scene.store.views.list_held(limit=9)

        delivered, [claimed] = await scene.store.signals.redeliver(
            [Redelivery(held.signal.number, "r1", b"s1")], scene.claimant()
        )

        assert delivered == [Delivered(_DELIVERED, _R1, woke=True)]
        assert [one.payload for one in claimed.inbox.signals] == [b"s1"]

    async def test_unread_and_refused_signals_can_be_delivered_again(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await scene.send("s1", "r1")
        await scene.send("s2", "r1", dedup_key="d")
        _, second = (await scene.store.runs.inbox(_R1)).signals
        await turn.commit(refused=(Refusal(second.number, "no"),))
        again = [Redelivery(second.number, "r1", b"mended")]
        assert (await scene.store.signals.redeliver(again))[0] == [Delivered(_DELIVERED, _R1)]
        assert await scene.mail("r1") == ["s1", "mended"]
        await turn.end()
        await scene.create("r2")

        unread = await scene.store.views.list_unread(limit=9)
        letters = [Redelivery(one.signal.number, "r2", one.signal.payload) for one in unread]
        delivered, _ = await scene.store.signals.redeliver(letters)

        assert delivered == [Delivered(_DELIVERED, _R2)] * 2
        assert await scene.mail("r2") == ["s1", "mended"]
        assert await scene.store.views.list_unread(limit=9) == []
        assert (await scene.send("s9", "r2", dedup_key="d")).delivery is _DUPLICATE

    async def test_an_undeliverable_signal_stays_and_a_duplicate_is_dropped(self, scene: Scene) -> None:
        await scene.send("s1", "k", dedup_key="d", hold=True)
        await scene.create("r1")
        await scene.send("s2", "r1")
        [held] = await scene.store.views.list_held(limit=9)
        [pending] = (await scene.store.runs.inbox(_R1)).signals
        before = await snapshot(scene.store)

        letters = [Redelivery(held.signal.number, "unknown", b""), Redelivery(pending.number, "r1", b"")]
        delivered, _ = await scene.store.signals.redeliver([*letters, Redelivery(999, "r1", b"")])

        assert [one.delivery for one in delivered] == [_MISSING] * 3
        assert await snapshot(scene.store) == before
        await scene.send("s3", "r1", dedup_key="d")
        delivered, _ = await scene.store.signals.redeliver([Redelivery(held.signal.number, "r1", b"")])
        assert delivered == [Delivered(_DUPLICATE, _R1)]
        assert await scene.mail("r1") == ["s2", "s3"]
        assert await scene.store.views.list_held(limit=9) == []

    async def test_a_dropped_duplicate_belongs_to_the_run_that_knows_it(self, scene: Scene) -> None:
        await (await scene.begin("r0")).park(wait_signal("other"))
        await scene.send("s1", "k", dedup_key="d", hold=True, asks=True)
        await scene.send("s2", "r0", dedup_key="d", asks=True)
        await scene.cancel("r0")
        await scene.create("r1")
        await scene.send("s3", "r1", dedup_key="d")
        [held] = await scene.store.views.list_held(limit=9)
        [left] = await scene.store.views.list_unread(limit=9)

        for stray in (held.signal, left.signal):
            delivered, _ = await scene.store.signals.redeliver([Redelivery(stray.number, "r1", b"")])
            assert delivered == [Delivered(_DUPLICATE, _R1)]

        for name in ("s1", "s2"):
            assert await scene.send(name, "elsewhere") == Delivered(_DUPLICATE, _R1)
            question = await scene.store.views.find_question(SignalId(name))
            assert question == Question(_R1, RunStatus.PENDING, True, None)


class SignalOrStartSuite(StoreCase):
    """`deliver_or_create`: one transaction."""

    async def test_a_run_begins_with_its_signal_and_what_was_held(self, scene: Scene) -> None:
        await scene.send("s0", "k", hold=True)

        created, delivered, [claimed] = await scene.store.signals.deliver_or_create(
            new_signal("s1", "k"), new_run("r1", key="k"), scene.claimant()
        )

        assert (created.run_id, created.is_new) == (_R1, True)
        assert delivered == Delivered(_DELIVERED, _R1)
        assert [one.payload for one in claimed.inbox.signals] == [b"s0", b"s1"]
        assert await scene.store.views.list_held(limit=9) == []

    async def test_an_active_run_gets_the_signal_and_is_woken(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k")
        await turn.park(wait_signal("go"))

        created, delivered, _ = await scene.store.signals.deliver_or_create(
            new_signal("s1", "k"), new_run("r2", key="k")
        )

        assert (created.run_id, created.is_new, created.same_input) == (_R1, False, True)
        assert delivered == Delivered(_DELIVERED, _R1, woke=True)
        other = new_run("r3", key="k", input=b"{}")
        created, _, _ = await scene.store.signals.deliver_or_create(new_signal("s2", "k"), other)
        assert (created.run_id, created.same_input) == (_R1, False)
        assert await scene.store.views.find("r2") is None

    async def test_an_ended_run_does_not_count(self, scene: Scene) -> None:
        await (await scene.begin("r1", key="k")).end()

        created, _, _ = await scene.store.signals.deliver_or_create(new_signal("s1", "k"), new_run("r2", key="k"))

        assert (created.run_id, created.is_new) == (_R2, True)

    async def test_repeating_it_is_harmless(self, scene: Scene) -> None:
        ask = (new_signal("s1", "k"), new_run("r1", key="k"))
        await scene.store.signals.deliver_or_create(*ask)
        before = await snapshot(scene.store)

        created, delivered, claimed = await scene.store.signals.deliver_or_create(*ask)

        assert (created.run_id, created.is_new, delivered.delivery, claimed) == (_R1, True, _DUPLICATE, [])
        assert await snapshot(scene.store) == before

    async def test_repeating_it_with_a_known_signal_is_harmless(self, scene: Scene) -> None:
        await scene.send("s0", "k", dedup_key="d", hold=True)
        ask = (new_signal("s1", "k", dedup_key="d"), new_run("r1", key="k"))
        first = await scene.store.signals.deliver_or_create(*ask)
        before = await snapshot(scene.store)

        assert await scene.store.signals.deliver_or_create(*ask) == first

        assert (first[0].is_new, first[1]) == (True, Delivered(_DUPLICATE, _R1))
        assert await snapshot(scene.store) == before
        assert await scene.mail("r1") == ["s0"]

    async def test_of_concurrent_callers_one_starts_the_run_and_all_signals_arrive(
        self, scene: Scene, elsewhere: Scene
    ) -> None:
        for n in range(8):
            answers = await asyncio.gather(
                *(
                    one.store.signals.deliver_or_create(
                        new_signal(f"s{n}-{i}", f"k{n}"), new_run(f"r{n}-{i}", key=f"k{n}")
                    )
                    for i, one in enumerate((scene, elsewhere) * 3)
                )
            )
            [run_id] = {created.run_id for created, _, _ in answers}
            assert sum(created.is_new for created, _, _ in answers) == 1
            assert sorted(await scene.mail(run_id)) == [f"s{n}-{i}" for i in range(6)]
