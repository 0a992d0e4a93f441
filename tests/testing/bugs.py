"""Workflows as their authors should not have written them, each beside its correct twin."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from stepwell import Context, Fatal, StepContext, Workflow, step, workflow
from stepwell.testing import send


@dataclass
class Outside:
    """The world outside of all workflows: what happened in it, and what it remembers."""

    happened: list[str] = field(default_factory=list)
    by_key: dict[str, str] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)

    def clear(self) -> None:
        self.happened.clear()
        self.by_key.clear()
        self.flags.clear()

    def once(self, key: str, what: str) -> str:
        """What a service does that takes an idempotency key."""
        if key not in self.by_key:
            self.by_key[key] = what
            self.happened.append(what)
        return self.by_key[key]


WORLD = Outside()


class Bug(NamedTuple):
    """A planted bug: what the sweep must say of it, and nothing of its twin."""

    wrong: Workflow[Any, Any]
    right: Workflow[Any, Any]
    says: str
    options: dict[str, Any] = {}


# --- 1: an effect before its record, and no idempotency key, where at most once was promised ---


@step(name="charge")
async def charge_blindly(amount: int) -> str:
    WORLD.happened.append(f"charged {amount}")
    return "paid"


@step(name="charge")
async def charge_by_key(ctx: StepContext, amount: int) -> str:
    WORLD.once(ctx.idempotency_key, f"charged {amount}")
    return "paid"


@workflow(name="paying_blindly")
async def paying_blindly(ctx: Context) -> str:
    return await ctx.step(charge_blindly, 42)


@workflow(name="paying_by_key")
async def paying_by_key(ctx: Context) -> str:
    return await ctx.step(charge_by_key, 42)


# --- 2: state in a global variable ---

_SERVED: set[str] = set()


async def greet(name: str) -> str:
    return f"hello {name}"


async def ignore(name: str) -> str:
    return f"{name} again"


@workflow
async def remembering_in_a_global(ctx: Context) -> str:
    if ctx.run_id in _SERVED:
        return await ctx.step(ignore, "ann")
    _SERVED.add(ctx.run_id)
    greeting = await ctx.step(greet, "ann")
    await ctx.step("log", greet, "log")
    return greeting


@workflow
async def remembering_in_a_variable(ctx: Context) -> str:
    served: set[str] = set()
    greeting = ""
    if ctx.run_id not in served:
        served.add(ctx.run_id)
        greeting = await ctx.step(greet, "ann")
    await ctx.step("log", greet, "log")
    return greeting


# --- 3: randomness outside of a step ---


async def send_code(code: int) -> None:
    WORLD.happened.append(f"sent {code}")


async def store_code(code: int) -> None:
    WORLD.by_key["code"] = str(code)


@workflow
async def drawing_by_itself(ctx: Context) -> int:
    code = random.randrange(1 << 60)
    await ctx.step(send_code, code)
    await ctx.step(store_code, code)
    return code


@workflow
async def drawing_by_context(ctx: Context) -> int:
    code = int(ctx.random() * (1 << 50))
    await ctx.step("send_code", record_code, code)
    await ctx.step(store_code, code)
    return code


async def record_code(ctx: StepContext, code: int) -> None:
    WORLD.once(ctx.idempotency_key, f"sent {code}")


# --- 4: the wall clock outside of a step ---


async def announce(when: str) -> str:
    return f"until {when}"


@workflow
async def dating_by_itself(ctx: Context) -> str:
    return await ctx.step(announce, (datetime.now(UTC) + timedelta(days=7)).isoformat())


@workflow
async def dating_by_context(ctx: Context) -> str:
    return await ctx.step(announce, (ctx.now() + timedelta(days=7)).isoformat())


# --- 5: a compensation that must not run twice ---


async def pay_back(amount: int) -> None:
    WORLD.happened.append(f"paid back {amount}")


async def pay_back_by_key(ctx: StepContext, amount: int) -> None:
    WORLD.once(ctx.idempotency_key, f"paid back {amount}")


@step(compensate=pay_back)
async def take_blindly(amount: int) -> None: ...


@step(compensate=pay_back_by_key)
async def take_by_key(amount: int) -> None: ...


async def explode() -> None:
    raise Fatal("out of stock")


@workflow
async def paying_back_blindly(ctx: Context) -> None:
    await ctx.step(take_blindly, 42)
    await ctx.step(explode)


@workflow
async def paying_back_by_key(ctx: Context) -> None:
    await ctx.step(take_by_key, 42)
    await ctx.step(explode)


# --- 6: a step that speaks through a variable of the workflow ---


@workflow
async def speaking_by_a_variable(ctx: Context) -> str:
    found: dict[str, str] = {}

    async def look() -> None:
        found["price"] = "42 EUR"

    await ctx.step("look", look)
    await ctx.step("log", greet, "log")
    return found.get("price", "nothing")


@workflow
async def speaking_by_a_result(ctx: Context) -> str:
    async def look() -> str:
        return "42 EUR"

    price = await ctx.step("look", look)
    await ctx.step("log", greet, "log")
    return price


# --- 7: a counter in a mutable default ---


def next_number(count: list[int] = [0]) -> int:  # noqa: B006
    count[0] += 1
    return count[0]


@workflow
async def counting_in_a_default(ctx: Context) -> None:
    for name in ("ann", "bob"):
        await ctx.step(f"greet {next_number()}", greet, name)


@workflow
async def counting_in_a_loop(ctx: Context) -> None:
    for number, name in enumerate(("ann", "bob")):
        await ctx.step(f"greet {number}", greet, name)


# --- 8: the order of a set whose elements have no stable hash ---

_ADDRESSES = itertools.count()


class Ticket:
    """Hashed by where it is in memory, as objects are: at another place each time that it is made."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._address = 3 * next(_ADDRESSES)

    def __hash__(self) -> int:
        return self._address


@workflow
async def going_by_a_set(ctx: Context) -> str:
    done: list[str] = []
    for ticket in {Ticket("a"), Ticket("b"), Ticket("c")}:
        done.append(await ctx.step(f"ticket {len(done)}", greet, ticket.name))
    return ", ".join(done)


@workflow
async def going_by_a_list(ctx: Context) -> str:
    done: list[str] = []
    for ticket in sorted({Ticket("a"), Ticket("b"), Ticket("c")}, key=lambda one: one.name):
        done.append(await ctx.step(f"ticket {len(done)}", greet, ticket.name))
    return ", ".join(done)


# --- 9: a branch on the environment that nobody recorded ---


async def migrate() -> None:
    WORLD.flags.add("migrated")


async def has_migrated() -> bool:
    return "migrated" in WORLD.flags


@workflow
async def branching_on_the_world(ctx: Context) -> str:
    if "migrated" not in WORLD.flags:
        await ctx.step(migrate)
    await ctx.step("use", greet, "ann")
    return "used"


@workflow
async def branching_on_a_record(ctx: Context) -> str:
    if not await ctx.step(has_migrated):
        await ctx.step(migrate)
    await ctx.step("use", greet, "ann")
    return "used"


# --- 10: a signal that is handled by an effect in the workflow itself ---


@workflow
async def handling_by_itself(ctx: Context) -> str:
    message = await ctx.receive("mail")
    WORLD.happened.append(f"mailed {message.payload}")
    await ctx.step("log", greet, "log")
    return "handled"


@workflow
async def handling_in_a_step(ctx: Context) -> str:
    message = await ctx.receive("mail")
    await ctx.step("mail", mail, message.payload)
    await ctx.step("log", greet, "log")
    return "handled"


async def mail(ctx: StepContext, address: str) -> None:
    WORLD.once(ctx.idempotency_key, f"mailed {address}")


# --- 11: a result that tells how often the body ran ---


async def take_number() -> int:
    WORLD.happened.append("took a number")
    return len(WORLD.happened)


async def take_number_by_key(ctx: StepContext) -> int:
    WORLD.once(ctx.idempotency_key, "took a number")
    return len(WORLD.happened)


@workflow
async def numbering_by_attempt(ctx: Context) -> int:
    return await ctx.step("number", take_number)


@workflow
async def numbering_by_key(ctx: Context) -> int:
    return await ctx.step("number", take_number_by_key)


_EFFECTS: Callable[[], list[str]] = lambda: list(WORLD.happened)  # noqa: E731

BUGS: dict[str, Bug] = {
    "effect before record": Bug(
        paying_blindly, paying_by_key, "charge was promised at most once", {"at_most_once": ["charge"]}
    ),
    "state in a global": Bug(remembering_in_a_global, remembering_in_a_variable, "hello ann"),
    "random outside a step": Bug(drawing_by_itself, drawing_by_context, "another output", {"effects": _EFFECTS}),
    "wall clock outside a step": Bug(dating_by_itself, dating_by_context, "another output"),
    "compensation that is not idempotent": Bug(
        paying_back_blindly,
        paying_back_by_key,
        "the effect 'paid back 42' happened twice instead of once",
        {"effects": _EFFECTS},
    ),
    "step that speaks through a variable": Bug(
        speaking_by_a_variable, speaking_by_a_result, "another output: 'nothing' instead of '42 EUR'"
    ),
    "counter in a mutable default": Bug(counting_in_a_default, counting_in_a_loop, "greet 1"),
    "order of a set": Bug(going_by_a_set, going_by_a_list, "another output"),
    "branch on the environment": Bug(branching_on_the_world, branching_on_a_record, "migrate"),
    "signal handled in the body": Bug(
        handling_by_itself,
        handling_in_a_step,
        "the effect 'mailed ann' happened twice instead of once",
        {"effects": _EFFECTS, "script": [send("mail", "ann")]},
    ),
    "result that counts bodies": Bug(
        numbering_by_attempt, numbering_by_key, "another output: 2 instead of 1", {"effects": _EFFECTS}
    ),
}
