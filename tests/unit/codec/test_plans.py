"""Decoders are made once for each hint, and kept in bounds."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from stepwell.codec import plans
from stepwell.codec.base import Place
from stepwell.codec.plans import plan_for

HERE = Place("", "", "here")


class Cat(BaseModel):
    name: str


class Dog(BaseModel):
    name: str


def test_hints_that_are_made_anew_share_one_decoder() -> None:
    first, second = list[dict[str, int]], list[dict[str, int]]
    assert first is not second

    decoders = {id(plan_for(hint, HERE).read.__self__) for hint in (first, second)}  # type: ignore[attr-defined]

    assert len(decoders) == 1


def test_a_thousand_definitions_of_one_function_add_one_decoder_and_a_bounded_number_of_hints() -> None:
    before = len(plans._plans)
    hints = [tuple[int, dict[str, list[float]]] for _ in range(3_000)]

    for hint in hints:
        assert plan_for(hint, HERE).read(b"[1,{}]") == (1, {})

    assert len(plans._plans) <= before + 1
    assert len(plans._known) <= 1_024


def test_the_order_of_a_union_counts() -> None:
    cat, dog = (plan_for(hint, HERE).read(b'{"name":"x"}') for hint in (Cat | Dog, Dog | Cat))

    assert (type(cat), type(dog)) == (Cat, Dog)


@pytest.mark.parametrize("metadata", [[1], {"unit": "mm"}])
def test_an_annotation_that_cannot_be_hashed_is_read(metadata: Any) -> None:
    assert plan_for(Annotated[int, metadata], HERE).read(b"1") == 1
