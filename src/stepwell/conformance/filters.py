"""Conditions and orders of listings."""

from __future__ import annotations

import pytest

from stepwell.clock import Instant
from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import Scene, wait_signal, wait_timer, wait_topic
from stepwell.errors.records import FailureRecord
from stepwell.ids import RunId
from stepwell.model.failures import encode_failure
from stepwell.model.states import RunStatus
from stepwell.stores.base.filters import Condition, Field, Order, Pattern, SortKey
from stepwell.stores.base.views import RunFilter

_S = RunStatus
NEWEST_FIRST = Order()


async def _fill(scene: Scene) -> None:
    """Five runs, one second apart, different in every respect."""
    tags = (("region", "eu_west"), ("vip", ""))
    late = await scene.begin("a1", key="order 1", tags=tags, input=b'j{"customer":{"id":42,"name":"ann"},"n":1.50}')
    scene.clock.advance(1)
    failed = await scene.begin("a%2", key="order_2", input=b'j{"customer":{"id":"42"},"n":null}')
    scene.clock.advance(1)
    odd = await scene.begin("b3", input=b"no JSON at all", tags=(("vip", "100%"),))
    scene.clock.advance(1)
    quick = await scene.begin("b4", key="*", input=b'j["customer"]')
    await scene.create("c5", workflow="Other[x]", version=7, input=b"")
    oops = FailureRecord("CardDeclined", "Über limit: 100% of it, \\o/ 'quoted'", code="SW900", path="pay/~3/charge")
    await failed.end(_S.FAILED, failure=encode_failure(oops))
    await odd.end(_S.FAILED, failure=b"\xff{")
    await quick.park(wait_signal("approve", "reject"), wait_timer(Instant(9_000_000_000_000_000)))
    scene.clock.advance(5)
    await late.end()


async def _list(
    scene: Scene, *conditions: Condition, order: Order = NEWEST_FIRST, before: str = "", limit: int = 99
) -> str:
    """The ids of the runs that meet the conditions, in a row."""
    where = RunFilter(conditions=conditions, order=order)
    found = await scene.store.views.list_runs(where, limit=limit, before=RunId(before) if before else None)
    return " ".join(run.run_id for run in found)


class FilterSuite(StoreCase):
    """`list_runs` by conditions, in any order."""

    @pytest.mark.parametrize(
        ("field", "pattern", "expected"),
        [
            (Field.ID, ("a", ""), "a1 a%2"),
            (Field.ID, ("a%", ""), "a%2"),
            (Field.ID, ("A", ""), ""),
            (Field.ID, ("", "2"), "a%2"),
            (Field.KEY, ("order", ""), "a1 a%2"),
            (Field.KEY, ("order_2",), "a%2"),
            (Field.KEY, ("order_", ""), "a%2"),
            (Field.KEY, ("*",), "b4"),
            (Field.KEY, ("", ""), "b4 a1 a%2"),
            (Field.WORKFLOW, ("fl", "w"), "b4 b3 a1 a%2"),
            (Field.WORKFLOW, ("Other[x]",), "c5"),
            (Field.WORKFLOW, ("Other[", ""), "c5"),
            (Field.WORKFLOW, ("other", ""), ""),
            (Field.AT, ("pay/", "/charge"), "a%2"),
            (Field.AT, ("pay",), ""),
            (Field.TAG, ("vip=", ""), "b3 a1"),
            (Field.TAG, ("vip=",), "a1"),
            (Field.TAG, ("vip=100%",), "b3"),
            (Field.TAG, ("region=eu_", ""), "a1"),
            (Field.TAG, ("region=eu-", ""), ""),
            (Field.WAITING, ("signal:", ""), "b4"),
            (Field.WAITING, ("signal:app", ""), "b4"),
            (Field.WAITING, ("signal:",), "b4"),
            (Field.WAITING, ("timer:", ""), "b4"),
            (Field.WAITING, ("topic:", ""), ""),
            (Field.ERROR, ("", "100% of", ""), "a%2"),
            (Field.ERROR, ("", "100_ of", ""), ""),
            (Field.ERROR, ("", "Über limit", ""), "a%2"),
            (Field.ERROR, ("", "\\o/ 'quoted'", ""), "a%2"),
            (Field.ERROR, ("sw900 carddeclined: ", ""), "a%2"),
            (Field.WORD, ("", "order", ""), "a1 a%2"),
            (Field.WORD, ("", "declined", ""), "a%2"),
            (Field.WORD, ("", "other", ""), "c5"),
            (Field.WORD, ("", "b3", ""), "b3"),
        ],
    )
    async def test_a_text_is_compared_with_a_pattern(
        self, scene: Scene, field: Field, pattern: Pattern, expected: str
    ) -> None:
        await _fill(scene)

        assert await _list(scene, Condition(field, (pattern,))) == expected
        rest = sorted({"a1", "a%2", "b3", "b4", "c5"} - set(expected.split()), reverse=True)
        assert (await _list(scene, Condition(field, (pattern,), negated=True))).split() == rest

    async def test_a_condition_takes_any_of_its_values_and_all_conditions_hold(self, scene: Scene) -> None:
        await _fill(scene)
        ids = Condition(Field.ID, (("a1",), ("b", ""), ("unknown",)))

        assert await _list(scene, ids) == "b4 b3 a1"
        assert await _list(scene, ids, Condition(Field.TAG, (("vip=", ""),))) == "b3 a1"
        assert await _list(scene, ids, Condition(Field.TAG, (("vip=", ""),), negated=True)) == "b4"
        assert await _list(scene, Condition(Field.ID, ())) == ""
        assert await _list(scene, Condition(Field.ID, (), negated=True)) == "c5 b4 b3 a1 a%2"

    async def test_numbers_are_compared(self, scene: Scene) -> None:
        start = scene.store.now()
        await _fill(scene)

        async def listed(field: Field, relation: str, number: int) -> str:
            return await _list(scene, Condition(field, ((relation, str(number)),)))

        assert await listed(Field.VERSION, "<", 7) == "b4 b3 a1 a%2"
        assert await listed(Field.VERSION, "<=", 7) == "c5 b4 b3 a1 a%2"
        assert await listed(Field.VERSION, "=", 7) == "c5"
        assert await listed(Field.VERSION, ">", 7) == ""
        assert await listed(Field.CREATED, ">=", start + 2_000_000) == "c5 b4 b3"
        assert await listed(Field.CREATED, "<", start + 1_000_000) == "a1"
        assert await listed(Field.TOOK, ">", 5_000_000) == "a1"
        assert await listed(Field.TOOK, "<=", 5_000_000) == "b3 a%2"

    async def test_a_value_in_the_input_is_compared_as_json(self, scene: Scene) -> None:
        await _fill(scene)

        async def listed(path: str, *texts: str) -> str:
            return await _list(scene, Condition(Field.INPUT, tuple((text,) for text in texts), path=path))

        assert await listed("customer.id", "42") == "a1"
        assert await listed("customer.id", "42", '"42"') == "a1 a%2"
        assert await listed("customer.name", '"ann"') == "a1"
        assert await listed("n", "1.50") == "a1"
        assert await listed("n", "null") == "a%2"
        assert await listed("customer.id.0", "42") == ""
        assert await listed("nothing.here", "null") == ""

    async def test_a_wait_counts_only_while_it_is_stored(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.park(wait_topic("news"))
        topic = Condition(Field.WAITING, (("topic:ne", ""),))
        assert await _list(scene, topic) == "r1"

        await scene.cancel(RunId("r1"), compensate=False)
        assert await _list(scene, topic) == ""

    @pytest.mark.parametrize(
        ("by", "expected"),
        [
            (SortKey.ID, "a%2 a1 b3 b4 c5"),
            (SortKey.CREATED, "a1 a%2 b3 b4 c5"),
            (SortKey.STARTED, "c5 a1 a%2 b3 b4"),
            (SortKey.ENDED, "b4 c5 a%2 b3 a1"),
            (SortKey.TOOK, "b4 c5 b3 a%2 a1"),
        ],
    )
    async def test_listings_are_ordered_both_ways_and_paged(self, scene: Scene, by: SortKey, expected: str) -> None:
        await _fill(scene)
        wanted = expected.split()

        for is_descending in (False, True):
            order, seen = Order(by, is_descending), list[str]()
            while page := await _list(scene, order=order, limit=2, before=seen[-1] if seen else ""):
                seen += page.split()
            assert seen == (wanted[::-1] if is_descending else wanted)
        assert await _list(scene, order=Order(by), before="zz") == (
            "" if by is not SortKey.ID else " ".join(wanted[::-1])
        )

    async def test_statuses_keep_the_order_between_them(self, scene: Scene) -> None:
        await _fill(scene)
        where = RunFilter((_S.COMPLETED, _S.FAILED), order=Order(SortKey.TOOK))

        found = await scene.store.views.list_runs(where, limit=2)

        assert [run.run_id for run in found] == ["a1", "a%2"]
