"""Did you mean …?"""

from __future__ import annotations

from stepwell.nearest import nearest


def test_the_nearest_words_come_best_first_in_their_own_spelling() -> None:
    known = ["order_fulfilment", "Order-Refund", "billing"]

    assert nearest("order_fulfillment", known) == ["order_fulfilment"]
    assert nearest("ORDER-REFUNDS", known) == ["Order-Refund"]
    assert nearest("zzz", known) == []
    assert nearest("x", []) == []
