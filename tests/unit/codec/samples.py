"""Types and a codec that the tests of this folder share."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import typing
import uuid
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from stepwell.codec.base import ANY, Place
from stepwell.codec.json_codec import JsonCodec

T = TypeVar("T")
CODEC = JsonCodec()
PLACE = Place("checkout", "payment/charge", "the result")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Line:
    sku: str
    amount: int


@dataclasses.dataclass
class Order:
    id: uuid.UUID
    lines: list[Line]
    total: decimal.Decimal
    at: datetime.datetime
    colour: Colour = Colour.RED
    note: str | None = None


@dataclasses.dataclass
class Box(Generic[T]):
    content: T
    more: list[T] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Node:
    value: int
    children: list[Node] = dataclasses.field(default_factory=list)


class Point(msgspec.Struct):
    x: int
    y: float = 0.0


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    tricks: list[str]


class Pair(NamedTuple):
    left: int
    right: str


class Movie(typing.TypedDict):
    title: str
    year: typing.NotRequired[int]


class Session:
    """A class that nothing can store."""


def round_trip(value: Any, hint: Any = ANY) -> Any:
    return CODEC.decode(CODEC.encode(value, hint, place=PLACE), hint, place=PLACE)
