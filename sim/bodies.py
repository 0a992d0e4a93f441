"""Bodies of steps, and what undoes them: in every form in which code can pass a function."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from typing import Any

from sim.checks.streams import STREAM
from sim.ledger import world_here
from sim.long_steps import LONG_STEPS
from sim.odd import raise_odd
from sim.programs import Node
from sim.transactional_steps import TRANSACTIONAL_STEPS
from sim.witness import WITNESSES
from stepwell.errors import Fatal, RetryAfter
from stepwell.model.headers import TRACE_CONTEXT
from stepwell.model.retries import Retry
from stepwell.replay.outside_calls import flow
from stepwell.replay.step_context import StepContext
from stepwell.replay.steps import Step, step

ATTEMPTS_MAX = 3
FLOW = "sim work"
RETRY = Retry(max_attempts=ATTEMPTS_MAX, initial="50ms", max_delay="1s")


class Flaky(Exception):
    """Goes away when tried again."""


class Broken(Exception):
    """Does not go away."""


# --- bodies --------------------------------------------------------------------------------


async def _work(info: StepContext, node: Node, after: list[str]) -> Any:
    world = world_here()
    world.body_began(info, node)
    if "expects" in node:
        check_headers(info.run_id, info.headers, node)
    _emit(info, node)
    if node["lasts"]:
        await asyncio.sleep(node["lasts"])
    if node["kind"] == "streaming":
        await _stream(info, node)
    return _end(info, node, after)


def _work_sync(info: StepContext, node: Node, after: list[str]) -> Any:
    world_here().body_began(info, node)
    _emit(info, node)
    return _end(info, node, after)


def _work_bare(node: Node, after: list[str]) -> Any:
    """Without a context there is nobody to say which attempt it is."""
    world_here().check_given("", node)
    value = ["did", node["id"], node["value"]]
    if node.get("spoils"):
        _spoil(node, after)
    return value


def check_headers(run_id: str, headers: Mapping[str, str], node: Node) -> None:
    """The headers are those of the program, whoever started it."""
    found = {name: text for name, text in headers.items() if name not in TRACE_CONTEXT}
    if found != node["expects"]:
        text = f"{node['id']} has the headers {found} instead of {node['expects']}"
        WITNESSES.violate("I3", run_id, text)


@flow(FLOW)
async def work_by_name(node: Node) -> Any:
    """What is registered under a name."""
    return _work_bare(node, [])


def _emit(info: StepContext, node: Node) -> None:
    for number in range(node.get("events", 0)):
        info.emit("blue" if number else "red", {"number": number, "attempt": info.attempt})


async def _stream(info: StepContext, node: Node) -> None:
    """Append some chunks; each execution of the body has a tag of its own, as a model never says the same twice."""
    world = world_here()
    tag, stream = world.next_tag(), info.stream(STREAM)
    for number in range(node["chunks"]):
        await stream.append([tag, number])
        world.checker.live.acknowledged[tag] = number + 1
        if info.attempt == 1 and number + 1 == node["breaks"]:
            raise Flaky("in the middle of a stream")


def _end(info: StepContext, node: Node, after: list[str]) -> Any:
    try:
        return _outcome(info, node)
    finally:
        if node.get("spoils"):
            _spoil(node, after)


def _outcome(info: StepContext, node: Node) -> Any:
    world = world_here()
    match node["kind"]:
        case "flaky" if info.attempt <= node["fails"]:
            raise Flaky(f"attempt {info.attempt}")
        case "retry_after" if info.attempt == 1:
            raise RetryAfter(0.4)
        case "bad":
            raise Broken("always")
        case "fatal" | "unsure_always":
            raise Fatal("final")
        case "odd" | "odd_sync":
            return raise_odd(node["odd"])
        case "stuck" if world.are_faults_on:
            raise Fatal("until mended")
        case "poison" if world.are_faults_on and not world.is_mended(info.run_id):
            world.poisoned(info.run_id)
        case _:
            pass
    return ["did", node["id"], node["value"]]


def _spoil(node: Node, after: list[str]) -> None:
    """What bodies do to their arguments: nobody else may see it."""
    after.append("spoilt")
    for key, part in tuple(node.items()):
        if key == "value":
            continue  # a part of the result
        if isinstance(part, list):
            part.clear()
        elif isinstance(part, dict):
            part["spoilt"] = True
    node.update(value="spoilt", kind="bad", lasts=0)


# --- what undoes them ----------------------------------------------------------------------


async def _undo(info: StepContext, node: Node, after: list[str], result: Any) -> None:
    world = world_here()
    world.undo_began(info, node, result)
    if node.get("events"):
        info.emit("red", "undone")
    if node["undo_lasts"]:
        await asyncio.sleep(node["undo_lasts"])
    if node["undo_fails"] == "flaky" and info.attempt == 1:
        raise Flaky("undo")
    if node["undo_fails"] == "stuck" and world.are_faults_on:
        raise Fatal("cannot be undone yet")


async def _undo_always(info: StepContext, node: Node, after: list[str], result: Any) -> None:
    """Undoes a step whose outcome may not be known."""
    world = world_here()
    world.body_began(info, node)
    if result is not None:
        world.check_undone(info.run_id, info.path, node, result)
    elif not info.path.endswith("~begun~undo"):
        world.violate("I30", info.run_id, f"{info.path} was given no result")


async def undo_child(info: StepContext, program: dict[str, Any]) -> None:
    """Undoes a child."""
    world_here().body_began(info)


def undo_twin(info: StepContext, node: Node, after: list[str], result: Any) -> None:
    """Has the name that others say they have; no code passes it."""
    world_here().violate("I30", info.run_id, f"{info.path} was undone by a function that only shares its name")


class Undoer:
    """Undoes one step, and knows which one."""

    def __init__(self, node_id: str, path: str) -> None:
        self._node_id = node_id
        self._path = path

    async def undo(self, info: StepContext, node: Node, after: list[str], result: Any) -> None:
        """As a bound method."""
        self._check(node, info.path.removesuffix("~undo"))
        await _undo(info, node, after, result)

    async def __call__(self, info: StepContext, node: Node, after: list[str], result: Any) -> None:
        """As a callable object."""
        await self.undo(info, node, after, result)

    def undo_bare(self, node: Node, after: list[str], result: Any) -> None:
        """For a lambda, which has no annotations and so no context."""
        self._check(node, self._path)
        world_here().check_undone("", f"{self._path}~undo", node, result)

    def _check(self, node: Node, path: str) -> None:
        if (node["id"], path) != (self._node_id, self._path):
            text = f"{path} ({node['id']}) was undone by the compensation of {self._path}"
            world_here().violate("I30", "", text)


def undo_by(form: str, node_id: str, path: str) -> Callable[..., Any]:
    """What undoes the step at a path, as code passes it there: a new object each time, and one name for all."""
    undoer = Undoer(node_id, path)

    async def closure(info: StepContext, node: Node, after: list[str], result: Any) -> None:
        await undoer.undo(info, node, after, result)

    match form:
        case "lambda":
            return lambda node, after, result: undoer.undo_bare(node, after, result)
        case "partial":
            return functools.partial(_undo_with, undoer)
        case "bound":
            return undoer.undo
        case "object":
            return undoer
        case "twin":
            closure.__name__, closure.__qualname__ = undo_twin.__name__, undo_twin.__qualname__
            return closure
        case _:
            return closure


async def _undo_with(undoer: Undoer, info: StepContext, node: Node, after: list[str], result: Any) -> None:
    await undoer.undo(info, node, after, result)


# --- steps ---------------------------------------------------------------------------------


class Clerk:
    """Does the work of one step, and knows which one."""

    def __init__(self, node_id: str) -> None:
        self._node_id = node_id

    async def work(self, info: StepContext, node: Node, after: list[str]) -> Any:
        """As a bound method."""
        self._check(node)
        return await _work(info, node, after)

    async def __call__(self, info: StepContext, node: Node, after: list[str]) -> Any:
        """As a callable object."""
        return await self.work(info, node, after)

    def work_bare(self, node: Node, after: list[str]) -> Any:
        """For a lambda, which has no annotations and so no context."""
        self._check(node)
        return _work_bare(node, after)

    def _check(self, node: Node) -> None:
        if node["id"] != self._node_id:
            world_here().violate("I53", "", f"{node['id']} was done by the body of {self._node_id}")


def body_by(form: str, node_id: str) -> Callable[..., Any]:
    """The body of a step, as code passes it: a new object each time, and one name for all."""
    clerk = Clerk(node_id)

    async def closure(info: StepContext, node: Node, after: list[str]) -> Any:
        return await clerk.work(info, node, after)

    match form:
        case "lambda":
            return lambda node, after: clerk.work_bare(node, after)
        case "partial":
            return functools.partial(_work_with, clerk)
        case "bound":
            return clerk.work
        case "object":
            return clerk
        case _:
            return closure


async def _work_with(clerk: Clerk, info: StepContext, node: Node, after: list[str]) -> Any:
    return await clerk.work(info, node, after)


async def _undo_part(info: StepContext) -> str:
    world_here().body_began(info)
    return "part"


PART: Step[..., Any] = step(_undo_part, name="part")
STEPS: dict[str, Step[..., Any]] = {
    "ok": step(_work, retry=RETRY),
    "undoable": step(_work, retry=RETRY, compensate=step(_undo, retry=RETRY)),
    "undoable_always": step(_work, retry=RETRY, compensate=step(_undo_always, retry=RETRY), undo="always"),
    "unsure_always": step(_work, retry=RETRY, compensate=step(_undo_always, retry=RETRY), undo="always"),
    "sync": step(_work_sync, retry=RETRY),
    "odd_sync": step(_work_sync, retry=RETRY),
    # Shorter than a thread may be waited for: its time must not begin before its body does.
    "sync_timed": step(_work_sync, retry=RETRY, timeout="10ms"),
    "deferred": step(_work, retry=RETRY, durability="deferred"),
    "once_only": step(_work, retry=RETRY, at_most_once=True),
    "timed": step(_work, retry=RETRY, timeout="20ms"),
    "slow_timed": step(_work, retry=RETRY, timeout="10s"),
    **LONG_STEPS,
    **TRANSACTIONAL_STEPS,
}


def step_by(node: Node, path: str) -> Step[..., Any]:
    """The step of a node that stands at a path, as the code there makes it."""
    made = STEPS.get(node["kind"], STEPS["ok"])
    if "form" in node:
        made = Step(body_by(node["form"], node["id"]), made.options_)
    if "undo_form" in node and node["kind"] == "undoable":
        made = made.options(compensate=undo_by(node["undo_form"], node["id"], path))
    return made.options(emits=node["emits"]) if node.get("emits") else made
