"""Small random workflows as data, so that they can be changed in ways that people change code."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sim.plain import twin_of
from stepwell import (
    Break,
    Context,
    Continue,
    Fatal,
    Step,
    StepContext,
    StepFailed,
    Workflow,
    signal,
    step,
    timer,
    workflow,
)
from stepwell.replay import steps
from tests.cases.ledger import Ledger

TYPES: list[tuple[Any, Any]] = [(int, 7), (str, "seven"), (list[int], [7]), (dict[str, int], {"n": 7}), (bool, True)]

LEAVES = [
    "step",
    "step",
    "step",
    "undoable",
    "undoable",
    "failing",
    "flaky",
    "once",
    "sleep",
    "receive",
    "child",
    "version",
    "checkpoint",
    "emit",
    "stream",
    "wait_any",
    "spawn",
    "describe",
]
NESTS = ["join", "race", "loop", "map", "gather", "saga"]
REMOVABLE = {
    "step": "step",
    "undoable": "step",
    "saga": "step",
    "failing": "step",
    "flaky": "step",
    "once": "once",
    "sleep": "sleep",
    "receive": "receive",
    "child": "child",
    "checkpoint": "checkpoint",
    "emit": "emit",
    "wait_any": "wait_any",
    "spawn": "spawn",
    "join": "join",
    "race": "race",
    "loop": "loop",
    "map": "map",
}


@dataclass(frozen=True)
class Node:
    """One operation, with what is inside of it."""

    kind: str
    name: str
    type: int = 0  # of its result, or of its state
    body: tuple[tuple[Node, ...], ...] = ()
    guard: str = ""  # the gate that it stands behind
    removed: str = ""  # the kind that it had; only the declaration is left of it


@dataclass(frozen=True)
class Program:
    """A workflow."""

    nodes: tuple[Node, ...]
    input: int = 0
    ends_badly: bool = False  # it raises at its end, and is undone
    helper: int = 0  # the type of what its children give


@dataclass
class Author:
    """Makes programs and the changes to them, all names different."""

    chance: random.Random
    _names: Iterator[int] = field(default_factory=itertools.count)

    def program(self) -> Program:
        nodes = tuple(self.node(0) for _ in range(self.chance.randint(3, 7)))
        return Program(nodes, self._type(), self.chance.random() < 0.35)

    def node(self, depth: int) -> Node:
        if depth < 2 and self.chance.random() < 0.3:
            kind = self.chance.choice(NESTS)
            lists = self.chance.randint(2, 3) if kind in ("join", "race", "gather") else 1
            body = tuple(tuple(self.node(depth + 1) for _ in range(self.chance.randint(1, 3))) for _ in range(lists))
            return Node(kind, self._name(kind), self._type(), body)
        kind = self.chance.choice(LEAVES)
        return Node(kind, self._name(kind), self._type())

    def change(self, program: Program) -> tuple[str, Program]:
        """One change to a program, and what it is called."""
        kinds = ["rename", "insert", "delete", "reorder", "kind", "type", "gated insert", "declared removal"]
        while True:
            what = self.chance.choice(kinds)
            changed = self._change(what, program)
            if changed != program:
                return what, changed

    def _change(self, what: str, program: Program) -> Program:
        if what == "type" and self.chance.random() < 0.15:
            return replace(program, input=self._type())
        if what == "type" and self.chance.random() < 0.2:
            return replace(program, helper=self._type())
        lists = list(_lists(program.nodes))
        at = self.chance.choice(lists)
        nodes = list(_find(program.nodes, at))
        place = self.chance.randrange(len(nodes)) if nodes else 0
        match what:
            case "insert":
                nodes.insert(self.chance.randint(0, len(nodes)), self.node(1))
            case "gated insert":
                added = self.node(2)
                nodes.insert(self.chance.randint(0, len(nodes)), replace(added, guard=f"gate {added.name}"))
            case _ if not nodes:
                return program
            case "rename":
                nodes[place] = replace(nodes[place], name=self._name(nodes[place].kind))
            case "delete":
                del nodes[place]
            case "declared removal":
                if nodes[place].kind not in REMOVABLE or nodes[place].removed:
                    return program
                nodes[place] = replace(nodes[place], removed=REMOVABLE[nodes[place].kind])
            case "reorder":
                self.chance.shuffle(nodes)
            case "kind":
                other = self.node(1)
                nodes[place] = replace(other, name=nodes[place].name)
            case "type":
                nodes[place] = replace(nodes[place], type=self._type())
            case _:
                raise AssertionError(what)
        return replace(program, nodes=_put(program.nodes, at, tuple(nodes)))

    def _type(self) -> int:
        return self.chance.randrange(len(TYPES))

    def _name(self, kind: str) -> str:
        return f"{kind}{next(self._names)}"


# A list of nodes is known by the way to it: the number of a node, then which of its lists, and so on.
Way = tuple[tuple[int, int], ...]


def _lists(nodes: tuple[Node, ...], way: Way = ()) -> Iterator[Way]:
    yield way
    for number, node in enumerate(nodes):
        for branch, inner in enumerate(node.body):
            yield from _lists(inner, (*way, (number, branch)))


def _find(nodes: tuple[Node, ...], way: Way) -> tuple[Node, ...]:
    for number, branch in way:
        nodes = nodes[number].body[branch]
    return nodes


def _put(nodes: tuple[Node, ...], way: Way, new: tuple[Node, ...]) -> tuple[Node, ...]:
    if not way:
        return new
    (number, branch), *rest = way
    node = nodes[number]
    body = tuple(_put(inner, tuple(rest), new) if at == branch else inner for at, inner in enumerate(node.body))
    return (*nodes[:number], replace(node, body=body), *nodes[number + 1 :])


# --- running them ---


def helper_of(program: Program) -> Workflow[Any, Any]:
    """The child of a program."""

    async def help(ctx: Context, number: int):
        await ctx.sleep("nap", "2s")
        return TYPES[program.helper][1]

    made: Workflow[Any, Any] = workflow(name="helper")(typed(help, program.helper))
    return made


class World(NamedTuple):
    """What the operations of one program share."""

    ledger: Ledger
    steps: dict[str, Step[..., Any]]
    is_plain: bool
    helper: Workflow[Any, Any]


def _walk(nodes: tuple[Node, ...]) -> Iterator[Node]:
    for node in nodes:
        if not node.removed:
            yield node
            for inner in node.body:
                yield from _walk(inner)


def typed(fn: Callable[..., Any], number: int, *, at: str = "return") -> Any:
    """A function with this annotation."""
    fn.__annotations__[at] = TYPES[number][0]
    return fn


def build(program: Program, ledger: Ledger, *, is_plain: bool = False) -> Workflow[Any, Any]:
    """The workflow of a program. Its bodies take a second, and write into the ledger what they did. Plain: as a `def`,
    which can do but one thing at a time outside of joins.
    """

    # As the functions of a module are: known before any run begins, and whatever the run has passed.
    steps = {node.name: _undoable(node, ledger) for node in _walk(program.nodes) if node.kind in ("undoable", "saga")}
    world = World(ledger, steps, is_plain, helper_of(program))
    for node in _walk(program.nodes):
        if node.kind == "saga":
            steps[node.name] = _saga(node, world)

    async def main(ctx, given):
        await _run_all(ctx, program.nodes, world)
        if program.ends_badly:
            raise ValueError("a bad end")

    main.__annotations__ = {"ctx": Context, "given": TYPES[program.input][0], "return": None}
    made = workflow(name="program")(main)
    return twin_of(made) if is_plain else made


async def _run_all(ctx: Context, nodes: tuple[Node, ...], world: World) -> None:
    for node in nodes:
        if node.removed:
            ctx.removed(node.name, node.removed)
        elif not node.guard or ctx.version(node.guard, 2) >= 2:
            await _run(ctx, node, world)


def _undoable(node: Node, ledger: Ledger) -> Step[..., Any]:
    async def undo() -> None:
        await asyncio.sleep(1)
        ledger.note(f"undo {node.name}")

    return _at_the_top(node, _body(node, ledger), undo)


def _saga(node: Node, world: World) -> Step[..., Any]:
    """A step whose compensation is workflow code of its own: what is inside of it."""

    async def undo(ctx: Context) -> None:
        await _run_all(ctx, node.body[0], world)

    return _at_the_top(node, _body(node, world.ledger), undo)


def _at_the_top(node: Node, act: Any, undo: Any) -> Step[..., Any]:
    """A step of functions that this module has under their names, until the code is forgotten. A race, a loop and the
    branches of a plain function are not run again by a replay: what undoes their steps is found by its name there.
    """
    undo.__qualname__ = f"undo_{node.name}"
    for fn in (act, undo):
        _DEFINED[fn.__qualname__] = globals()[fn.__qualname__] = fn
    return step(act, name=node.name, compensate=undo)


_DEFINED: dict[str, Any] = {}  # what programs have put at the top of this module


def forget_functions() -> None:
    """A new process knows only what its own code defines."""
    for name in _DEFINED:
        del globals()[name]
    _DEFINED.clear()
    for known in (steps._STEPS, steps._COMPENSATIONS):
        for name in [name for name in known if name.startswith(f"{__name__}:")]:
            del known[name]


def _body(node: Node, ledger: Ledger, *, fails: int = 0) -> Any:
    async def act(info: StepContext):
        await asyncio.sleep(1)
        ledger.note(node.name)
        if info.attempt <= fails:
            raise Fatal("never") if fails > 100 else ConnectionError("away")
        return TYPES[node.type][1]

    act.__qualname__ = f"act_{node.name}"
    return typed(act, node.type)


async def _run(ctx: Context, node: Node, world: World) -> None:
    name, value = node.name, TYPES[node.type][1]
    match node.kind:
        case "step":
            await ctx.step(name, _body(node, world.ledger))
        case "undoable" | "saga":
            await ctx.step(world.steps[name])
        case "failing":
            try:
                await ctx.step(name, _body(node, world.ledger, fails=1_000))
            except StepFailed:
                pass
        case "flaky":
            await ctx.step(name, _body(node, world.ledger, fails=2))
        case "once":
            await ctx.once(name, typed(lambda: value, node.type))
        case "sleep":
            await ctx.sleep(name, f"{2 + 2 * node.type}s")
        case "receive":
            await ctx.receive(name)
        case "child":
            await ctx.child(world.helper, node.type, name=name)
        case "spawn":
            await ctx.spawn(world.helper, node.type, name=name)
        case "version":
            ctx.version(name, 2)
        case "checkpoint":
            await ctx.rollback_checkpoint(name)
        case "describe":
            ctx.set_attributes({name: node.type})
            ctx.set_title(name)
            ctx.add_tags(name)
            ctx.remove_tags(name)
        case "emit":
            await ctx.emit("told", value, name=name)
        case "stream":
            await ctx.stream(name).append(value)
        case "wait_any":
            await ctx.wait_any(name, came=signal(name), late=timer(f"{3 + node.type}s"))
        case _:
            await _nest(ctx, node, world)


async def _nest(ctx: Context, node: Node, world: World) -> None:
    value = TYPES[node.type][1]

    def branch(nodes: tuple[Node, ...]) -> Callable[[Context], Awaitable[Any]]:
        async def run(inner: Context):
            await _run_all(inner, nodes, world)
            return value

        return typed(run, node.type)

    match node.kind:
        case "join":
            await ctx.join(node.name, {f"b{number}": branch(nodes) for number, nodes in enumerate(node.body)})
        case "race":
            await ctx.race(node.name, {f"b{number}": branch(nodes) for number, nodes in enumerate(node.body)})
        case "gather" if world.is_plain:
            for nodes in node.body:
                await _run_all(ctx, nodes, world)
        case "gather":
            await asyncio.gather(*(_run_all(ctx, nodes, world) for nodes in node.body))
        case "map":

            async def one(inner: Context, item: int):
                await _run_all(inner, node.body[0], world)
                return value

            await ctx.map(node.name, typed(one, node.type), [0, 1], limit=2)
        case "loop":

            async def turn(inner: Context, state: Any):
                await _run_all(inner, node.body[0], world)
                return Break(value) if inner.random() < 0.3 else Continue(value)

            await ctx.loop(node.name, typed(turn, node.type, at="state"), value, trim_every=2, keep=1)
        case _:
            raise AssertionError(node.kind)
