"""The workflow that runs random programs, and the steps that they are made of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from sim.checks.streams import STREAM
from sim.ledger import draw_here, world_here
from sim.long_steps import LONG_STEPS
from sim.plain import PlainTwin, twin_of
from sim.programs import Node
from sim.transactional_steps import TRANSACTIONAL_STEPS
from stepwell.errors import Fatal, RetryAfter, Rollback, RunError
from stepwell.model.locations import gate_name
from stepwell.model.retries import Retry
from stepwell.replay.context import Context
from stepwell.replay.primitives.loop import Break, Continue
from stepwell.replay.primitives.receive import Message
from stepwell.replay.primitives.topic import topic
from stepwell.replay.primitives.wait_any import done, signal, timer
from stepwell.replay.step_context import StepContext
from stepwell.replay.steps import Step, step
from stepwell.replay.workflows import Workflow, workflow

ATTEMPTS_MAX = 3
RETRY = Retry(max_attempts=ATTEMPTS_MAX, initial="50ms", max_delay="1s")


class Flaky(Exception):
    """Goes away when tried again."""


class Broken(Exception):
    """Does not go away."""


# --- bodies --------------------------------------------------------------------------------


async def _work(info: StepContext, node: Node, after: list[str]) -> Any:
    world = world_here()
    world.body_began(info, after)
    _emit(info, node)
    if node["lasts"]:
        await asyncio.sleep(node["lasts"])
    if node["kind"] == "streaming":
        await _stream(info, node)
    return _outcome(info, node)


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


def _outcome(info: StepContext, node: Node) -> Any:
    world = world_here()
    match node["kind"]:
        case "flaky" if info.attempt <= node["fails"]:
            raise Flaky(f"attempt {info.attempt}")
        case "retry_after" if info.attempt == 1:
            raise RetryAfter(0.4)
        case "bad":
            raise Broken("always")
        case "fatal":
            raise Fatal("final")
        case "stuck" if world.are_faults_on:
            raise Fatal("until mended")
        case "poison" if world.are_faults_on and not world.is_mended(info.run_id):
            world.poisoned(info.run_id)
        case _:
            pass
    return ["did", node["id"], node["value"]]


def _work_sync(info: StepContext, node: Node, after: list[str]) -> Any:
    world_here().body_began(info, after)
    _emit(info, node)
    return _outcome(info, node)


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


async def _undo_part(info: StepContext) -> str:
    world_here().body_began(info, [])
    return "part"


async def _undo_by_context(ctx: Context, node: Node, after: list[str], result: Any) -> None:
    await ctx.step("part", PART)
    await ctx.sleep("rest", 0.3)
    await ctx.step("last", PART)


def _sync_undo(info: StepContext, node: Node, after: list[str], result: Any) -> None:
    world_here().undo_began(info, node, result)


PART: Step[..., Any] = step(_undo_part, name="part")
STEPS: dict[str, Step[..., Any]] = {
    "ok": step(_work, retry=RETRY),
    "undoable": step(_work, retry=RETRY, compensate=step(_undo, retry=RETRY)),
    "undoable_ctx": step(_work, retry=RETRY, compensate=_undo_by_context),
    "sync": step(_work_sync, retry=RETRY),
    "deferred": step(_work, retry=RETRY, durability="deferred"),
    "once_only": step(_work, retry=RETRY, at_most_once=True),
    "timed": step(_work, retry=RETRY, timeout="20ms"),
    "slow_timed": step(_work, retry=RETRY, timeout="10s"),
    **LONG_STEPS,
    **TRANSACTIONAL_STEPS,
}


def _step_of(node: Node) -> Step[..., Any]:
    step = STEPS.get(node["kind"], STEPS["ok"])
    return step.options(emits=node["emits"]) if node.get("emits") else step


# --- the workflow --------------------------------------------------------------------------


class Interpreter:
    """Runs one program in one run. `seen` are the paths that must be durable before the next body starts."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def run(self, ctx: Context, node: Node, at: str) -> Any:
        """Run a node in a scope whose path is `at`."""
        path = f"{at}/{node['id']}" if at else node["id"]
        match node["op"]:
            case "seq":
                return await self._sequence(ctx, node, at)
            case "try":
                try:
                    return ["ok", await self.run(ctx, node["body"], at)]
                except RunError as error:
                    return ["caught", type(error).__name__]
            case "join":
                return await self._join(ctx, node, path)
            case "map":
                return await self._map(ctx, node, path)
            case "race":
                return await self._race(ctx, node, path)
            case "loop":
                return await self._loop(ctx, node, path)
            case "gather" if isinstance(ctx, PlainTwin):
                return [await self.operation(ctx, item, at) for item in node["items"]]
            case "gather":
                return list(await asyncio.gather(*(self.operation(ctx, item, at) for item in node["items"])))
            case _:
                return await self.operation(ctx, node, at)

    async def _sequence(self, ctx: Context, node: Node, at: str) -> list[Any]:
        """One after the other. A step is told what was received, and what time it was, right before it."""
        values: list[Any] = []
        told: list[Any] = []
        for item in node["items"]:
            is_step = item["op"] in ("step", "try_step")
            values.append(await self.run(ctx, {**item, "told": told} if told and is_step else item, at))
            told = [*told, values[-1]] if item["op"] in ("receive", "clock") else []
        return values

    async def operation(self, ctx: Context, node: Node, at: str) -> Any:
        """One leaf."""
        name = node["id"]
        path = f"{at}/{name}" if at else name
        match node["op"]:
            case "step":
                return await self._step(ctx, node, path)
            case "try_step":
                return await self._try_step(ctx, node, path)
            case "once":
                value: Any = ["once", await ctx.once(name, draw_here)]
            case "clock":
                value = ["clock", ctx.now().isoformat(), ctx.random(), str(ctx.uuid())]
                return value
            case "sleep":
                slept = await ctx.sleep(name, node["seconds"])
                value = ["slept", slept.due_at.isoformat(), slept.woke_at.isoformat()]
            case "receive":
                message = await ctx.receive(*node["names"], timeout=node["timeout"], name=name)
                await self._answer(ctx, message)
                value = ["got", message.name, message.payload]
            case "wait_any":
                value = await self._wait_any(ctx, node)
            case "topic":
                event = await ctx.topic(
                    node["topic"], where=node["where"], since=node["since"], timeout=node["timeout"], name=name
                )
                value = ["event", node["topic"], event]
            case "receive_many":
                messages = await ctx.receive_many(
                    *node["names"], count=node["count"], timeout=node["timeout"], name=name
                )
                for message in messages:
                    await self._answer(ctx, message)
                value = ["many", [[message.name, message.payload] for message in messages]]
            case "observe":
                return ["seen", self._observe(ctx, node)]
            case "append":
                await ctx.stream(STREAM).append(path)
                return ["appended"]
            case "publish":
                ctx.publish_state(path)
                ctx.state["place"] = path
                return ["published"]
            case "version":
                value = ["version", ctx.version(name, 3), ctx.patched(f"{name}p")]
                path = f"{at}/{gate_name(name)}" if at else gate_name(name)
            case "spawn":
                policy = node.get("on_parent_close", "leave")
                value = ["spawned", await ctx.spawn(HELPER, node["program"], name=name, on_parent_close=policy)]
            case "child":
                key = f"{ctx.run_id}-{path}" if node["key"] else None
                policy = node.get("on_parent_close", "leave")
                child = ctx.child(HELPER, node["program"], name=name, key=key, on_parent_close=policy)
                if "within" in node:
                    await ctx.wait_any(f"{name}w", child=done(child), late=timer(node["within"]))
                value = ["child", await child]
            case "emit":
                value = ["emitted", await ctx.emit(node["event"], {"at": path}, name=name)]
            case "checkpoint":
                await ctx.rollback_checkpoint(name)
                value = ["checkpoint"]
            case other:
                raise AssertionError(other)
        self.seen.append(path)
        return value

    async def _answer(self, ctx: Context | PlainTwin, message: Message[Any]) -> None:
        """Reply to who asked; every third question is refused."""
        if not message.wants_reply:
            return
        mark = message.payload["mark"]
        if int(mark[1:]) % 3:
            answer = {"answer": mark}
            await (ctx.reply(message, answer) if isinstance(ctx, PlainTwin) else message.reply(answer))
        else:
            reason = f"refused {mark}"
            await (ctx.refuse(message, reason) if isinstance(ctx, PlainTwin) else message.refuse(reason))

    def _observe(self, ctx: Context, node: Node) -> Any:
        name = node["names"][0]
        match node["show"]:
            case "latest":
                latest = ctx.signals.latest(name)
                return [latest.name, latest.payload] if latest else None
            case "all":
                return [[message.name, message.payload] for message in ctx.signals.all(name)]
            case _:
                return ctx.signals.has(name)

    async def _wait_any(self, ctx: Context, node: Node) -> Any:
        awaited: dict[str, Any] = {"got": signal(*node["names"]), "late": timer(node["timeout"])}
        if "topic" in node:
            awaited["event"] = topic(node["topic"], where=node["where"], since=node["since"])
        arrived = await ctx.wait_any(node["id"], **awaited)
        came = arrived.value
        if arrived.label == "event":
            return ["any", "event", node["topic"], came]
        if came:
            await self._answer(ctx, came)
        return ["any", arrived.label, came and came.name, came and came.payload]

    async def _step(self, ctx: Context, node: Node, path: str) -> Any:
        value = await ctx.step(node["id"], _step_of(node), node, self.seen[-4:])
        if node["kind"] != "deferred":
            self.seen.append(path)
        return value

    async def _try_step(self, ctx: Context, node: Node, path: str) -> Any:
        tried = await ctx.try_step(node["id"], _step_of(node), node, self.seen[-4:])
        if node["kind"] != "deferred":
            self.seen.append(path)
        return ["tried", tried.ok, tried.value, tried.error.type if tried.error else None, tried.attempts]

    def _branches(self, node: Node, path: str) -> dict[str, Callable[[Context], Awaitable[Any]]]:
        def branch(name: str, inner: Node) -> Callable[[Context], Awaitable[Any]]:
            async def run(ctx: Context) -> Any:
                ctx.state["branch"] = f"{path}/{name}"  # a replay that passes over the branches comes to the older one
                return await self.run(ctx, inner, f"{path}/{name}")

            return run

        return {name: branch(name, inner) for name, inner in node["branches"].items()}

    async def _join(self, ctx: Context, node: Node, path: str) -> Any:
        ctx.state["branch"] = path
        value = ["joined", await ctx.join(node["id"], self._branches(node, path), on_error=node["on_error"])]
        self.seen.append(path)
        return value

    async def _map(self, ctx: Context, node: Node, path: str) -> Any:
        async def item(inner: Context, number: int) -> Any:
            return await self.run(inner, node["items"][number], f"{path}/~{number}")

        numbers = range(len(node["items"]))
        values = await ctx.map(node["id"], item, numbers, limit=node["limit"], on_error=node["on_error"])
        self.seen.append(path)
        return ["mapped", values]

    async def _race(self, ctx: Context, node: Node, path: str) -> Any:
        winner = await ctx.race(node["id"], self._branches(node, path), first=node["first"])
        self.seen.append(path)
        return ["won", winner.branch, winner.value]

    async def _loop(self, ctx: Context, node: Node, path: str) -> Any:
        async def body(inner: Context, state: dict[str, Any]) -> Any:
            number = state["number"]
            self.seen.clear()
            value = await self.run(inner, node["body"], f"{path}/~{number}")
            if number + 1 >= node["times"]:
                return Break(["looped", number + 1, value])
            return Continue({"number": number + 1, "last": value})

        options = {key: node[key] for key in ("commit_every", "trim_every", "keep")}
        self.seen.clear()
        value = await ctx.loop(node["id"], body, {"number": 0, "last": None}, **options)
        self.seen[:] = [path]
        return value


async def _program(ctx: Context, program: dict[str, Any]) -> Any:
    interpreter = Interpreter()
    value = await interpreter.run(ctx, program["body"], "")
    ending = program["ending"]
    if ending is not None:
        _end(ending["op"], program, ctx)
    if program["continues"] > 0:
        ctx.continue_as_new({**program, "continues": program["continues"] - 1})
    return ["ended", program["continues"], value]


def _end(kind: str, program: dict[str, Any], ctx: Context) -> None:
    if kind == "rollback":
        raise Rollback("asked for")
    if kind == "rollback_to":
        marks = [item["id"] for item in program["body"]["items"] if item["op"] == "checkpoint"]
        raise Rollback("asked for", to=marks[-1] if marks else None)
    if kind == "fail":
        ctx.fail("planned", {"n": 1})
    raise ValueError("a bug in the workflow")


PROGRAM: Workflow[Any, Any] = workflow(name="program")(_program)


@workflow(name="helper")
async def helper(ctx: Context, program: dict[str, Any]) -> Any:
    """The same, as a child."""
    return await _program(ctx, program)


HELPER: Workflow[Any, Any] = helper
WORKFLOWS = (PROGRAM, HELPER)
PLAIN_WORKFLOWS = (twin_of(PROGRAM), twin_of(HELPER))
