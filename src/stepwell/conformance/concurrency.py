"""Two concurrent processes: exactly one wins, and nothing is lost or duplicated."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import FIRST, Scene, Turn, new_run, new_signal, place, step, wait_child, wait_signal
from stepwell.model.commits import End, Park, Verdict
from stepwell.model.signals import Delivery
from stepwell.model.states import RunStatus

_ROUNDS = range(8)


class ConcurrencySuite(StoreCase):
    """The same transitions through both handles, concurrently."""

    async def test_every_run_is_claimed_exactly_once(self, scene: Scene, elsewhere: Scene) -> None:
        await elsewhere.register()
        await scene.store.runs.create([new_run(f"r{n:02}") for n in range(40)])

        claims = await asyncio.gather(*(place_.claim(limit=3) for _ in range(10) for place_ in (scene, elsewhere)))

        owners = Counter(turn.run_id for turns in claims for turn in turns)
        assert sorted(owners) == [f"r{n:02}" for n in range(40)]
        assert set(owners.values()) == {1}
        for turns in claims:
            for turn in turns:
                assert (await scene.run(turn.run_id)).owner == turn.fence.incarnation

    async def test_one_key_starts_one_run(self, scene: Scene, elsewhere: Scene) -> None:
        for n in _ROUNDS:
            created = await asyncio.gather(
                *(one.create(f"r{n}-{i}", key=f"k{n}") for i, one in enumerate((scene, elsewhere) * 3))
            )
            assert sum(one.is_new for one in created) == 1
            assert len({one.run_id for one in created}) == 1

    async def test_one_signal_id_is_stored_once(self, scene: Scene, elsewhere: Scene) -> None:
        await scene.create("r1")

        delivered = await asyncio.gather(*(one.send("s1", "r1") for one in (scene, elsewhere) * 4))

        assert Counter(one.delivery for one in delivered) == {Delivery.DELIVERED: 1, Delivery.DUPLICATE: 7}
        assert await scene.mail("r1") == ["s1"]

    async def test_one_commit_takes_effect_once(self, scene: Scene, elsewhere: Scene) -> None:
        turn = await scene.begin("r1")
        there = Turn(elsewhere.store, turn.claimed)
        commit = turn.next(names=("a",), entries=(step(1, place(0)),), children=(new_run("c1"),))

        applied = await asyncio.gather(turn.send(commit), there.send(commit), turn.send(commit))

        assert {(one.verdict, one.revision) for one in applied} == {(Verdict.APPLIED, 1)}
        assert (await scene.history("r1")).names == ("a",)

    async def test_either_the_cancel_or_the_completion_wins(self, scene: Scene, elsewhere: Scene) -> None:
        for n in _ROUNDS:
            turn = await scene.begin(f"r{n}")
            compensate = bool(n % 2)

            ended, cancelled = await asyncio.gather(turn.end(), elsewhere.cancel(f"r{n}", compensate=compensate))

            assert (ended.verdict is Verdict.APPLIED) != cancelled.changed
            status = await scene.status(f"r{n}")
            assert (status is RunStatus.COMPLETED) == (ended.verdict is Verdict.APPLIED)
            if status is RunStatus.CANCELLING:
                assert ended.verdict is Verdict.CANCELLING
                await turn.end(RunStatus.CANCELLED)

    @pytest.mark.parametrize("signal_first", [True, False])
    async def test_a_signal_during_the_commit_of_a_wait_always_wakes(
        self, scene: Scene, elsewhere: Scene, signal_first: bool
    ) -> None:
        for n in _ROUNDS:
            turn = await scene.begin(f"r{n}")
            park, send = turn.park(wait_signal("go")), elsewhere.send(f"s{n}", f"r{n}")

            await asyncio.gather(*((send, park) if signal_first else (park, send)))

            again = await scene.claim_only(f"r{n}")
            [signal] = again.claimed.inbox.signals
            await again.commit(consumed=(signal.number,), move=End(RunStatus.COMPLETED))
            assert await scene.mail(f"r{n}") == []

    async def test_a_child_that_ends_during_the_commit_of_a_wait_always_wakes(
        self, scene: Scene, elsewhere: Scene
    ) -> None:
        for n in _ROUNDS:
            parent = await scene.begin(f"p{n}")
            child = await scene.begin_child(parent, f"c{n}")
            there = Turn(elsewhere.store, child.claimed)

            await asyncio.gather(*((there.end(), parent.park(wait_child(FIRST)))[:: 1 if n % 2 else -1]))

            again = await scene.claim_only(f"p{n}")
            assert [one.run_id for one in again.claimed.inbox.children] == [f"c{n}"]
            await again.end()

    async def test_every_signal_is_consumed_exactly_once(self, scene: Scene, elsewhere: Scene) -> None:
        turn = await scene.begin("r1")
        consumed: list[bytes] = []

        async def send(start: int) -> None:
            for n in range(start, start + 10):
                await elsewhere.store.signals.deliver([new_signal(f"s{n:02}", "r1")])

        async def consume(turn: Turn) -> None:
            turns = [turn]
            while len(consumed) < 20:
                for turn in turns:
                    inbox = await scene.store.runs.inbox(turn.run_id)
                    numbers = tuple(signal.number for signal in inbox.signals)
                    await turn.commit(consumed=numbers, waits=(wait_signal(),), move=Park(None))
                    consumed.extend(signal.payload for signal in inbox.signals)
                turns = await scene.claim()
                await asyncio.sleep(0)

        await asyncio.gather(send(0), send(10), consume(turn))

        assert sorted(consumed) == [f"s{n:02}".encode() for n in range(20)]
        assert [one for one in consumed if one < b"s10"] == [f"s{n:02}".encode() for n in range(10)]

    async def test_rescue_and_a_late_commit_never_both_succeed(self, scene: Scene, elsewhere: Scene) -> None:
        turn = await scene.begin("r1")
        await elsewhere.register()
        await scene.lose_worker("w2")

        applied, rescued = await asyncio.gather(turn.end(), elsewhere.rescue())

        assert (applied.verdict is Verdict.APPLIED) != bool(rescued)
        expected = RunStatus.COMPLETED if applied.verdict is Verdict.APPLIED else RunStatus.PENDING
        assert await scene.status("r1") is expected
