"""Forms in the programs of a seed: records that code opens at every place, and waits for."""

from __future__ import annotations

import random
from collections.abc import Awaitable
from typing import Any

from sim.books import form
from sim.plain import Done, PlainTwin
from stepwell.model.states import EntryKind
from stepwell.replay.context import Context
from stepwell.replay.operations import Operation
from stepwell.replay.plain_code import asked_for
from stepwell.replay.primitives.record import run_record

Node = dict[str, Any]


def open_form(ctx: Context | PlainTwin, name: str, within: float | None) -> Awaitable[Any]:
    """Open a form and wait for its answer, as an operation of a context would."""
    if isinstance(ctx, PlainTwin):
        plain = ctx._ctx
        return Done(lambda: plain._code.ask(asked_for("record", name), lambda: _open(plain._inner, name, within)))
    return _open(ctx, name, within)


def _open(ctx: Context, name: str, within: float | None) -> Operation[Any]:
    scope = ctx._scope
    awaited = form(scope.turn.codec, within)
    location, entry = scope.place(name, EntryKind.RECORD)
    return Operation(scope.turn, location, lambda: run_record(scope, location, entry, awaited))


class Forms:
    """Puts forms into programs that are drawn already, with a stream of its own."""

    def __init__(self, seed: str) -> None:
        self._rng = rng = random.Random(seed)
        self._is_on = rng.random() < 0.5
        self._often = rng.choice((0.15, 0.35))  # chance of a form, for each sequence
        self._count = 0

    def add(self, program: dict[str, Any]) -> None:
        """Change a program, and those of its children."""
        if self._is_on:
            self._visit(program["body"])

    def further(self) -> list[dict[str, Any]]:
        """A short program that has forms at some of the places where they are seldom drawn."""
        if not self._is_on or self._rng.random() < 0.2:
            return []
        rng = self._rng
        kinds = rng.sample(("branches", "race", "items", "loop", "undo", "handler", "tasks"), rng.randint(1, 3))
        kinds += rng.choice(([], [], ["left"]))  # last, because it fails
        program = {"body": self._node("seq", items=[self._place(kind) for kind in kinds]), "continues": 0}
        return [program | {"ending": {"op": "rollback"} if "undo" in kinds else None}]

    # --- what is there already ---

    def _visit(self, node: Node) -> None:
        match node["op"]:
            case "seq":
                for item in node["items"]:
                    self._visit(item)
                if self._rng.random() < self._often:
                    node["items"].insert(self._rng.randint(0, max(0, len(node["items"]) - 1)), self._form())
            case "join" | "race" | "map":
                for part in node.get("items") or node["branches"].values():
                    self._visit(part)
            case "try" | "loop" | "handle":
                self._visit(node["body"])
            case "tasks" if self._rng.random() < 2 * self._often:
                node["items"].append(self._form())
            case "child" | "spawn":
                self._visit(node["program"]["body"])
            case "step" | "try_step" if "undo" in node:
                self._visit(node["undo"])
            case _:
                pass

    # --- what is new ---

    def _place(self, kind: str) -> Node:
        rng = self._rng
        match kind:
            case "branches":
                return self._parallel("join", on_error=rng.choice(("wait_all", "fail_fast")))
            case "race":
                return self._parallel("race", first="success")
            case "items":
                items = [self._both() for _ in range(2)]
                return self._node(
                    "map", items=items, limit=rng.randint(1, 2), on_error=rng.choice(("wait_all", "fail_fast"))
                )
            case "loop":
                return self._node(
                    "loop", times=rng.randint(2, 3), body=self._both(), commit_every=1, trim_every=1, keep=0
                )
            case "undo":
                undo = self._node("seq", items=[self._form(), self._form()])
                return self._step("undoable_ctx") | {"undo_fails": "no", "undo_lasts": 0, "undo": undo}
            case "handler":
                names = rng.choice((["a"], []))
                return self._node("handle", names=names, timeout=2.0, body=self._form(), answers="first")
            case "left":
                fails = self._node("gather", items=[self._form(), self._step("fatal")])
                return self._node("seq", items=[self._step("undoable") | {"undo_fails": "no", "undo_lasts": 0}, fails])
            case _:
                items = [self._form(), self._step("ok"), self._form()]
                rng.shuffle(items)
                return self._node("tasks", form=rng.choice(("first", "first", "wait", "cancelled")), items=items)

    def _parallel(self, op: str, **how: Any) -> Node:
        quick = self._node("sleep", seconds=self._rng.choice((0.0, 0.05, 0.5)))
        anything = self._node("receive_many", names=[], timeout=2.0, count=2)
        first = self._rng.choice((self._both(), anything))
        return self._node(op, branches={"b0": first, "b1": self._form(), "b2": quick}, **how)

    def _both(self) -> Node:
        return self._node("seq", items=[self._step("ok"), self._form()])

    def _form(self) -> Node:
        return self._node("record", within=self._rng.choice((None, 0.0, 0.1, 0.6, 2.0)))

    def _step(self, kind: str) -> Node:
        return self._node("step", kind=kind, lasts=self._rng.choice((0, 0.03, 0.3)), value=0, fails=1)

    def _node(self, op: str, **parts: Any) -> Node:
        self._count += 1
        return {"op": op, "id": f"{op}_f{self._count}", **parts}
