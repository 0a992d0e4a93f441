"""The workflow that runs random programs, and the compensations that are programs themselves."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, NotRequired, TypedDict

from sim.bodies import FLOW, PART, RETRY, STEPS, step_by, undo_child
from sim.checks.streams import STREAM
from sim.forms import open_form
from sim.ledger import draw_here
from sim.model import refuse
from sim.odd import EXCEPTIONS
from sim.plain import PlainTwin, finish, path_of, scope_of, twin_of
from sim.programs import Node
from sim.reach import REACH
from sim.run_to_run import announce, launch, look_at_headers, question, stop, tell
from sim.tasks import run_in_turn, run_tasks
from sim.witness import WITNESSES
from stepwell.errors import Failure, InvalidOptionError, Rollback, RunError
from stepwell.ids import RunId
from stepwell.model.business_hours import BusinessHours
from stepwell.model.locations import gate_name
from stepwell.replay.context import Context
from stepwell.replay.outside_calls import flow_step
from stepwell.replay.primitives.loop import Break, Continue
from stepwell.replay.primitives.receive import Message
from stepwell.replay.primitives.topic import topic
from stepwell.replay.primitives.wait_any import done, signal, timer
from stepwell.replay.signals import Signal
from stepwell.replay.steps import Step, step
from stepwell.replay.sync_context import SyncContext
from stepwell.replay.workflows import Workflow, workflow


class Marked(TypedDict):
    """What is sent under the typed signal."""

    mark: str
    size: NotRequired[int]


TYPED = Signal[Marked]("t")
ALWAYS = BusinessHours({"mon-sun": "00:00-24:00"}, zone="UTC")


class Interpreter:
    """Runs one program in one run. `seen` are the paths that must be durable before the next body starts."""

    def __init__(self, program: dict[str, Any] | None = None) -> None:
        self.seen: list[str] = []
        self._program = program  # of a compensation there is none
        self._uses: Counter[tuple[str, str]] = Counter()  # of names in scopes

    async def run(self, ctx: Context, node: Node, at: str) -> Any:
        """Run a node in a scope whose path is `at`."""
        if node["op"] == "seq":
            return await self._sequence(ctx, node, at)
        if node["op"] == "try":
            try:
                return ["ok", await self.run(ctx, node["body"], at)]
            except (RunError, Failure) as error:
                return ["caught", type(error).__name__]
        if "called" in node:
            node = {**node, "path": self._numbered(at, node["called"])}
        path = node["path"] if "path" in node else _below(at, node["id"])
        REACH.note(ctx, node)
        value = await self._run(ctx, node, at, path)
        if node.get("kind") != "deferred":  # a crash may repeat it, and how often it was tried differs then
            WITNESSES.saw(ctx, path, value)
        return value

    async def _run(self, ctx: Context, node: Node, at: str, path: str) -> Any:
        match node["op"]:
            case "join":
                return await self._join(ctx, node, path)
            case "map":
                return await self._map(ctx, node, path)
            case "race":
                return await self._race(ctx, node, path)
            case "loop":
                return await self._loop(ctx, node, path)
            case "gather" if isinstance(ctx, PlainTwin):
                return [await self.run(ctx, item, at) for item in node["items"]]
            case "gather":
                return list(await asyncio.gather(*(self.run(ctx, item, at) for item in node["items"])))
            case "tasks":
                work = [(item["id"], self.run(ctx, item, at)) for item in node["items"]]
                if isinstance(ctx, PlainTwin):
                    return ["tasks", node["form"], await run_in_turn(node["form"], work)]
                return ["tasks", node["form"], await run_tasks(node["form"], work)]
            case "handle":
                return await self._handle(ctx, node, at)
            case "within":
                return await self._within(ctx, node, at)
            case "cleanup":
                return await self._cleanup(ctx, node, at)
            case "serve":
                self._serve(ctx, node)
                return ["serving"]
            case "nap":
                await self._nap(ctx, node)
                return ["napped"]
            case "fail":
                return self._fail(ctx, node)
            case "odd":
                if self._program is not None or not WITNESSES.is_undo_fixed(ctx.run_id):
                    raise EXCEPTIONS[node["odd"]]()
                return ["mended"]
            case "continue":
                return self._continue(ctx)
            case _:
                return await self.operation(ctx, node, at)

    async def _sequence(self, ctx: Context, node: Node, at: str) -> list[Any]:
        """One after the other. A step is told what was received, and what time it was, right before it."""
        values: list[Any] = []
        told: list[Any] = []
        for item in node["items"]:
            is_step = item["op"] in ("step", "try_step")
            values.append(await self.run(ctx, {**item, "told": told} if told and is_step else item, at))
            told = [*told, values[-1]] if item["op"] in ("receive", "clock", "record") else []
        return values

    def _numbered(self, at: str, name: str) -> str:
        """The path of the next use of a name."""
        self._uses[at, name] += 1
        uses = self._uses[at, name]
        return _below(at, name if uses == 1 else f"{name}#{uses}")

    async def operation(self, ctx: Context, node: Node, at: str) -> Any:
        """One leaf."""
        name: str = node["called"] if "called" in node else node["id"]
        path = node["path"] if "path" in node else _below(at, name)
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
            case "about":
                return self._about(ctx)
            case "gates":
                ctx.deprecated(f"{name} old")
                ctx.removed(f"{name} gone", "step")
                return ["gates"]
            case "sleep_until":
                slept = await ctx.sleep_until(name, ctx.now() + timedelta(seconds=node["seconds"]))
                value = ["slept", slept.due_at.isoformat(), slept.woke_at.isoformat()]
            case "business":
                slept = await ctx.sleep_business(name, timedelta(seconds=node["seconds"]), ALWAYS)
                value = ["slept", slept.due_at.isoformat(), slept.woke_at.isoformat()]
            case "sleep":
                slept = await ctx.sleep(name, node["seconds"])
                value = ["slept", slept.due_at.isoformat(), slept.woke_at.isoformat()]
            case "receive":
                message = await ctx.receive(*_signals(node), timeout=node["timeout"], name=name)
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
                    *_signals(node), count=node["count"], timeout=node["timeout"], name=name
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
            case "describe":
                return ["described", self._describe(ctx, node, path)]
            case "version":
                value = ["version", ctx.version(name, 3), ctx.patched(f"{name}p")]
                path = f"{at}/{gate_name(name)}" if at else gate_name(name)
            case "spawn":
                policy = node.get("on_parent_close", "leave")
                value = ["spawned", await ctx.spawn(HELPER, node["program"], name=name, on_parent_close=policy)]
            case "child":
                key = f"{ctx.run_id}-{path}" if node["key"] else None
                policy = node.get("on_parent_close", "leave")
                undo = undo_child if "undone" in node else None
                child = ctx.child(HELPER, node["program"], name=name, key=key, on_parent_close=policy, compensate=undo)
                if "within" in node:
                    await ctx.wait_any(f"{name}w", child=done(child), late=timer(node["within"]))
                value = ["child", await child]
            case "children":
                value = ["children", await ctx.children(HELPER, node["programs"], name=name)]
            case "effect":
                await ctx.compensate_with(name, STEPS["ok"], node, [])
                value = ["registered"]
            case "tell":
                value = await tell(ctx, node, path)
            case "question":
                value = await question(ctx, node, path)
            case "announce":
                value = await announce(ctx, node, path)
            case "launch":
                value = await launch(ctx, node, HELPER)
            case "stop":
                value = await stop(ctx, node, HELPER)
            case "headers":
                return look_at_headers(ctx, node)
            case "emit":
                value = ["emitted", await ctx.emit(node["event"], {"at": path}, name=name)]
            case "checkpoint":
                await ctx.rollback_checkpoint(name)
                value = ["checkpoint"]
            case "record":
                answer = await open_form(ctx, name, node["within"])
                value = ["answered", answer["by"], answer["mark"]]
            case other:
                raise AssertionError(other)
        self.seen.append(path)
        return value

    async def _answer(self, ctx: Context | PlainTwin, message: Message[Any], *, is_refused: bool = False) -> None:
        """Reply to who asked; every third question is refused."""
        if not message.wants_reply:
            return
        mark = message.payload["mark"]
        if int(mark[1:]) % 3 and not is_refused:
            answer = {"answer": mark}
            await (ctx.reply(message, answer) if isinstance(ctx, PlainTwin) else message.reply(answer))
        else:
            reason = f"refused {mark}"
            await (ctx.refuse(message, reason) if isinstance(ctx, PlainTwin) else message.refuse(reason))

    async def _cleanup(self, ctx: Context, node: Node, at: str) -> Any:
        """Do something in a block with a clean-up."""
        block: Any = ctx.cleanup(node["id"], STEPS["ok"], node, [])
        if hasattr(block, "__enter__"):  # of a plain function
            with block:
                return ["cleaned", await self.run(ctx, node["body"], at)]
        async with block:
            return ["cleaned", await self.run(ctx, node["body"], at)]

    def _serve(self, ctx: Context, node: Node) -> None:
        """Answer requests beside the rest of the program; every third one is refused."""

        async def handler(inner: Context, payload: dict[str, Any]) -> Any:
            mark = payload["mark"]
            await Interpreter().run(inner, node["body"], path_of(inner))
            if int(mark[1:]) % 3 == 0 and any(
                one.owes == scope_of(inner).location for one in scope_of(inner).turn.owed
            ):
                inner.fail(f"refused {mark}")
            return {"answer": mark}

        ctx.handle(_signals(node)[0], handler, name=node["id"])

    async def _nap(self, ctx: Context | PlainTwin, node: Node) -> None:
        if isinstance(ctx, PlainTwin):
            await ctx.sleep(node["id"], node["seconds"])
        else:
            await asyncio.sleep(node["seconds"])

    async def _within(self, ctx: Context, node: Node, at: str) -> Any:
        """Do something for so long. A plain function cannot: it takes its time."""
        if isinstance(ctx, PlainTwin):
            return ["in time", await self.run(ctx, node["body"], at)]
        limit = asyncio.timeout(node["seconds"])
        try:
            async with limit:
                return ["in time", await self.run(ctx, node["body"], at)]
        except TimeoutError:
            if not limit.expired():
                raise
            return ["late"]

    async def _handle(self, ctx: Context, node: Node, at: str) -> Any:
        """Take a message, do what it asks for, and answer before that or after it."""
        late = {} if node["timeout"] is None else {"timeout": node["timeout"], "default": None}
        message: Message[Any] | None = await ctx.receive(*_signals(node), name=node["id"], **late)
        if message is None:
            return ["unhandled"]
        if node["answers"] == "first":
            await self._answer(ctx, message)
        try:
            value = await self.run(ctx, node["body"], at)
        except (RunError, Failure):
            if node["answers"] == "last":
                await self._answer(ctx, message, is_refused=True)
            raise
        if node["answers"] == "last":
            await self._answer(ctx, message)
        return ["handled", message.name, message.payload, value]

    def _about(self, ctx: Context) -> Any:
        """All that a context says about its run; whether it is replayed is told to the log only."""
        ctx.log.debug("replaying: %s", ctx.is_replaying)
        who = [ctx.run_id, ctx.key, ctx.workflow, ctx.workflow_version, ctx.generation]
        if ctx.schedule is not None:
            WITNESSES.violate("I3", ctx.run_id, "no schedule has started it, and it says that one did")
        return ["about", who, ctx.previous and ctx.previous.run_id, ctx.started_at.isoformat()]

    def _describe(self, ctx: Context, node: Node, path: str) -> bool:
        """Say what the run is about; whether it was refused to say more."""
        ctx.set_attributes({"place": path[-100:], "size": len(path), "old": None if len(path) % 2 else True})
        ctx.set_title(path[-100:])
        ctx.add_tags(node["id"], place=path[-100:])
        try:
            if node["asks_too_much"]:
                ctx.set_attributes(place=1, lost=True)
        except InvalidOptionError:
            return True
        finally:
            ctx.remove_tags(node["id"])
        return False

    def _fail(self, ctx: Context, node: Node) -> Any:
        """Fail as planned; in a compensation until an operator fixes it, or it would never end."""
        if self._program is not None or not WITNESSES.is_undo_fixed(ctx.run_id):
            ctx.fail("planned", {"n": 1})
        return ["mended"]

    def _continue(self, ctx: Context) -> Any:
        """Continue as new from the middle of the program."""
        assert self._program is not None
        if self._program["continues"] > 0:
            ctx.continue_as_new({**self._program, "continues": self._program["continues"] - 1})
        return ["stays"]

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
        awaited: dict[str, Any] = {"got": signal(*_signals(node)), "late": timer(node["timeout"])}
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
        WITNESSES.of(ctx).asks(path)
        if node["kind"] == "by_name":
            value = await ctx.step(node["id"], flow_step(FLOW, {"node": node}))
            self.seen.append(path)
            return value
        if "called" in node:  # what is compared with the arguments of a replay must not depend on what was passed over
            given = {key: part for key, part in node.items() if key != "path"}
            value = await ctx.step(node["called"], _step_at(node, path), given, [])
            self.seen.append(path)
            return value
        made, passed = _step_at(node, path), (node["kind"], node["value"])
        # Of one that never fails, nothing has to be said about attempts: its function is passed as it is.
        is_plain = "form" in node and node["kind"] == "ok" and not node.get("emits")
        value = await ctx.step(node["id"], made.fn if is_plain else made, node, self.seen[-4:])
        if passed != (node["kind"], node["value"]):
            WITNESSES.violate("I53", ctx.run_id, f"{path} has changed what the code passed to it")
        if node["kind"] != "deferred":
            self.seen.append(path)
        return value

    async def _try_step(self, ctx: Context, node: Node, path: str) -> Any:
        WITNESSES.of(ctx).asks(path)
        tried = await ctx.try_step(node["id"], _step_at(node, path), node, self.seen[-4:])
        if node["kind"] != "deferred":
            self.seen.append(path)
        return ["tried", tried.ok, tried.value, tried.error.type if tried.error else None, tried.attempts]

    def _branches(self, node: Node, path: str, tally: Tally) -> dict[str, Callable[[Context], Awaitable[Any]]]:
        def branch(name: str, inner: Node) -> Callable[[Context], Awaitable[Any]]:
            async def run(ctx: Context) -> Any:
                ctx.state["branch"] = f"{path}/{name}"  # a replay that passes over the branches comes to the older one
                value = await self.run(ctx, inner, f"{path}/{name}")
                _count(tally, node, ctx, name)
                return value

            return run

        return {name: branch(name, inner) for name, inner in node["branches"].items()}

    async def _join(self, ctx: Context, node: Node, path: str) -> Any:
        ctx.state["branch"] = path
        tally: Tally = []
        branches = self._branches(node, path, tally)
        value = ["joined", await ctx.join(node["id"], branches, on_error=node["on_error"])]
        self.seen.append(path)
        return _told(value, node, tally)

    async def _map(self, ctx: Context, node: Node, path: str) -> Any:
        tally: Tally = []

        async def item(inner: Context, number: int) -> Any:
            value = await self.run(inner, node["items"][number], f"{path}/~{number}")
            _count(tally, node, inner, number)
            return value

        numbers = range(len(node["items"]))
        values = await ctx.map(node["id"], item, numbers, limit=node["limit"], on_error=node["on_error"])
        self.seen.append(path)
        return _told(["mapped", values], node, tally)

    async def _race(self, ctx: Context, node: Node, path: str) -> Any:
        tally: Tally = []
        winner = await ctx.race(node["id"], self._branches(node, path, tally), first=node["first"])
        self.seen.append(path)
        return _told(["won", winner.branch, winner.value], node, tally)

    async def _loop(self, ctx: Context, node: Node, path: str) -> Any:
        tally: Tally = []

        async def body(inner: Context, state: dict[str, Any]) -> Any:
            number = state["number"]
            self.seen.clear()
            value = await self.run(inner, node["body"], f"{path}/~{number}")
            _count(tally, node, inner, number)
            spawned = [*state["spawned"], value[-1][1]] if "awaits" in node else []
            if number + 1 >= node["times"]:
                return Break([["looped", number + 1, value], spawned])
            return Continue({"number": number + 1, "last": value, "spawned": spawned})

        options = {key: node[key] for key in ("commit_every", "trim_every", "keep")}
        self.seen.clear()
        value, spawned = await ctx.loop(node["id"], body, {"number": 0, "last": None, "spawned": []}, **options)
        self.seen[:] = [path]
        if "awaits" in node:
            # What was begun in an iteration that may be trimmed is named behind the loop.
            named, late = RunId(spawned[node["awaits"] % len(spawned)]), timer(3.0)
            value.append((await ctx.wait_any(f"{node['id']} ended", ended=done(named), late=late)).label)
        return _told(value, node, tally)


def _below(at: str, name: str) -> str:
    return f"{at}/{name}" if at else name


Tally = list[Any]  # what branches, items and iterations write outside of themselves


def _count(tally: Tally, node: Node, ctx: Context, what: Any) -> None:
    """Write to what is outside. Where a replay would not do so again it is a mistake, until somebody mends the code."""
    if "tally" in node or ("leaks" in node and not WITNESSES.is_mended(ctx.run_id)):
        tally.append(what)


def _told(value: list[Any], node: Node, tally: Tally) -> list[Any]:
    return [*value, tally] if "tally" in node or "leaks" in node else value


def _signals(node: Node) -> list[Any]:
    """The names that a node waits for; one of them has a type."""
    return [TYPED if name == TYPED.name else name for name in node["names"]]


# --- compensations that are programs -------------------------------------------------------


async def _undo_by_context(ctx: Context, node: Node, after: list[str], result: Any) -> None:
    if "undo" in node:
        await _undo_by_program(ctx, node, result)
        return
    await ctx.step("part", PART)
    await ctx.sleep("rest", 0.3)
    await ctx.step("last", PART)


async def _undo_by_program(ctx: Context, node: Node, result: Any, path: str | None = None) -> None:
    at = path_of(ctx)
    WITNESSES.check_undone(ctx.run_id, at, node, result)
    if path is not None and at != f"{path}~undo":
        WITNESSES.violate("I30", ctx.run_id, f"{at} is the compensation of {path}")
    value = await Interpreter().run(ctx, node["undo"], at)
    problem = refuse(node["undo"], value, are_cancels=True)
    if problem is not None:
        WITNESSES.violate("T7", ctx.run_id, f"{at} came to what it cannot: {problem}")


class ContextUndoer:
    """Undoes one step by a program, and knows which one."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def undo(self, ctx: Context, node: Node, after: list[str], result: Any) -> None:
        """As a bound method."""
        await _undo_by_program(ctx, node, result, self._path)

    async def __call__(self, ctx: Context, node: Node, after: list[str], result: Any) -> None:
        """As a callable object."""
        await self.undo(ctx, node, after, result)

    def undo_plainly(self, ctx: SyncContext, node: Node, after: list[str], result: Any) -> None:
        """As a plain function."""
        twin: Any = PlainTwin(ctx)
        finish(_undo_by_program(twin, node, result, self._path))


async def _undo_with(undoer: ContextUndoer, ctx: Context, node: Node, after: list[str], result: Any) -> None:
    await undoer.undo(ctx, node, after, result)


def undo_program_by(form: str, path: str) -> Callable[..., Any]:
    """What undoes the step at a path by a program, as code passes it there."""
    undoer = ContextUndoer(path)

    async def closure(ctx: Context, node: Node, after: list[str], result: Any) -> None:
        await undoer.undo(ctx, node, after, result)

    match form:
        case "partial":
            return functools.partial(_undo_with, undoer)
        case "bound":
            return undoer.undo
        case "object":
            return undoer
        case "plain":
            return undoer.undo_plainly
        case _:
            return closure


def _step_at(node: Node, path: str) -> Step[..., Any]:
    """The step of a node that stands at a path, as the code there makes it."""
    made = step_by(node, path)
    if "undo_form" in node and node["kind"] == "undoable_ctx":
        return made.options(compensate=undo_program_by(node["undo_form"], path))
    return made


STEPS["undoable_ctx"] = step(STEPS["ok"].fn, retry=RETRY, compensate=_undo_by_context)


# --- the workflow --------------------------------------------------------------------------


async def _program(ctx: Context, program: dict[str, Any]) -> Any:
    interpreter = Interpreter(program)
    value = await interpreter.run(ctx, program["body"], "")
    if program.get("look"):
        await interpreter.run(ctx, program["look"], "")
    ending = program["ending"]
    if ending is not None:
        _end(ending["op"], program, ctx)
    if program["continues"] > 0:
        ctx.continue_as_new({**program, "continues": program["continues"] - 1})
    return ["ended", program["continues"], value]


def _end(kind: str, program: dict[str, Any], ctx: Context) -> None:
    if kind == "rollback":
        raise Rollback("asked for")
    if kind == "rollback_to" and "to" in program["ending"]:
        raise Rollback("asked for", to=program["ending"]["to"])
    if kind == "odd":
        raise EXCEPTIONS[program["ending"]["odd"]]()
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
