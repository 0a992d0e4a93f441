"""What users do, put into the programs of a seed: a pass over trees that are drawn already, with a stream of its own.

Old seeds keep the trees that they had, and get more in them: steps that spoil their arguments and are passed as
lambdas, bound methods and the like, compensations that are programs, variables that branches write to, and nodes of
every kind in places where they were seldom or never.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any, Final

from sim import odd, tasks

Node = dict[str, Any]

FORMS: Final = ("lambda", "partial", "bound", "object", "closure")
UNDO_FORMS: Final = ("lambda", "partial", "bound", "object", "closure", "twin")
PROGRAM_FORMS: Final = ("partial", "bound", "object", "closure", "plain")

# Whatever code may do, and how often it is drawn.
NODES: Final = {
    "step": 4,
    "try_step": 2,
    "once": 2,
    "clock": 4,
    "about": 2,
    "sleep": 2,
    "sleep_until": 2,
    "receive": 2,
    "receive_many": 2,
    "wait_any": 2,
    "topic": 1,
    "observe": 2,
    "handle": 3,
    "emit": 1,
    "append": 1,
    "publish": 1,
    "version": 1,
    "gates": 1,
    "checkpoint": 1,
    "join": 2,
    "map": 2,
    "race": 2,
    "loop": 2,
    "gather": 1,
    "tasks": 4,
    "child": 2,
    "children": 1.5,
    "spawn": 1,
    "fail": 0.7,
    "odd": 0.7,
    "continue": 1.5,
}
_BRANCHING: Final = frozenset({"join", "map", "race", "loop", "handle", "gather", "tasks", "child", "children"})
# What succeeds in the end, also when workers are lost.
_SURE_KINDS: Final = ("ok", "ok", "flaky", "sync", "deferred", "retry_after")
_UNSURE_KINDS: Final = ("sync_timed", "odd", "odd_sync", "fatal")
# Once it is asked for, nothing may come before the answer.
_NOT_WHILE_ASKED: Final = frozenset({"receive", "receive_many", "wait_any", "continue", "handle", "fail", "tasks"})


@dataclass(frozen=True, slots=True)
class Where:
    """What is around a node."""

    is_steady: bool = True  # a replay always comes here again, so a compensation may be bound to its place
    is_undo: bool = False
    is_tried: bool = False  # inside of a `try`, which catches what a run fails with and nothing else
    continues: bool = False  # the program may continue as new
    depth: int = 2


class Habits:
    """What is put into the programs of one seed."""

    def __init__(self, seed: str) -> None:
        self._rng = rng = random.Random(f"habits {seed}")
        self._is_on = rng.random() < 0.8
        self._is_async = rng.random() < 0.5  # then also what only `async def` can do
        self._many = rng.choice((0.1, 0.3))  # chance of a further node, for each sequence
        self._often = rng.choice((0.2, 0.5))  # chance of anything else
        self._leaks = rng.random() < 0.2
        self._is_even = False  # whether all kinds of nodes are equally likely
        self._count = 0

    def add(self, program: dict[str, Any]) -> None:
        """Change a program, and those of its children."""
        if self._is_on:
            if self._is_async:
                program["code"] = "async"
            self._program(program)

    def further(self) -> list[dict[str, Any]]:
        """Short programs: what is seldom is done while things go wrong, in compensations, handlers and branches."""
        if not self._is_on:
            return []
        self._is_even = True
        chances = {self._undone: 0.5, self._handled: 0.65, self._branched: 0.6}
        return [make() for make, chance in chances.items() if self._rng.random() < chance]

    def _undone(self) -> dict[str, Any]:
        undo = self._sequence(Where(is_undo=True), 3, 5)
        form = {"undo_form": self._rng.choice(UNDO_FORMS)}
        alike = [self._work("step", "undoable") | form for _ in range(self._rng.choice((0, 2)))]
        return self._short([self._work("step", "undoable_ctx") | {"undo": undo}, *alike], ending="rollback")

    def _handled(self) -> dict[str, Any]:
        continues = self._rng.choice((0, 1))
        body = self._sequence(Where(is_steady=False, continues=continues > 0), 2, 4)
        return self._short([self._handler(body, self._rng.choice((None, 2.0)))], continues=continues)

    def _branched(self) -> dict[str, Any]:
        continues = self._rng.choice((0, 1))
        where = Where(is_steady=False, continues=continues > 0)
        items = [self._branching(op, where) for op in self._rng.sample(("join", "map", "loop"), 2)]
        return self._short([*items, self._any(where)], continues=continues)

    def _short(self, items: list[Node], *, ending: str | None = None, continues: int = 0) -> dict[str, Any]:
        end = None if ending is None else {"op": ending}
        program = {"body": self._node("seq", items=items), "ending": end, "continues": continues}
        return program | ({"code": "async"} if self._is_async else {})

    def _program(self, program: dict[str, Any]) -> None:
        where = Where(continues=program["continues"] > 0)
        self._visit(program["body"], where)
        if self._chance():
            program["look"] = self._make("observe", where)
        if program["ending"] is None and self._rng.random() < 0.1 * self._often:
            program["ending"] = {"op": "odd", "odd": self._rng.choice(tuple(odd.EXCEPTIONS))}
        elif program["ending"] == {"op": "rollback_to"}:
            self._name_checkpoint(program)

    def _name_checkpoint(self, program: dict[str, Any]) -> None:
        """Roll back to a checkpoint inside of a loop, whose iterations are trimmed."""
        loops = [item for item in program["body"]["items"] if item["op"] == "loop"]
        if loops:
            mark = self._node("checkpoint")
            loops[-1]["body"] = self._node("seq", items=[mark, loops[-1]["body"]])
            program["ending"] = {"op": "rollback_to", "to": mark["id"]}

    # --- what is there already ---

    def _visit(self, node: Node, where: Where) -> None:
        match node["op"]:
            case "seq":
                for item in node["items"]:
                    self._visit(item, where)
                if self._rng.random() < self._many:
                    node["items"].insert(self._rng.randint(0, len(node["items"])), self._any(where))
            case "try":
                self._visit(node["body"], replace(where, is_tried=True))
            case "join" | "race" | "map":
                self._visit_parallel(node, where)
            case "loop":
                self._visit_loop(node, where)
            case "child" | "spawn":
                self._program(node["program"])
            case "step" | "try_step":
                self._change_step(node, where)
            case _:
                pass

    def _visit_parallel(self, node: Node, where: Where) -> None:
        is_kept = node.get("on_error") == "wait_all" and self._is_async
        inner = replace(where, is_tried=False, is_steady=where.is_steady and is_kept)
        for part in node.get("items") or node["branches"].values():
            self._visit(part, inner)
        self._capture(node, is_kept)

    def _visit_loop(self, node: Node, where: Where) -> None:
        self._visit(node["body"], replace(where, is_steady=False))
        self._capture(node, is_kept=False)
        if self._chance(0.5):
            node["body"] = self._node("seq", items=[node["body"], self._make("spawn", where)])
            node["awaits"] = self._rng.randint(0, 5)

    def _capture(self, node: Node, is_kept: bool) -> None:
        """Let the code inside of a node write to a variable outside."""
        if is_kept and self._chance():
            node["tally"] = True
        elif not is_kept and self._leaks and self._chance(0.3) and node.get("on_error") != "wait_all":
            node["leaks"] = True

    def _change_step(self, node: Node, where: Where) -> None:
        kind = node["kind"]
        if kind in ("ok", "flaky", "undoable", "undoable_ctx", "sync", "bad", "deferred") and self._chance():
            node["spoils"] = True
        # What undoes it is found by its place, or else by names that only functions have.
        is_bound = where.is_steady and not where.continues and not where.is_undo
        has_form = kind in ("ok", "flaky", "retry_after") or (kind.startswith("undoable") and is_bound)
        if has_form and self._chance():
            node["form"] = self._rng.choice(FORMS if kind == "ok" and not node.get("events") else FORMS[1:])
        if kind == "undoable" and self._chance():
            node["kind"] = kind = "undoable_ctx"
        if kind == "undoable_ctx" and self._chance(1.5):
            node["undo"] = self._sequence(Where(is_undo=True))
        if is_bound and self._chance(1.5):
            if kind == "undoable":
                node["undo_form"] = self._rng.choice(UNDO_FORMS)
            elif "undo" in node:
                node["undo_form"] = self._rng.choice(PROGRAM_FORMS)
                if node["undo_form"] == "plain":  # plain code may not write outside of a join either
                    for part in _all(node["undo"]):
                        part.pop("tally", None)

    # --- what is new ---

    def _sequence(self, where: Where, least: int = 1, most: int = 3) -> Node:
        return self._node("seq", items=[self._any(where) for _ in range(self._rng.randint(least, most))])

    def _handler(self, body: Node, timeout: float | None) -> Node:
        answers = "first" if _NOT_WHILE_ASKED & {node["op"] for node in _all(body)} else "last"
        return self._node("handle", names=self._names(), timeout=timeout, body=body, answers=answers)

    def _any(self, where: Where) -> Node:
        """Any node that can stand here."""
        weights = {op: weight for op, weight in NODES.items() if self._may_be(op, where)}
        op = self._rng.choices(tuple(weights), None if self._is_even else tuple(weights.values()))[0]
        node = self._make(op, where)
        may_fail = op in ("child", "children", "topic", "receive") or node.get("kind") in _UNSURE_KINDS
        # A compensation must come to its end; others may fail as they like, within limits.
        is_tried = may_fail and op != "try_step" and (where.is_undo or self._rng.random() < 0.6)
        return self._node("try", body=node) if is_tried else node

    def _may_be(self, op: str, where: Where) -> bool:
        match op:
            case "continue":
                return where.continues and not where.is_undo
            case "odd":
                return not where.is_tried
            case _:
                return where.depth > 0 or op not in _BRANCHING

    def _make(self, op: str, where: Where) -> Node:
        rng, inner = self._rng, replace(where, depth=where.depth - 1)
        match op:
            case "step" | "try_step":
                return self._step(op, where)
            case "sleep" | "sleep_until":
                return self._node(op, seconds=rng.choice((0, 0.05, 0.4, 1.5)))
            case "receive" | "receive_many" | "wait_any":
                timeout = rng.choice((0.3, 2.0)) if op == "wait_any" else rng.choice((None, 0.3, 2.0))
                return self._node(op, names=self._names(), timeout=timeout, count=rng.choice((1, 2, 10)))
            case "topic":
                return self._node(op, topic="x", where=None, since=rng.choice(("wait", "all")), timeout=2.0)
            case "observe":
                return self._node(op, names=[rng.choice(("a", "b", "c"))], show=rng.choice(("latest", "all", "has")))
            case "handle":
                return self._handler(self._any(inner), rng.choice((None, 0.3, 2.0)))
            case "emit":
                return self._node(op, event=rng.choice(("red", "blue.dark")))
            case "child" | "spawn":
                policy = rng.choice(("leave", "cancel"))
                return self._node(op, program=self._small_program(), key=False, on_parent_close=policy)
            case "children":
                return self._node(op, programs=[self._small_program() for _ in range(rng.randint(1, 2))])
            case "odd":
                return self._node(op, odd=rng.choice(tuple(odd.EXCEPTIONS)))
            case "gather" | "tasks":
                form = rng.choice(tasks.FORMS) if op == "tasks" else "all"
                return self._node(op, form=form, items=[self._task(form) for _ in range(rng.randint(2, 4))])
            case "join" | "race" | "map" | "loop":
                return self._branching(op, inner)
            case _:
                return self._node(op)

    def _branching(self, op: str, where: Where) -> Node:
        rng, on_error = self._rng, self._rng.choice(("wait_all", "fail_fast"))
        is_kept = op in ("join", "map") and on_error == "wait_all" and self._is_async
        inner = replace(where, is_tried=False, is_steady=where.is_steady and is_kept)
        if op == "loop":
            times, keep = rng.randint(1, 4), rng.choice((0, 1))
            body = self._any(inner)
            node = self._node(op, times=times, body=body, commit_every=1, trim_every=1, keep=keep)
        elif op == "map":
            items = [self._any(inner) for _ in range(rng.randint(1, 3))]
            node = self._node(op, items=items, limit=rng.randint(1, 3), on_error=on_error)
        else:
            branches = {f"b{index}": self._any(inner) for index in range(rng.randint(1, 3))}
            how = {"first": "success"} if op == "race" else {"on_error": on_error}
            node = self._node(op, branches=branches, **how)
        self._capture(node, is_kept)
        return node

    def _task(self, form: str) -> Node:
        """One operation, which may be cancelled in the middle."""
        op = self._rng.choice(("step", "step", "step", "sleep", "once", "receive_many"))
        if op == "receive_many":
            return self._node(op, names=self._names(), timeout=self._rng.choice((0.05, 0.3)), count=2)
        if op != "step":
            return self._node(op, seconds=self._rng.choice((0.001, 0.05, 0.4))) if op == "sleep" else self._node(op)
        kinds = (*_SURE_KINDS, "fatal") if form == "group" else _SURE_KINDS
        return self._work(op, self._rng.choice(kinds))

    def _step(self, op: str, where: Where) -> Node:
        kinds = (*_SURE_KINDS, *_UNSURE_KINDS, "undoable", "undoable_ctx", *(("stuck",) if where.is_undo else ()))
        node = self._work(op, self._rng.choice(kinds))
        if not where.is_undo:
            self._change_step(node, where)
        elif self._chance() and node["kind"] in _SURE_KINDS:
            node["spoils"] = True
        return node

    def _work(self, op: str, kind: str) -> Node:
        rng = self._rng
        node = self._node(op, kind=kind, lasts=rng.choice((0, 0, 0.03, 0.3)), value=rng.choice((0, "x", [1])), fails=1)
        if kind in ("odd", "odd_sync"):
            node["odd"] = rng.choice((*odd.EXCEPTIONS, *odd.VALUES))
        if kind.startswith("undoable"):
            node |= {"undo_fails": "no", "undo_lasts": 0}
        return node

    def _small_program(self) -> dict[str, Any]:
        items = [self._work("step", self._rng.choice(_SURE_KINDS)), self._make("sleep", Where())]
        return {"body": self._node("seq", items=items), "ending": None, "continues": 0}

    def _names(self) -> list[str]:
        """What is waited for: mostly the signal that has a type."""
        return self._rng.choice((["t"], ["t"], ["a"], ["t", "b"], []))

    def _node(self, op: str, **parts: Any) -> Node:
        self._count += 1
        return {"op": op, "id": f"{op}_{self._count}", **parts}

    def _chance(self, factor: float = 1.0) -> bool:
        return self._rng.random() < self._often * factor


def _all(node: Node) -> list[Node]:
    parts = [node.get("body"), *node.get("items", ()), *node.get("branches", {}).values()]
    return [node, *(inner for part in parts if part is not None for inner in _all(part))]
