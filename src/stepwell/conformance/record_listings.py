"""Listings of records: filters, orders, and pages that stay correct while records change."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any, get_args

import pytest_asyncio

from stepwell.clock import Instant
from stepwell.conformance.case import StoreCase
from stepwell.conformance.records import change, new_change, new_record, stored, verbs
from stepwell.conformance.scene import Scene, place
from stepwell.ids import RunId
from stepwell.model.records import NewRecord, NewRecordEvent, Record, RecordFilter, RecordOpening, RecordOrder

_ORDERS: tuple[RecordOrder, ...] = get_args(RecordOrder)
_ALL = 1_000


async def _fill(scene: Scene) -> list[Record]:
    """Records of every kind of state, label, due time and owner; also of another kind. All of kind "task"."""
    turns = [await scene.begin(run_id) for run_id in ("r1", "r2")]
    for number in range(36):
        labels = ["all", f"role:{'ab'[number % 2]}", *(["rare"] if number % 9 == 0 else []), "ä_%"[number % 3]]
        new = new_record(
            f"t{number:02}",
            state=("open", "claimed", "Done")[number % 3],
            labels=tuple(sorted(labels if number % 5 else [])),
            # Some at the same instant, and not in the order of creation.
            due_at=Instant(1_000 + number * 7 % 10) if number % 4 else None,
            is_open=number % 3 != 2 or number % 7 == 0,
        )
        if number % 6 < 2:
            await turns[number % 6].commit(opened=(RecordOpening(place(number), new, ()),))
        else:
            await change(scene, f"c{number}", new)
    await change(scene, "other", new_record("t00", kind="Übersicht", labels=("all",), due_at=Instant(1)))
    return [await stored(scene, f"t{number:02}") for number in range(36)]


def _matches(record: Record, where: RecordFilter) -> bool:
    return (
        record.kind == where.kind
        and (not where.states or record.state in where.states)
        and set(where.labels) <= set(record.labels)
        and where.is_open in (None, record.is_open)
        and where.run_id in (None, record.run_id)
        and (where.due_before is None or (record.due_at is not None and record.due_at < where.due_before))
        and (where.order != "due" or record.due_at is not None)
    )


def _expected(records: Iterable[Record], where: RecordFilter) -> list[str]:
    found = sorted(one for one in records if _matches(one, where))
    if where.order == "due":
        found.sort(key=lambda one: (one.due_at, one.number))
    return [one.record_id for one in (reversed(found) if where.order == "newest" else found)]


def _filters() -> Iterable[RecordFilter]:
    """Every combination of the parts that choose an index, and some of the others."""
    labels: tuple[tuple[str, ...], ...] = ((), ("all",), ("rare", "all"), ("role:a", "rare", "ä"), ("none",))
    states: tuple[tuple[str, ...], ...] = ((), ("claimed",), ("Done", "open", "Done", "none"))
    runs, dues = (None, RunId("r1")), (None, Instant(1_005))
    for some, state, is_open, run, due, order in product(labels, states, (None, True, False), runs, dues, _ORDERS):
        yield RecordFilter("task", state, some, is_open, run, due, order)
    yield RecordFilter("task", run_id=RunId("nobody"))
    yield RecordFilter("none")
    yield RecordFilter("TASK")


async def _pages(scene: Scene, where: RecordFilter, limit: int) -> list[str]:
    found: list[str] = []
    after: Record | None = None
    while page := await scene.store.records.list_records(where, limit=limit, after=after):
        assert len(page) <= limit
        found += [one.record_id for one in page]
        after = page[-1]
    return found


class RecordListSuite(StoreCase):
    """`list_records`, `count` and `list_events`."""

    @pytest_asyncio.fixture
    async def filled(self, scene: Scene) -> list[Record]:
        """All records of kind "task", in the order of their creation."""
        return await _fill(scene)

    async def test_every_filter_finds_what_matches_it_in_its_order(self, scene: Scene, filled: list[Record]) -> None:
        list_records = scene.store.records.list_records
        for where in _filters():
            found = await list_records(where, limit=_ALL)
            assert [one.record_id for one in found] == _expected(filled, where), where
            assert set(found) <= set(filled), where
        without = next(one for one in filled if one.due_at is None)
        assert await list_records(RecordFilter("task", order="due"), limit=9, after=without) == []

    async def test_pages_join_to_the_whole_list_and_are_counted(self, scene: Scene, filled: list[Record]) -> None:
        for number, where in enumerate(_filters()):
            if number % 7 == 0:
                expected = _expected(filled, where)
                assert await _pages(scene, where, 1 + number % 4) == expected, where
                assert await scene.store.records.count(where, limit=_ALL) == len(expected), where
                assert await scene.store.records.count(where, limit=3) == min(3, len(expected)), where
        assert await scene.store.records.list_records(RecordFilter("task"), limit=0) == []

    async def test_pages_are_stable_while_records_change(self, scene: Scene, filled: list[Record]) -> None:
        for order, labels in product(_ORDERS, ((), ("all",))):
            where = RecordFilter("task", labels=labels, order=order)
            whole = await scene.store.records.list_records(where, limit=_ALL)
            first, rest = whole[:4], whole[4:]
            *_, last = first

            # What is on the page is closed, becomes due at another time or loses its label; others are added.
            changes = [
                new_change(f"{order} {labels} {one.number}", _changed(one, number), one.version)
                for number, one in enumerate(first)
            ]
            name = f"new {order} {len(labels)}"
            changes.append(new_change(name, new_record(name, labels=("all",), due_at=Instant(1))))
            assert all(one.outcome.value == "changed" for one in await scene.store.records.change(changes))

            following = await scene.store.records.list_records(where, limit=_ALL, after=last)
            known = [one for one in following if one.record_id not in {each.record_id for each in first}]
            assert [one for one in known if one.record_id != name] == rest

    async def test_what_no_store_can_hold_is_not_found(self, scene: Scene) -> None:
        for text in ("\ud800", "a\x00b"):
            assert await scene.store.records.find("task", text) is None
            assert await scene.store.records.list_events("task", text, limit=9) == []
            for where in (RecordFilter(text), RecordFilter("task", (text,)), RecordFilter("task", labels=(text,))):
                assert await scene.store.records.list_records(where, limit=9) == []
                assert await scene.store.records.count(where, limit=9) == 0

    async def test_events_come_newest_first_in_pages_and_never_change(self, scene: Scene) -> None:
        events = tuple(NewRecordEvent(f"v{number}", "ann", b"%d" % number) for number in range(1, 4))
        await scene.store.records.change([new_change("c1", new_record("t1"), events=events)])
        first = await scene.store.records.list_events("task", "t1", limit=9)
        scene.clock.advance(1)
        await change(scene, "c2", new_record("t1", state="next"), 1)

        async def numbers(**asked: Any) -> list[int]:
            return [one.number for one in await scene.store.records.list_events("task", "t1", **asked)]

        assert await numbers(limit=2) == [4, 3]
        assert await numbers(limit=2, before=3) == [2, 1]
        assert await numbers(limit=2, before=1) == []
        later = await scene.store.records.list_events("task", "t1", limit=9)
        assert later[1:] == first
        assert (later[0].version, later[0].at) == (2, scene.clock.now())
        assert await verbs(scene, "t1") == ["v1", "v2", "v3", "c2"]


def _changed(record: Record, number: int) -> NewRecord:
    """A record that has moved in every order, by its number on the page."""
    due_at, labels = Instant(1 if number % 2 else 9_999), () if number == 2 else ("all",)
    return new_record(record.record_id, state="moved", labels=labels, due_at=due_at, is_open=number != 3)
