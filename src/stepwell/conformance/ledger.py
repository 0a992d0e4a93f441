"""Idempotency keys, and the audit."""

from __future__ import annotations

import asyncio

import pytest

from stepwell.clock import Instant
from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import Scene
from stepwell.model.ledger import Act, ChainHead, NewAct, Reservation, Reserved, storable, verify

_MINUTE = 60_000_000


def reservation(scene: Scene, key: str = "k", *, fingerprint: str = "f", answer: str = "") -> Reservation:
    """A reservation for one minute."""
    return Reservation("start by ann", key, fingerprint, answer, Instant(scene.clock.now() + _MINUTE))


def act(request_id: str, outcome: str = "asked") -> NewAct:
    """A line of the audit."""
    return NewAct(request_id, "ann", "start_run", "Über flow", outcome, "", "pending")


def is_chained(newest_first: list[Act]) -> bool:
    """Whether the lines have every number from 1 on, and each hash follows from the line before."""
    newest = newest_first[0]
    return not verify(ChainHead(newest.number, newest.chain), reversed(newest_first)).breaks


class LedgerSuite(StoreCase):
    """`reserve`, `settle`, `note`."""

    async def test_the_first_reservation_of_a_key_counts(self, scene: Scene, elsewhere: Scene) -> None:
        first = await scene.store.ledger.reserve(reservation(scene, answer="r1"))
        again = await elsewhere.store.ledger.reserve(reservation(scene, answer="r2"))
        other = await elsewhere.store.ledger.reserve(reservation(scene, fingerprint="g", answer="r3"))

        assert first == Reserved("f", "r1", is_new=True)
        assert again == other == Reserved("f", "r1", is_new=False)

    async def test_keys_of_other_scopes_are_other_keys(self, scene: Scene) -> None:
        ledger, one = scene.store.ledger, reservation(scene, answer="r1")
        await ledger.reserve(one)

        assert (await ledger.reserve(one._replace(scope="start by bob", answer="r2"))).is_new
        assert (await ledger.reserve(one._replace(key="l", answer="r3"))).is_new

    async def test_a_settled_answer_is_returned(self, scene: Scene, elsewhere: Scene) -> None:
        await scene.store.ledger.reserve(reservation(scene))
        for _ in range(2):
            await elsewhere.store.ledger.settle("start by ann", "k", "delivered")

        assert await scene.store.ledger.reserve(reservation(scene)) == Reserved("f", "delivered", is_new=False)

    async def test_settling_what_is_not_reserved_does_nothing(self, scene: Scene) -> None:
        await scene.store.ledger.settle("start by ann", "k", "delivered")

        assert await scene.store.ledger.reserve(reservation(scene)) == Reserved("f", "", is_new=True)

    async def test_a_key_is_kept_until_its_time_and_no_longer(self, scene: Scene) -> None:
        ledger, first = scene.store.ledger, reservation(scene, answer="r1")
        await ledger.reserve(first)
        scene.clock.advance("59999ms")
        assert not (await ledger.reserve(reservation(scene, answer="r2"))).is_new

        scene.clock.advance("1ms")
        later = await ledger.reserve(reservation(scene, fingerprint="g", answer="r3"))
        assert later == Reserved("g", "r3", is_new=True)

    async def test_of_concurrent_reservations_one_is_new(self, scene: Scene, elsewhere: Scene) -> None:
        stores = [scene.store, elsewhere.store] * 8
        found = await asyncio.gather(
            *(one.ledger.reserve(reservation(scene, answer=f"r{n}")) for n, one in enumerate(stores))
        )

        assert [one.is_new for one in found].count(True) == 1
        assert len({one.answer for one in found}) == 1

    # --- the audit ---

    async def test_lines_are_numbered_timed_and_chained(self, scene: Scene) -> None:
        first = await scene.store.ledger.note(act("q1"))
        scene.clock.advance("1s")
        second = await scene.store.ledger.note(act("q1", "201"))

        assert first[:2] == (1, second.at - 1_000_000)
        assert first[2:-1] == act("q1")
        assert (second.number, second.outcome) == (2, "201")
        assert await scene.store.ledger.list_acts(limit=9) == [second, first]
        assert is_chained([second, first])
        assert await scene.store.ledger.head() == ChainHead(2, second.chain)

    async def test_a_store_without_lines_has_an_empty_head(self, scene: Scene) -> None:
        assert await scene.store.ledger.list_acts(limit=9) == []
        assert await scene.store.ledger.head() == ChainHead(0, "")

    async def test_lines_are_listed_below_a_number(self, scene: Scene) -> None:
        lines = [await scene.store.ledger.note(act(f"q{n}")) for n in range(5)]

        assert await scene.store.ledger.list_acts(limit=2) == [lines[4], lines[3]]
        assert await scene.store.ledger.list_acts(limit=2, below=lines[3].number) == [lines[2], lines[1]]
        assert await scene.store.ledger.list_acts(limit=2, below=1) == []

    async def test_a_repeated_note_returns_the_existing_line(self, scene: Scene, elsewhere: Scene) -> None:
        first = await scene.store.ledger.note(act("q1"))
        scene.clock.advance("1s")

        assert await elsewhere.store.ledger.note(act("q1")._replace(who="bob")) == first
        assert await scene.store.ledger.list_acts(limit=9) == [first]

    @pytest.mark.parametrize("count", [32])
    async def test_two_servers_that_append_at_once_make_one_chain(
        self, scene: Scene, elsewhere: Scene, count: int
    ) -> None:
        stores = [scene.store, elsewhere.store]
        noted = await asyncio.gather(*(stores[n % 2].ledger.note(act(f"q{n}")) for n in range(count)))

        lines = await scene.store.ledger.list_acts(limit=100)
        assert sorted(noted, reverse=True) == lines
        assert {line.request_id for line in lines} == {f"q{n}" for n in range(count)}
        assert is_chained(lines)

    async def test_unstorable_texts_are_escaped_and_long_ones_cut(self, scene: Scene) -> None:
        odd = act("q1")._replace(target="a\x00b\ud800c\x1fd" + "e" * 900)

        line = await scene.store.ledger.note(odd)

        assert line.target.startswith("a\\x00b\\ud800c\x1fd")
        assert line[2:-1] == storable(odd)
        assert len(line.target) == 500
        assert is_chained([line])
