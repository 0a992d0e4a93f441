"""Short programs besides those of a seed: what came to the vocabulary later, in every place."""

from __future__ import annotations

import random
from typing import Any, Final

Node = dict[str, Any]

# Whatever is drawn here, and how often.
KINDS: Final = {"within": 4, "nap": 2, "business": 0.5, "cleanup": 3, "effect": 2, "always": 2, "undone child": 1}


class Further:
    """The further programs of one seed. Old seeds keep the programs that they had."""

    def __init__(self, seed: str) -> None:
        self._rng = rng = random.Random(seed)
        self._is_on = rng.random() < 0.5
        self._kinds = [kind for kind in KINDS if rng.random() < 0.7] or ["within"]
        self._count = 0

    def programs(self) -> list[dict[str, Any]]:
        """One program, or none."""
        if not self._is_on:
            return []
        rng = self._rng
        places = rng.sample(("top", "branches", "race", "items", "loop", "undo", "handler"), rng.randint(2, 4))
        items = [self._place(place) for place in places]
        ends_badly = "undo" in places or rng.random() < 0.3
        if rng.random() < 0.5:
            body = self._node("seq", items=[self._step("ok"), self._node("nap", seconds=rng.choice((0.05, 0.5)))])
            items.insert(0, self._node("serve", names=rng.choice((["a"], ["b"], ["t"])), body=body))
        program = {"body": self._node("seq", items=items), "continues": 0, "code": "async"}
        return [program | {"ending": {"op": "rollback"} if ends_badly else None}]

    def _place(self, place: str) -> Node:
        rng = self._rng
        match place:
            case "branches" | "race":
                branches = {f"b{index}": self._some() for index in range(2)}
                how: Node = {"first": "success"}
                if place != "race":
                    how = {"on_error": rng.choice(("wait_all", "fail_fast"))}
                return self._node("race" if place == "race" else "join", branches=branches, **how)
            case "items":
                how = {"limit": rng.randint(1, 2), "on_error": rng.choice(("wait_all", "fail_fast"))}
                return self._node("map", items=[self._some(), self._some()], **how)
            case "loop":
                how = {"commit_every": 1, "trim_every": rng.choice((1, 2)), "keep": rng.choice((0, 1))}
                return self._node("loop", times=rng.randint(2, 4), body=self._some(), **how)
            case "undo":
                step = self._step("undoable_ctx") | {"undo_fails": "no", "undo_lasts": 0}
                return step | {"undo": self._node("seq", items=[self._some(is_undo=True)])}
            case "handler":
                handled = {"names": rng.choice((["a"], [])), "timeout": 2.0, "answers": "first"}
                return self._node("handle", body=self._some(), **handled)
            case _:
                return self._some()

    def _some(self, *, is_undo: bool = False) -> Node:
        """What was added, with a step before it or behind it."""
        items = [self._new(is_undo=is_undo), self._step("ok")]
        self._rng.shuffle(items)
        return self._node("seq", items=items)

    def _new(self, *, is_undo: bool) -> Node:
        rng = self._rng
        match rng.choices(self._kinds, [KINDS[kind] for kind in self._kinds])[0]:
            case "cleanup":
                return self._node("cleanup", kind="ok", lasts=0.03, value=0, fails=1, body=self._limited(is_undo))
            case "effect":
                return self._node("effect", kind="ok", lasts=0.03, value=0, fails=1)
            case "always":
                return self._step("always", lasts=rng.choice((0.03, 0.3)))
            case "undone child":
                program = {"body": self._node("seq", items=[self._step("ok")]), "ending": None, "continues": 0}
                return self._node("child", program=program, key=False, on_parent_close="leave", undone=True)
            case "nap" | "business" as op:
                return self._node(op, seconds=rng.choice((0.0, 0.001, 0.05, 0.4, 2.0)))
            case _:
                return self._node("within", seconds=rng.choice((0.0, 0.01, 0.1, 0.5, 3.0)), body=self._limited(is_undo))

    def _limited(self, is_undo: bool) -> Node:
        """What may run out of time."""
        rng = self._rng
        plain = ("step", "step", "sleep", "receive", "race", "join", "within", "seq", "nap")
        match rng.choice((*plain, "cleanup", "effect", "always")):
            case "step":
                return self._step(rng.choice(("ok", "flaky", "sync", "slow")), lasts=rng.choice((0, 0.03, 0.3, 1.0)))
            case "cleanup":
                inner = self._node("sleep", seconds=rng.choice((0.05, 0.5)))
                return self._node("cleanup", kind="ok", lasts=0.03, value=0, fails=1, body=inner)
            case "effect":
                return self._node("effect", kind="ok", lasts=0.03, value=0, fails=1)
            case "always":
                return self._step("always", lasts=rng.choice((0.03, 0.3)))
            case "sleep":
                return self._node("sleep", seconds=rng.choice((0.0, 0.05, 0.5, 2.0)))
            case "receive":
                return self._node("receive_many", names=["b"], timeout=rng.choice((0.05, 0.3, 2.0)), count=2)
            case "race":
                branches = {"b0": self._step("ok", lasts=0.3), "b1": self._node("sleep", seconds=0.4)}
                return self._node("race", branches=branches, first="success")
            case "join":
                branches = {"b0": self._step("ok", lasts=0.3), "b1": self._node("nap", seconds=0.2)}
                return self._node("join", branches=branches, on_error="wait_all")
            case "within":
                inner = self._node("sleep", seconds=rng.choice((0.05, 0.5)))
                return self._node("within", seconds=rng.choice((0.05, 0.5)), body=inner)
            case "nap":
                return self._node("nap", seconds=rng.choice((0.05, 0.5)))
            case _:
                return self._node("seq", items=[self._step("ok"), self._node("sleep", seconds=0.1), self._step("ok")])

    def _step(self, kind: str, *, lasts: float = 0.03) -> Node:
        kind, lasts = ("ok", 3.0) if kind == "slow" else (kind, lasts)
        if kind == "always":  # undone whatever comes of it
            kind = self._rng.choice(("undoable_always", "undoable_always", "unsure_always"))
        step = self._node("step", kind=kind, lasts=lasts, value=0, fails=1)
        return self._node("try", body=step) if kind == "unsure_always" else step

    def _node(self, op: str, **parts: Any) -> Node:
        self._count += 1
        return {"op": op, "id": f"{op}_n{self._count}", **parts}
