"""Hints that a handle gets for its own writes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from stepwell.clock import Instant, Span
from stepwell.conformance.case import StoreCase
from stepwell.conformance.records import change, new_record, opening
from stepwell.conformance.scene import FIRST, Scene, new_signal, place, wait_child, wait_signal, wait_topic
from stepwell.ids import RunId
from stepwell.model.commits import Pause, Release
from stepwell.model.states import RunStatus
from stepwell.stores.base.store import Store
from stepwell.stores.base.wakeups import Hint, HintKind


class HintSuite(StoreCase):
    """A process gets hints for its own writes at once; hints for others' writes may be late or lost."""

    @pytest.fixture
    def heard(self, store: Store) -> Iterator[list[Hint]]:
        """Every hint so far."""
        hints: list[Hint] = []
        stop = store.wakeups.listen(hints.append)
        yield hints
        stop()

    async def _runs(self, heard: list[Hint], kind: HintKind) -> set[RunId]:
        await asyncio.sleep(0)
        runs = {run_id for hint in heard if hint.kind is kind for run_id in hint.runs}
        heard.clear()
        return runs

    async def _is_ready(self, heard: list[Hint]) -> bool:
        return await self._is_heard(heard, HintKind.READY)

    async def _is_heard(self, heard: list[Hint], kind: HintKind) -> bool:
        await asyncio.sleep(0)
        is_heard = any(hint.kind is kind for hint in heard)
        heard.clear()
        return is_heard

    async def test_every_new_wake_time_sends_a_ready_hint(self, scene: Scene, heard: list[Hint]) -> None:
        await scene.create("r1")
        assert await self._is_ready(heard)
        await scene.create("r2", delay=Span(9_000_000))
        assert await self._is_ready(heard)
        turn = await scene.claim_only("r1")
        await turn.commit(move=Release())
        assert await self._is_ready(heard)
        turn = await scene.claim_only("r1")
        await turn.park(wait_signal())
        heard.clear()
        await scene.send("s1", "r1")
        assert await self._is_ready(heard)

    async def test_a_run_that_is_claimed_at_once_sends_no_ready_hint(self, scene: Scene, heard: list[Hint]) -> None:
        for run_id in ("r1", "r2"):
            turn = await scene.begin(run_id)
            await turn.park(wait_signal())
        heard.clear()

        signals = [new_signal("s1", "r1"), new_signal("s2", "r2")]
        _, claimed = await scene.store.signals.deliver(signals, scene.claimant(limit=1))

        assert [each.run.run_id for each in claimed] == ["r1"]
        assert await self._runs(heard, HintKind.READY) == {"r2"}

    async def test_every_end_and_pause_sends_an_ended_hint(self, scene: Scene, heard: list[Hint]) -> None:
        await (await scene.begin("r1")).end()
        assert await self._runs(heard, HintKind.ENDED) == {"r1"}
        await (await scene.begin("r2")).commit(move=Pause(b"x"))
        assert await self._runs(heard, HintKind.ENDED) == {"r2"}
        turn = await scene.begin("r3")
        await turn.roll_back()
        await turn.end(RunStatus.COMPENSATION_FAILED)
        assert await self._runs(heard, HintKind.ENDED) == {"r3"}
        await scene.create("r4")
        await scene.cancel("r4")
        assert await self._runs(heard, HintKind.ENDED) == {"r4"}

    async def test_the_owner_gets_a_hint_for_signals_cancels_and_children(
        self, scene: Scene, heard: list[Hint]
    ) -> None:
        turn = await scene.begin("r1")
        child = await scene.begin_child(turn, "c1")
        await scene.send("s1", "r1")
        assert await self._runs(heard, HintKind.MAIL) == {"r1"}
        await child.end()
        assert await self._runs(heard, HintKind.MAIL) == {"r1"}
        await scene.cancel("r1")
        assert await self._runs(heard, HintKind.MAIL) == {"r1"}
        await scene.begin("r2")
        await scene.cancel("r2", compensate=False)
        assert await self._runs(heard, HintKind.MAIL) == {"r2"}

    async def test_a_parent_that_a_child_wakes_is_ready(self, scene: Scene, heard: list[Hint]) -> None:
        parent = await scene.begin("p1")
        child = await scene.begin_child(parent, "c1")
        await parent.park(wait_child(FIRST))
        heard.clear()

        await child.end()

        assert await self._is_ready(heard)

    async def test_a_removed_listener_gets_no_hints(self, scene: Scene) -> None:
        hints: list[Hint] = []
        stop = scene.store.wakeups.listen(hints.append)
        stop()

        await scene.create("r1")
        await asyncio.sleep(0)

        assert hints == []

    async def test_events_send_hints_for_waiting_and_owned_runs(self, scene: Scene, heard: list[Hint]) -> None:
        await scene.waiting("r1", wait_topic())
        turn = await scene.begin("r2")
        await turn.commit(waits=(wait_topic(),))
        heard.clear()
        await scene.publish("e1")
        # A handle that has lost its connection for hints also sends CHANGED.
        assert {hint.kind for hint in heard} - {HintKind.CHANGED} == {HintKind.READY, HintKind.MAIL}
        assert await self._runs(heard, HintKind.MAIL) == {"r2"}
        await scene.publish("e2", "sport", retain=Span(9_000_000))
        await turn.commit(waits=(wait_topic("sport", since="all", at=place(1)),))
        assert await self._runs(heard, HintKind.MAIL) == {"r2"}

    async def test_a_due_time_of_a_record_that_becomes_earlier_sends_a_hint(
        self, scene: Scene, heard: list[Hint]
    ) -> None:
        due = [new_record("t1", due_at=at) for at in (Instant(9), Instant(8), None, Instant(7))]
        for version, record in enumerate(due):
            await change(scene, f"c{version}", record, version)
            assert await self._is_heard(heard, HintKind.DUE) is (record.due_at is not None)
        await change(scene, "closed", new_record("t1", is_open=False, due_at=Instant(1)), 4)
        assert not await self._is_heard(heard, HintKind.DUE)
        await change(scene, "open", new_record("t1", due_at=Instant(7)), 5)
        assert await self._is_heard(heard, HintKind.DUE)
        turn = await scene.begin("r1")
        await turn.commit(opened=(opening("t2", due_at=Instant(5)),))
        assert await self._is_heard(heard, HintKind.DUE)
