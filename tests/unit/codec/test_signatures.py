"""What annotations say, and calls as payloads."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any

import pytest

from stepwell.codec.base import ANY, Place, Unresolved
from stepwell.codec.json_codec import JsonCodec
from stepwell.codec.signatures import MISSING, decode_call, encode_call, hints_of
from stepwell.errors import (
    CorruptRecordError,
    InvalidInputError,
    PayloadTooLargeError,
    UnserialisableError,
    UnsupportedTypeError,
)
from tests.unit.codec.samples import CODEC, Box, Line, Session

if TYPE_CHECKING:
    from nowhere import Ghost  # type: ignore[import-not-found]

CALL = Place("checkout", "payment/charge", "the arguments")


async def charge(ctx: Any, line: Line, *more: int, note: str = "", **rest: Box[Line]) -> list[Line]:
    return [line]


def haunted(ghost: Ghost, line: Line) -> Line:
    return line


class Shop:
    def sell(self, line: Line) -> int:
        return line.amount

    def __call__(self, line: Line) -> str:
        return line.sku


def test_names_hints_kinds_defaults_and_the_return_type_are_read() -> None:
    signature = hints_of(charge)

    assert [(p.name, p.hint, p.kind.name, p.default) for p in signature.parameters] == [
        ("ctx", Any, "POSITIONAL_OR_KEYWORD", MISSING),
        ("line", Line, "POSITIONAL_OR_KEYWORD", MISSING),
        ("more", int, "VAR_POSITIONAL", MISSING),
        ("note", str, "KEYWORD_ONLY", ""),
        ("rest", Box[Line], "VAR_KEYWORD", MISSING),
    ]
    assert signature.returns == list[Line]


def test_a_signature_is_read_once() -> None:
    assert hints_of(charge) is hints_of(charge)


def test_a_parameter_without_annotation_is_anything() -> None:
    assert hints_of(lambda x: x).parameters[0].hint is ANY
    assert hints_of(lambda x: x).returns is ANY


def test_methods_callable_objects_classes_and_partials_have_signatures() -> None:
    for fn, returns in ((Shop().sell, int), (Shop(), str), (Shop.sell, int), (functools.partial(Shop().sell), int)):
        assert hints_of(fn).parameters[-1].hint is Line
        assert hints_of(fn).returns is returns
    assert [p.hint for p in hints_of(Line).parameters] == [str, int]
    assert hints_of(Line).returns is Line


def test_a_wrapped_function_keeps_its_annotations() -> None:
    @functools.wraps(charge)
    async def wrapper(*args: Any, **kwargs: Any) -> Any: ...

    assert hints_of(wrapper) == hints_of(charge)


def test_a_callable_without_a_readable_signature_takes_anything() -> None:
    signature = hints_of(dict)

    assert signature.positional(3).hint is ANY
    assert signature.keyword("x").hint is ANY


def test_a_function_that_returns_an_awaitable_is_known_by_what_awaiting_gives() -> None:
    def later() -> Awaitable[int]:
        raise NotImplementedError

    def coroutine() -> Coroutine[Any, Any, list[str]]:
        raise NotImplementedError

    assert hints_of(later).returns is int
    assert hints_of(coroutine).returns == list[str]


def test_names_of_an_enclosing_function_are_found_if_the_function_uses_them() -> None:
    class Local(Line):
        pass

    def make(line: Local) -> Line:
        return Local(line.sku, 1)

    assert hints_of(make).parameters[0].hint is Local


def test_an_annotation_that_cannot_be_resolved_is_refused_only_when_it_is_used() -> None:
    signature = hints_of(haunted)

    assert signature.returns is Line
    assert signature.parameters[1].hint is Line
    assert isinstance(signature.parameters[0].hint, Unresolved)
    with pytest.raises(UnsupportedTypeError) as caught:
        CODEC.decode(b'j{"a":1}', signature.parameters[0].hint, place=CALL)
    assert caught.value.title == "the annotation 'Ghost' of `ghost` in haunted cannot be resolved"
    assert caught.value.why == "NameError: name 'Ghost' is not defined"


def test_a_call_is_stored_as_one_golden_payload() -> None:
    payload = encode_call((Line("a", 1), 2), {"note": "n"}, charge, place=CALL, codec=CODEC, skip=1)

    assert payload == b'j{"a":[{"sku":"a","amount":1},2],"k":{"note":"n"}}'


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        ((Line("a", 1),), {}),
        ((Line("a", 1), 2, 3), {"note": "x", "box": Box(Line("b", 2))}),
        ((), {"line": Line("a", 1), "odd name": Box(Line("b", 2))}),
    ],
)
def test_arguments_come_back_as_the_annotated_types(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    payload = encode_call(args, kwargs, charge, place=CALL, codec=CODEC, skip=1)

    assert decode_call(payload, charge, place=CALL, codec=CODEC, skip=1) == (args, kwargs)


def test_an_argument_that_the_function_no_longer_has_comes_back_as_plain_json() -> None:
    payload = encode_call((Line("a", 1), Line("b", 2)), {"x": Line("c", 3)}, charge, place=CALL, codec=CODEC)

    def shorter(line: Line) -> None: ...

    assert decode_call(payload, shorter, place=CALL, codec=CODEC) == (
        (Line("a", 1), {"sku": "b", "amount": 2}),
        {"x": {"sku": "c", "amount": 3}},
    )


def test_an_argument_that_cannot_be_stored_is_named_after_its_parameter() -> None:
    with pytest.raises(UnserialisableError) as caught:
        encode_call((), {"box": Box([Session()])}, charge, place=CALL, codec=CODEC, skip=1)
    assert caught.value.title == "the arguments of `payment/charge` cannot be stored"
    assert caught.value.why.startswith("`rest.content[0]`: ")

    with pytest.raises(UnserialisableError) as caught:
        encode_call((Line("\0", 1),), {}, charge, place=CALL, codec=CODEC, skip=1)
    assert caught.value.why.startswith("`line.sku`: ")


def test_a_stored_argument_that_does_not_fit_any_more_is_named_after_its_parameter() -> None:
    with pytest.raises(InvalidInputError) as caught:
        decode_call(b'j{"a":[{"sku":5}],"k":{}}', charge, place=CALL, codec=CODEC, skip=1)

    assert caught.value.violations == ("`line.amount`: missing", "`line.sku`: expected str, got 5")


def test_all_arguments_together_are_limited() -> None:
    codec = JsonCodec(payload_bytes_max=100)

    with pytest.raises(PayloadTooLargeError, match="the limit is 100 bytes"):
        encode_call(("x" * 60, "y" * 60), {}, print, place=CALL, codec=codec)


@pytest.mark.parametrize("payload", [b"", b"x", b"j", b'j{"a":['])
def test_a_damaged_call_is_a_corrupt_record(payload: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        decode_call(payload, charge, place=CALL, codec=CODEC)


@pytest.mark.parametrize("payload", [b"j[]", b'j{"a":[]}', b'j{"a":5,"k":{}}', b'j{"a":[],"k":{},"f":"os.system"}'])
def test_a_payload_that_is_no_call_is_refused(payload: bytes) -> None:
    with pytest.raises(InvalidInputError):
        decode_call(payload, charge, place=CALL, codec=CODEC)
