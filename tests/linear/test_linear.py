"""What clients see of a run fits into one order of events. The whole campaign is `make linear`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.linear.campaign import STORES, Campaign, database
from tests.linear.checker import UNKNOWN, Linearizer, Operation
from tests.linear.mailboxes import Mailbox

LATE = 1 << 60


def is_fine(*operations: tuple[str, Any, Any, int, int]) -> bool:
    history = [Operation(number, *operation) for number, operation in enumerate(operations)]
    return Linearizer(Mailbox(), history).is_linearizable()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", STORES)
def test_what_many_clients_see_of_a_run_fits_into_one_order(store: str) -> None:
    with database(store) as url:
        campaign = Campaign(url, 32, seed=7)
        asyncio.run(campaign.run())

    assert campaign.wrong == []
    assert campaign.figures["lost answers"] > 0


def test_calls_that_overlap_may_have_happened_in_any_order() -> None:
    assert is_fine(
        ("signal", "a", "delivered", 1, 5), ("signal", "b", "delivered", 2, 6), ("read", "", (False, ("b", "a")), 7, 8)
    )


def test_a_signal_that_was_acknowledged_and_is_not_read_is_found() -> None:
    assert not is_fine(("signal", "a", "delivered", 1, 2), ("read", "", (False, ()), 3, 4))


def test_a_read_that_goes_back_is_found() -> None:
    assert not is_fine(
        ("signal", "a", "delivered", 1, 9), ("read", "", (False, ("a",)), 2, 3), ("read", "", (False, ()), 4, 5)
    )


def test_signals_that_changed_places_are_found() -> None:
    assert not is_fine(
        ("signal", "a", "delivered", 1, 2),
        ("signal", "b", "delivered", 3, 4),
        ("read", "", (False, ("b", "a")), 5, 6),
    )


def test_a_call_without_an_answer_may_have_been_done_or_not() -> None:
    lost = ("signal", "a", UNKNOWN, 1, LATE)
    assert is_fine(lost, ("read", "", (False, ()), 2, 3), ("read", "", (False, ("a",)), 4, 5))
    assert is_fine(lost, ("read", "", (False, ()), 2, 3))
    assert not is_fine(lost, ("read", "", (False, ("a",)), 2, 3), ("read", "", (False, ()), 4, 5))


def test_a_status_that_is_older_than_a_cancel_is_found() -> None:
    assert is_fine(("cancel", "", True, 1, 4), ("status", "", False, 2, 3), ("status", "", True, 5, 6))
    assert not is_fine(("cancel", "", True, 1, 2), ("status", "", False, 3, 4))


def test_of_two_cancels_one_has_done_it() -> None:
    assert is_fine(("cancel", "", True, 1, 4), ("cancel", "", False, 2, 3))
    assert not is_fine(("cancel", "", True, 1, 2), ("cancel", "", True, 3, 4))
    assert not is_fine(("cancel", "", False, 1, 2), ("status", "", False, 3, 4))
