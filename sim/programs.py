"""Random programs: trees of JSON over every primitive, made small and strange by a seed."""

from __future__ import annotations

import random
from typing import Any

from sim.descriptions import Descriptions
from sim.forms import Forms
from sim.further import Further
from sim.habits import Habits
from sim.neighbours import Neighbours

Node = dict[str, Any]

LEAVES = {
    "step": 10,
    "try_step": 2,
    "once": 2,
    "clock": 2,
    "sleep": 4,
    "receive": 3,
    "receive_many": 2,
    "version": 1,
    "spawn": 1,
    "checkpoint": 1,
}
BRANCHING = {"seq": 3, "try": 3, "join": 3, "race": 4, "gather": 2, "loop": 3, "child": 4}

STEP_KINDS = {
    "ok": 6,
    "undoable": 6,
    "undoable_ctx": 1,
    "flaky": 4,
    "retry_after": 1,
    "sync": 2,
    "deferred": 3,
    "once_only": 2,
    "timed": 1,
    "slow_timed": 1,
    "bad": 1,
    "fatal": 1,
    "stuck": 1,
    "poison": 0.3,
}
SIGNALS = ("a", "b", "c")
TOPICS = ("x", "y")
VALUES: tuple[Any, ...] = (0, -1, 2**53, 1.5, "", "naïve 🜁", True, None, [1, [2, {"x": None}]], {"k": "v", "ä": [0.1]})


KEEPS = ("checkpoint", "heartbeat", "yield")


class Maker:
    """Makes the programs of one seed, from a random subset of everything (so that rare pairs meet more often)."""

    def __init__(self, rng: random.Random, *, has_transactions: bool = False) -> None:
        self._rng = rng
        self._has_transactions = has_transactions
        # A stream of its own, so that what is chosen by it leaves the programs of old seeds alike.
        self._side = random.Random(rng.getstate()[1][0])
        self._looks = random.Random(rng.getstate()[1][1])
        # And one for events, in every other seed.
        self._news = random.Random(f"news {rng.getstate()[1][1]}")  # the first word of a state is the same for all
        self._has_news = self._news.random() < 0.5
        self._shown = random.Random(rng.getstate()[1][1])  # likewise, for what runs show
        self._habits = Habits(str(rng.getstate()[1][1]))
        self._descriptions = Descriptions(str(rng.getstate()[1][1]))
        self._forms = Forms(f"forms {rng.getstate()[1][1]}")
        self._further = Further(f"further {rng.getstate()[1][1]}")
        self._neighbours = Neighbours(f"neighbours {rng.getstate()[1][1]}")
        self._count = 0
        self._leaves = _some(rng, LEAVES, keep=("step",))
        self._branching = _some(rng, BRANCHING, keep=("seq",))
        self._steps = _some(rng, STEP_KINDS, keep=("ok", "undoable"))

    def program(self) -> Node:
        """One program: the input of a run."""
        rng = self._rng
        continues = rng.choice((0, 0, 0, 0, 0, 1, 2))
        program = {
            "body": self._sequence(depth=rng.choice((1, 2, 3, 4)), budget=rng.randint(2, 24)),
            "ending": self._ending(),
            "continues": continues,
        }
        self._habits.add(program)
        self._descriptions.add(program)
        self._forms.add(program)
        return program

    def further(self) -> list[Node]:
        """Short programs besides those."""
        programs = [*self._habits.further(), *self._forms.further(), *self._further.programs()]
        self._descriptions.add(programs)
        programs += self._neighbours.programs()
        return programs

    def _ending(self) -> Node | None:
        rng = self._rng
        kind = rng.choices((None, "rollback", "rollback_to", "fail", "bug"), (10, 1, 1, 1, 0.5))[0]
        return None if kind is None else {"op": kind}

    def _sequence(self, depth: int, budget: int) -> Node:
        count = self._rng.randint(1, max(1, min(4, budget)))
        share = max(1, budget // count)
        items: list[Node] = []
        for _ in range(count):
            if self._looks.random() < 0.2:
                items.append(self._observe())
            items.append(self._any(depth - 1, share))
        while self._side.random() < 0.25:
            items.insert(self._side.randint(0, len(items)), self._node("emit", event=self._event()))
        return self._node("seq", items=items)

    def _observe(self) -> Node:
        names = [self._looks.choice(SIGNALS)]
        return self._node("observe", names=names, show=self._looks.choice(("latest", "all", "has")))

    def _event(self) -> str:
        return self._side.choice(("red", "red.light", "blue", "blue.dark"))

    def _any(self, depth: int, budget: int) -> Node:
        if depth <= 0 or budget <= 1 or self._rng.random() < 0.4:
            return self._leaf()
        kind = self._pick(self._branching)
        match kind:
            case "seq":
                return self._sequence(depth, budget)
            case "try":
                return self._node("try", body=self._any(depth - 1, budget))
            case "join" | "race":
                return self._parallel(kind, depth, budget)
            case "gather":
                return self._node("gather", items=[self._plain_leaf() for _ in range(self._rng.randint(2, 3))])
            case "loop":
                return self._loop(depth, budget)
            case _:
                return self._child(depth, budget)

    def _parallel(self, kind: str, depth: int, budget: int) -> Node:
        rng = self._rng
        count = rng.randint(2, 3)
        branches = {f"b{index}": self._any(depth - 1, max(1, budget // count)) for index in range(count)}
        if kind == "join":
            on_error = rng.choice(("wait_all", "wait_all", "fail_fast"))
            if self._side.random() < 0.4:
                items, limit = list(branches.values()), self._side.randint(1, count)
                return self._node("map", items=items, limit=limit, on_error=on_error)
            return self._node("join", branches=branches, on_error=on_error)
        return self._node("race", branches=branches, first=rng.choice(("success", "success", "settled")))

    def _loop(self, depth: int, budget: int) -> Node:
        rng = self._rng
        return self._node(
            "loop",
            times=rng.randint(1, 6),
            body=self._any(depth - 1, max(1, budget // 3)),
            commit_every=rng.choice((1, 1, 2)),
            trim_every=rng.choice((1, 2, 3)),
            keep=rng.choice((0, 1, 2)),
        )

    def _child(self, depth: int, budget: int) -> Node:
        inner = {
            "body": self._sequence(depth - 1, max(1, budget // 2)),
            "ending": self._ending(),
            "continues": self._rng.choice((0, 0, 0, 1)),
        }
        parts: dict[str, Any] = {"program": inner, "key": self._rng.random() < 0.2, "on_parent_close": self._policy()}
        if self._has_news and self._news.random() < 0.3:
            parts["within"] = self._news.choice((0.01, 0.5, 3.0))
        return self._node("child", **parts)

    def _policy(self) -> str:
        return self._side.choice(("leave", "leave", "cancel"))

    def _leaf(self) -> Node:
        kind = self._pick(self._leaves)
        if kind in ("once", "clock", "version") and self._shown.random() < 0.4:
            return self._node(self._shown.choice(("append", "append", "publish")))
        match kind:
            case "step" | "try_step":
                return self._step(kind)
            case "sleep":
                return self._node("sleep", seconds=self._rng.choice((0, 0.001, 0.05, 0.4, 1.5, 4.0, 20.0)))
            case "receive" | "receive_many":
                return self._receive(kind)
            case "spawn":
                inner = {"body": self._node("seq", items=[self._step("step")]), "ending": None, "continues": 0}
                return self._node("spawn", program=inner, on_parent_close=self._policy())
            case _:
                return self._node(kind)

    def _plain_leaf(self) -> Node:
        """A leaf that is one operation, for a plain `asyncio.gather`."""
        kind = self._rng.choice(("step", "step", "step", "sleep", "receive", "once"))
        if kind == "sleep":
            return self._node("sleep", seconds=self._rng.choice((0.001, 0.05, 0.4, 2.0)))
        if kind == "receive":
            return self._receive("receive_many")
        return (
            self._step("step", kinds=("ok", "undoable", "flaky", "deferred", "sync"))
            if kind == "step"
            else self._node("once")
        )

    def _receive(self, kind: str) -> Node:
        rng = self._rng
        names = rng.choice((["a"], ["b"], ["a", "b"], ["c"], []))
        timeout = rng.choice((None, None, 0.3, 2.0, 6.0))
        if kind == "receive" and timeout is not None and self._side.random() < 0.5:
            rng.choice((1, 2, 10))
            return self._node("wait_any", names=names, timeout=timeout, **self._topic(0.6))
        count = rng.choice((1, 2, 10))
        topic = self._topic(0.6)
        if topic:
            # Like what it stands for: the one fails when its time is over, the other never does.
            return self._node("topic", timeout=timeout if kind == "receive" else None, **topic)
        return self._node(kind, names=names, timeout=timeout, count=count)

    def _topic(self, chance: float) -> dict[str, Any]:
        news = self._news
        if not self._has_news or news.random() > chance:
            return {}
        where = news.choice((None, None, {"n": 0}, {"n": 1}))
        return {
            "topic": news.choice(("x", "x", "x", "y")),
            "where": where,
            "since": news.choice(("wait", "wait", "start", "all")),
        }

    def _step(self, op: str, kinds: tuple[str, ...] = ()) -> Node:
        rng = self._rng
        kind = rng.choice(kinds) if kinds else self._pick(self._steps)
        node = self._node(
            op,
            kind=kind,
            lasts=rng.choice((0, 0, 0, 0.001, 0.03, 0.3, 1.2)),
            value=rng.choice(VALUES),
            fails=rng.randint(1, 2),
        )
        if kind == "ok" and op == "step" and self._shown.random() < 0.25:
            chunks, breaks = self._shown.randint(1, 4), self._shown.choice((0, 0, 1, 2))
            node |= {"kind": "streaming", "chunks": chunks, "breaks": breaks}
        elif self._has_transactions and kind in ("ok", "flaky") and self._side.random() < 0.4:
            node["kind"] = "transactional" if kind == "ok" else "transactional_flaky"
        elif kind in ("ok", "sync") and self._side.random() < 0.5:
            node.update(draw_pages(self._side), kind="long_sync" if kind == "sync" else "long")
        if kind.startswith("undoable"):
            node["undo_fails"] = rng.choice(("no", "no", "no", "flaky", "stuck"))
            node["undo_lasts"] = rng.choice((0, 0, 0.02, 0.5))
        if node["kind"] == kind and self._side.random() < 0.2:
            node["events"] = self._side.randint(0, 2)
            node["emits"] = self._event() if self._side.random() < 0.5 else None
        return node

    def _node(self, op: str, **parts: Any) -> Node:
        self._count += 1
        return {"op": op, "id": f"{op}{self._count}", **parts}

    def _pick(self, weights: dict[str, float]) -> str:
        return self._rng.choices(tuple(weights), tuple(weights.values()))[0]


def _some(rng: random.Random, weights: dict[str, Any], keep: tuple[str, ...]) -> dict[str, float]:
    chance = rng.choice((0.5, 0.8, 1.0))
    return {name: weight for name, weight in weights.items() if name in keep or rng.random() < chance}


def walk(node: Any) -> list[Node]:
    """Every node of a program, the root first."""
    found: list[Node] = []
    if isinstance(node, dict):
        if "op" in node and "id" in node:
            found.append(node)
        for key, part in node.items():
            if key not in ("value",):
                found += walk(part)
    elif isinstance(node, list):
        for part in node:
            found += walk(part)
    return found


def longest(part: Any) -> float:
    """A bound, in seconds, of what a program (or a node of it) waits and works when nothing goes wrong."""
    if "body" in part and "continues" in part:
        return longest(part["body"]) * (part["continues"] + 1)
    match part["op"]:
        case "sleep" | "sleep_until" | "nap" | "business":
            return float(part["seconds"])
        case "question":
            return 2.0 + float(part["timeout"])
        case "launch":
            return 8.0 + longest(part["program"])
        case "stop":
            return 8.0
        case "cleanup":
            return 4.0 + longest(part["body"])
        case "effect":
            return 4.0
        case "serve":
            return 8.0 + 4 * longest(part["body"])
        case "within":
            return 1.0 + float(part["seconds"])
        case "receive" | "receive_many" | "wait_any" | "topic":
            return 2.0 + (part["timeout"] or 0.0)
        case "record":
            return 2.0 + (part["within"] or 0.0)
        case "handle":
            return 4.0 + longest(part["body"])
        case "step" | "try_step":
            return 4.0 + 3 * float(part["lasts"]) + (longest(part["undo"]) if "undo" in part else 0.0)
        case "loop":
            return 3.0 + part["times"] * longest(part["body"])
        case "children":
            return 2.0 + sum(longest(program) for program in part["programs"])
        case "child" | "spawn":
            return 2.0 + longest(part["program"])
        case "try":
            return longest(part["body"])
        case "seq" | "gather" | "tasks" | "map":
            return sum(longest(item) for item in part["items"])
        case "join" | "race":
            return sum(longest(item) for item in part["branches"].values())
        case _:
            return 0.0


def draw_pages(rng: random.Random) -> dict[str, Any]:
    """What makes a step a long one."""
    pages = rng.randint(1, 5)
    return {
        "pages": pages,
        "keeps": [rng.choice(KEEPS) for _ in range(pages)],
        "fails_at": rng.choice((0, 0, rng.randint(1, pages))),
        "lasts": rng.choice((0, 0.05, 0.5, 1.5, 3.0)),
    }
