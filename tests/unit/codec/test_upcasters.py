"""Up-casters: values of old shapes, read as the code is now."""

from __future__ import annotations

import dataclasses
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from stepwell.codec.base import Codec
from stepwell.codec.json_codec import JsonCodec
from stepwell.codec.upcasters import CALLS_MAX
from stepwell.errors import InvalidInputError, InvalidOptionError
from tests.unit.codec.layered import at, layered


@dataclasses.dataclass
class Order:  # version 3; 2 had `sku`, 1 had a bare `item`
    skus: list[str]
    amount: int = 1


@dataclasses.dataclass
class Basket:
    orders: list[Order]
    gift: Order | None = None
    by_day: dict[str, Order] = dataclasses.field(default_factory=dict)


class Struct(msgspec.Struct):
    order: Order


class Dict(TypedDict):
    order: Order


class Model(pydantic.BaseModel):
    name: str


V1, V2, V3 = {"item": "a"}, {"sku": "a", "amount": 2}, {"skus": ["a"], "amount": 3}


def from_v1(old: dict[str, Any]) -> dict[str, Any]:
    return {"sku": old.pop("item"), "amount": 1}


def from_v2(old: dict[str, Any]) -> dict[str, Any]:
    old["skus"] = [old.pop("sku")]
    return old


@pytest.fixture
def codec() -> Codec:
    codec = JsonCodec()
    codec.register_upcaster(Order, from_v1)
    codec.register_upcaster(Order, from_v2)
    return codec


def read(codec: Codec, plain: Any, hint: Any) -> Any:
    return codec.decode(codec.encode(plain, place=at()), hint, place=at())


@pytest.mark.parametrize(("stored", "amount"), [(V1, 1), (V2, 2), (V3, 3)])
def test_each_version_is_read_as_the_newest(codec: Codec, stored: Any, amount: int) -> None:
    assert read(codec, stored, Order) == Order(["a"], amount)


def test_old_values_are_found_wherever_the_type_is(codec: Codec) -> None:
    basket = {"orders": [V1, V3, V2], "gift": V2, "by_day": {"monday": V1}}
    one, two, three = Order(["a"], 1), Order(["a"], 2), Order(["a"], 3)

    assert read(codec, basket, Basket) == Basket([one, three, two], two, {"monday": one})
    assert read(codec, [V1, None], list[Order | None]) == [one, None]
    assert read(codec, {"order": V2}, Struct) == Struct(two)
    assert read(codec, {"order": V2}, Dict) == {"order": two}


def test_a_pydantic_model_may_have_one() -> None:
    codec = JsonCodec()
    codec.register_upcaster(Model, lambda old: {"name": old["title"]})

    assert read(codec, {"title": "x"}, Model) == Model(name="x")


def test_what_stays_unfit_is_told_as_it_is_stored(codec: Codec) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read(codec, {"amount": "many"}, Order)

    assert caught.value.violations[:2] == ("`skus`: missing", "`amount`: expected int, got 'many'")
    assert caught.value.violations[2:] == (
        f"the up-caster `from_v2` of {__name__}.Order failed: KeyError",
        f"the up-caster `from_v1` of {__name__}.Order failed: KeyError",
    )


def test_a_value_from_outside_is_not_lifted(codec: Codec) -> None:
    with pytest.raises(InvalidInputError):
        codec.decode_external('{"item":"a"}', Order, place=at())
    with pytest.raises(InvalidInputError):
        codec.validate(V1, Order, place=at())


@pytest.mark.parametrize("name", layered())
def test_layers_pass_them_on(name: str) -> None:
    codec = layered()[name]
    codec.register_upcaster(Order, from_v2)

    assert read(codec, V2, Order) == Order(["a"], 2)


def test_an_upcaster_cannot_spoil_what_it_was_given(codec: Codec) -> None:
    codec.register_upcaster(Basket, lambda old: old.clear() or old)

    assert read(codec, {"orders": [V1]}, Basket) == Basket([Order(["a"], 1)])


def test_the_number_of_calls_is_bounded() -> None:
    @dataclasses.dataclass
    class Deep:
        inner: Any
        value: int

    Deep.__annotations__["inner"] = Deep
    calls = 0

    def useless(old: Any) -> Any:
        nonlocal calls
        calls += 1
        return dict(old)

    codec = JsonCodec()
    for _ in range(3):
        codec.register_upcaster(Deep, useless)
    stored: Any = {}
    for _ in range(20):
        stored = {"inner": stored, "value": 1}
    with pytest.raises(InvalidInputError):
        read(codec, stored, Deep)
    assert 1_000 < calls <= CALLS_MAX


@pytest.mark.parametrize(("hint", "upcaster"), [(Order, "no function"), ([], from_v1)])
def test_what_cannot_work_is_refused(hint: Any, upcaster: Any) -> None:
    with pytest.raises(InvalidOptionError):
        JsonCodec().register_upcaster(hint, upcaster)
