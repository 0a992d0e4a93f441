"""Packed locations keep the order and the nesting of paths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.errors import CorruptRecordError, InvalidNameError
from stepwell.model.locations import (
    ROOT,
    Location,
    Names,
    check_name,
    format_path,
    is_below,
    is_undoing,
    iteration,
    iterations,
    named,
    subtree,
    undo,
    use,
)

numbers = st.integers(min_value=0, max_value=2**40)


@given(numbers, numbers)
def test_numbers_keep_their_order_when_packed(a: int, b: int) -> None:
    for pack in (named, use, iteration):
        assert (pack(ROOT, a) < pack(ROOT, b)) == (a < b)


@given(st.lists(numbers, min_size=1, max_size=5), numbers, numbers)
def test_a_subtree_is_one_range_of_keys(path: list[int], inside: int, other: int) -> None:
    scope = ROOT
    for number in path:
        scope = named(scope, number)
    first, end = subtree(scope)

    for below in (scope, named(scope, inside), use(scope, inside), iteration(scope, inside), undo(scope)):
        assert first <= below < end
        assert is_below(below, scope)
    sibling = named(Location(scope[: -len(named(ROOT, path[-1]))]), other)
    assert (first <= sibling < end) == (other == path[-1])


@given(numbers, numbers, numbers)
def test_a_range_of_iterations_holds_those_iterations_and_no_others(first: int, end: int, number: int) -> None:
    loop = named(ROOT, 3)
    low, high = iterations(loop, first, end)

    for inside in (iteration(loop, number), named(iteration(loop, number), 7)):
        assert (low <= inside < high) == (first <= number < end)


def test_a_path_is_spelled_as_people_read_it() -> None:
    names = Names()
    outer, charge = names.number("outer"), names.number("charge")
    location = use(named(iteration(named(ROOT, outer), 3), charge), 2)

    assert names.text(location) == "outer/~3/charge#2"
    assert names.text(undo(location)) == "outer/~3/charge#2~undo"


def test_names_are_numbered_once_and_carried_once() -> None:
    names = Names(["old"])

    assert [names.number(name) for name in ("old", "new", "old", "newer")] == [0, 1, 0, 2]
    assert names.take_new() == ("new", "newer")
    assert names.take_new() == ()
    assert names.find("unknown") is None


def test_a_thousand_uses_of_one_name_cost_a_few_bytes_each() -> None:
    scope = named(ROOT, 0)

    assert max(len(use(scope, number)) for number in range(1_000)) <= 4


@pytest.mark.parametrize("name", ["", " a", "a ", "~a", "a/b", "a#1", "a\nb", "a\x00", "x" * 201])
def test_a_name_that_could_not_be_read_back_is_refused(name: str) -> None:
    with pytest.raises(InvalidNameError):
        check_name(name)


@pytest.mark.parametrize("packed", [b"\x11\x05", b"\x01", b"\x31\x01", b"\x40\x10", b"\xff"])
def test_bytes_that_are_no_location_are_a_corrupt_record(packed: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        format_path(Location(packed), ["only"])


@pytest.mark.parametrize("is_key", [False, True])
def test_the_beginning_of_a_rollback_has_a_location(is_key: bool) -> None:
    assert format_path(undo(ROOT), [], is_key=is_key) == "~undo"


def test_what_stands_below_an_undo_is_told_apart() -> None:
    names = Names()
    outer = named(ROOT, names.number("outer"))
    far = named(ROOT, 64)  # its number takes the byte that is the mark of an undo

    assert is_undoing(undo(outer))
    assert is_undoing(named(iteration(undo(use(outer, 3)), 7), 1))
    assert not is_undoing(named(iteration(use(outer, 64), 64), 64))
    assert not is_undoing(far)
    assert not is_undoing(ROOT)
