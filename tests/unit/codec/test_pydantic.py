"""Pydantic models, alone, nested, in unions; and a codec that does not need pydantic."""

from __future__ import annotations

import dataclasses
import datetime
import math
import subprocess
import sys
from typing import Any, Literal

import pydantic
import pytest

from stepwell.errors import CorruptRecordError, InvalidInputError, UnserialisableError, UnsupportedTypeError
from tests.unit.codec.samples import CODEC, PLACE, Box, Line, Session, round_trip


class Person(pydantic.BaseModel):
    name: str
    age: int = 0
    born: datetime.date | None = None


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="allow")
    at: datetime.datetime
    tags: set[str]


class Aliased(pydantic.BaseModel):
    inner: int = pydantic.Field(validation_alias="in", serialization_alias="out")


class Circle(pydantic.BaseModel):
    kind: Literal["circle"] = "circle"
    radius: float


class Square(pydantic.BaseModel):
    kind: Literal["square"] = "square"
    side: float


class Twin(pydantic.BaseModel):
    name: str
    age: int = 0


class Vault(pydantic.BaseModel):
    key: pydantic.SecretStr


@dataclasses.dataclass
class Team:
    lead: Person
    people: list[Person]
    by_name: dict[str, Person | None]


@dataclasses.dataclass
class Drawing:
    shapes: list[Circle | Square]


ANN = Person(name="ann", age=3, born=datetime.date(2020, 1, 2))
DAY = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (ANN, Person),
        ([ANN], list[Person]),
        (None, Person | None),
        (Team(ANN, [ANN], {"a": ANN, "b": None}), Team),
        (Strict.model_validate({"at": DAY, "tags": {"a"}, "more": 1}), Strict),
        ([Strict(at=DAY, tags={"a"})], list[Strict]),
        (Aliased.model_validate({"in": 5}), Aliased),
        (Square(side=1), Circle | Square),
        (7, Circle | int),
        ([Circle(radius=1), Square(side=2)], list[Circle | Square]),
        (Drawing([Circle(radius=1), Square(side=2)]), Drawing),
    ],
)
def test_models_read_back_as_equal_models(value: Any, hint: Any) -> None:
    back = round_trip(value, hint)

    assert back == value
    assert type(back) is type(value)


def test_a_model_without_a_hint_comes_back_as_plain_json() -> None:
    assert round_trip([ANN]) == [{"name": "ann", "age": 3, "born": "2020-01-02"}]


def test_all_violations_of_a_model_are_listed() -> None:
    with pytest.raises(InvalidInputError) as caught:
        CODEC.decode(b'j{"age":"x","born":5.5}', Person, place=PLACE)

    assert caught.value.violations[:2] == (
        "`name`: missing",
        "`age`: input should be a valid integer, unable to parse string as an integer, got 'x'",
    )
    assert caught.value.violations[2].startswith("`born`: ")


def test_all_violations_of_nested_models_are_listed() -> None:
    with pytest.raises(InvalidInputError) as caught:
        CODEC.decode(b'j{"lead":{},"people":[{"name":1},{"name":"b","age":"x"}],"by_name":{}}', Team, place=PLACE)

    assert caught.value.violations == (
        "`lead.name`: missing",
        "`people[0].name`: input should be a valid string, got 1",
        "`people[1].age`: input should be a valid integer, unable to parse string as an integer, got 'x'",
    )


def test_a_union_of_models_lists_its_violations_too() -> None:
    with pytest.raises(InvalidInputError) as caught:
        CODEC.decode(b'j[{"kind":"square"}]', list[Circle | Square], place=PLACE)

    assert any("side`: missing" in violation for violation in caught.value.violations)


@pytest.mark.parametrize("hint", [Person, list[Person], Circle | Square])
def test_damaged_bytes_are_a_corrupt_record(hint: Any) -> None:
    with pytest.raises(CorruptRecordError):
        CODEC.decode(b'j{"name":', hint, place=PLACE)


def test_models_and_plain_data_are_validated_as_input() -> None:
    assert CODEC.validate(ANN, Person, place=PLACE) == ANN
    assert CODEC.validate({"name": "ann", "age": 3, "born": datetime.date(2020, 1, 2)}, Person, place=PLACE) == ANN
    assert CODEC.validate([{"kind": "square", "side": 1}], list[Circle | Square], place=PLACE) == [Square(side=1)]
    with pytest.raises(InvalidInputError) as caught:
        CODEC.validate({"lead": ANN, "people": [{}], "by_name": {"a": {"name": 1}}}, Team, place=PLACE)
    assert caught.value.violations == (
        "`people[0].name`: missing",
        "`by_name.a.name`: input should be a valid string, got 1",
    )


def test_external_text_is_read_as_a_model() -> None:
    assert CODEC.decode_external('{"name": "ann", "age": 3, "born": "2020-01-02"}', Person, place=PLACE) == ANN
    with pytest.raises(InvalidInputError, match="occurs twice"):
        CODEC.decode_external('{"name": "a", "name": "b"}', Person, place=PLACE)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([Circle(radius=math.nan)], "`result[0].radius`: it is nan"),
        (Person(name="\0"), "`result.name`: it contains the character U+0000"),
        (Vault(key=pydantic.SecretStr("x")), "`result.key`: it is a pydantic secret"),
        (Person.model_construct(name=Session()), "`result`: "),
    ],
)
def test_what_a_model_hides_is_refused(value: Any, why: str) -> None:
    with pytest.raises(UnserialisableError) as caught:
        CODEC.encode(value, place=PLACE)

    assert caught.value.why.startswith(why)


def test_a_union_whose_members_look_alike_is_refused_rather_than_read_back_as_the_wrong_one() -> None:
    with pytest.raises(UnserialisableError, match="reads back as another value"):
        CODEC.encode(Twin(name="a"), Person | Twin, place=PLACE)


def test_a_union_of_dataclasses_stays_refused_when_no_model_is_involved() -> None:
    with pytest.raises(UnsupportedTypeError, match="more than one dataclass"):
        CODEC.prepare(Line | Box[int], place=PLACE)


def test_the_codec_never_imports_pydantic_by_itself() -> None:
    program = (
        "import sys, dataclasses\n"
        "from stepwell.codec.base import ANY, Place\n"
        "from stepwell.codec.json_codec import JsonCodec\n"
        "import stepwell.codec.signatures\n"
        "codec, place = JsonCodec(), Place('w', 'p')\n"
        "codec.decode(codec.encode({'a': [None]}, place=place), dict[str, list[None]], place=place)\n"
        "try: codec.encode(object(), place=place)\n"
        "except Exception as error: print(error.code)\n"
        "try: codec.decode(b'j1', str, place=place)\n"
        "except Exception as error: print(error.code)\n"
        "print('pydantic' in sys.modules)\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["SW301", "SW310", "False"]
