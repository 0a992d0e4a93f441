"""How runs are described, and how they are found by it."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from stepwell.model.attributes import Attribute, Attributes, Description, read_attribute
from stepwell.stores.base.filters import AttributeTest, Condition, Field, Pattern
from tests.differential.world import World

NAMES = ("n", "s", "x.y-z")
_VALUES: tuple[Any, ...] = (
    *(0, -1, 7, Decimal("7.00"), 0.1, -0.15, 2**70, 2**70 + 1),
    *("", "eu", "EU%_*", "größe 🜁", "7"),
    *(True, False, datetime(2026, 12, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)),
)
_PIECES: tuple[Pattern, ...] = (("e", ""), ("", "_", ""), ("EU%_*",), ("", ""))


def a_value(world: World, name: str) -> Attribute:
    """An attribute in its stored form."""
    return read_attribute(name, world.chance.choice(_VALUES), "")


def attributes(world: World) -> Attributes:
    """What a run begins with."""
    return tuple(a_value(world, name) for name in world.some(list(NAMES), 0.3))


def description(world: World) -> Description:
    """What a commit changes."""
    chance = world.chance
    changes = [
        a_value(world, name) if world.likely(0.7) else Attribute(name, "") for name in world.some(list(NAMES), 0.6)
    ]
    return Description(
        tuple(sorted(changes)),
        chance.choice([None, "", "Ein Titel"]),
        chance.choice([None, (), (("vip", ""),), (("team", "ä"), ("x", "y"))]),
    )


def a_condition(world: World) -> Condition:
    """A condition on an attribute; mostly on one value, which may be compared."""
    name, tests = world.chance.choice(NAMES), list(AttributeTest)
    values = tuple(
        _a_test(world, name, world.chance.choice(tests)) for _ in range(world.chance.choice([1, 1, 1, 2, 0]))
    )
    return Condition(Field.ATTRIBUTE, values, world.likely(0.25), name)


def _a_test(world: World, name: str, test: AttributeTest) -> Pattern:
    match test:
        case AttributeTest.ANY:
            return (test.value,)
        case AttributeTest.LIKE:
            return (test.value, *world.chance.choice(_PIECES))
        case _:
            return (test.value, a_value(world, name).value)
