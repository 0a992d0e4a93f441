"""Short programs besides those of a seed: runs that deal with other runs, headers, and names that are used again."""

from __future__ import annotations

import random
from typing import Any, Final

Node = dict[str, Any]

# Whatever is drawn here, and how often. "named again" is several operations that share a name.
KINDS: Final = {
    "tell": 4,
    "question": 2,
    "announce": 3,
    "launch": 2,
    "stop": 1.5,
    "headers": 2,
    "named again": 4,
    "by name": 1,
}
PLACES: Final = ("top", "branches", "race", "items", "loop", "undo", "handler")
NEVER: Final = "never"  # a signal that nobody sends, unless a run is forgotten
_ORDERS = 6  # keys of orders that there may be
_CALLED = "again"


class Neighbours:
    """The further programs of one seed. Old seeds keep the programs that they had."""

    def __init__(self, seed: str) -> None:
        self._rng = rng = random.Random(seed)
        self._is_on = rng.random() < 0.4
        self._kinds = [kind for kind in KINDS if rng.random() < 0.6] or ["tell"]
        self._count = 0
        self._headers: dict[str, str] = {}  # of the program that is drawn now

    def programs(self) -> list[dict[str, Any]]:
        """Up to two programs, or none."""
        if not self._is_on:
            return []
        return [self._program() for _ in range(self._rng.choice((1, 1, 2)))]

    def _program(self) -> dict[str, Any]:
        rng = self._rng
        self._headers = rng.choice(({}, {"user": "ann"}, {"user": "bo", "tenant": "ü"}))
        places = rng.sample(PLACES, rng.randint(2, 4))
        body = self._node("seq", items=[self._place(place) for place in places])
        ends_badly = "undo" in places or rng.random() < 0.2
        continues = 0 if ends_badly else rng.choice((0, 0, 1))
        program = {"body": body, "continues": continues, "ending": {"op": "rollback"} if ends_badly else None}
        return program | {"headers": self._headers}

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
                return step | {"undo": self._some()}
            case "handler":
                handled = {"names": rng.choice((["a"], [])), "timeout": 2.0, "answers": "first"}
                return self._node("handle", body=self._some(), **handled)
            case _:
                return self._some()

    def _some(self) -> Node:
        """What was added, with a step before it or behind it."""
        items = [self._new(), self._step("ok")]
        self._rng.shuffle(items)
        return self._node("seq", items=items)

    def _new(self) -> Node:
        rng = self._rng
        match rng.choices(self._kinds, [KINDS[kind] for kind in self._kinds])[0]:
            case "tell":
                told = [self._tell() for _ in range(rng.choice((1, 2, 3)))]
                return told[0] if len(told) == 1 else self._node("seq", items=told)
            case "question":
                how = {"to": self._key(), "signal": rng.choice("abt"), "timeout": rng.choice((0.5, 2.0))}
                return self._node("question", **how)
            case "announce":
                how = {"deliver": rng.choice(("all", "one")), "retain": rng.choice((None, None, 1.0, 60.0))}
                return self._node("announce", topic=rng.choice("xxy"), n=rng.randint(0, 1), **how)
            case "launch":
                return self._launch()
            case "stop":
                waits = self._node("receive", names=[NEVER], timeout=None, count=1)
                program = self._small(self._step("ok"), waits)
                return self._node("stop", program=program, compensate=rng.random() < 0.5)
            case "headers":
                return self._looks()
            case "by name":
                return self._step("by_name")
            case _:
                return self._named_again()

    def _tell(self) -> Node:
        rng = self._rng
        to = rng.choice(("self", "self", self._key(), self._key(), "nobody"))
        how = {"if_missing": rng.choice(("hold", "hold", "drop")), "dedup": rng.random() < 0.2}
        return self._node("tell", to=to, signal=rng.choice("abct"), **how)

    def _launch(self) -> Node:
        rng, own = self._rng, self._headers
        given = rng.choice((None, None, {"user": "cy"}))
        self._headers = own | (given or {})
        program = self._small(self._looks(), self._step("ok"), self._node("sleep", seconds=rng.choice((0, 0.1, 1.0))))
        self._headers = own
        options: dict[str, Any] = {}
        if rng.random() < 0.3:
            options["delay"] = rng.choice((0.05, 1.0))
        if rng.random() < 0.3:
            options["priority"] = rng.choice((-1, 5))
        if rng.random() < 0.3:
            options["tags"] = {"team": "neighbours"}
        if given is not None:
            options["headers"] = given
        late = rng.choice((None, 0.05, 4.0, 4.0))
        return self._node("launch", program=program, options=options, is_named=rng.random() < 0.5, late=late)

    def _named_again(self) -> Node:
        """Operations that share a name: the same step more than once, with sleeps and children among it."""
        rng = self._rng
        ops = ["step", *(rng.choice(("step", "step", "sleep", "once", "child")) for _ in range(rng.randint(1, 3)))]
        rng.shuffle(ops)
        return self._node("seq", items=[self._again(op) for op in ops])

    def _again(self, op: str) -> Node:
        match op:
            case "step":
                return self._step("ok", lasts=self._rng.choice((0, 0.03, 0.3))) | {"called": _CALLED}
            case "sleep":
                return self._node("sleep", seconds=self._rng.choice((0.0, 0.05, 0.5)), called=_CALLED)
            case "child":
                how = {"key": False, "on_parent_close": "leave", "called": _CALLED}
                return self._node("child", program=self._small(self._looks(), self._step("ok")), **how)
            case _:
                return self._node(op, called=_CALLED)

    def _looks(self) -> Node:
        return self._node("headers", expects=self._headers)

    def _small(self, *items: Node) -> dict[str, Any]:
        return {"body": self._node("seq", items=list(items)), "ending": None, "continues": 0}

    def _key(self) -> str:
        return f"key {self._rng.randrange(_ORDERS)}"

    def _step(self, kind: str, *, lasts: float = 0.03) -> Node:
        return self._node("step", kind=kind, lasts=lasts, value=0, fails=1, expects=self._headers)

    def _node(self, op: str, **parts: Any) -> Node:
        self._count += 1
        return {"op": op, "id": f"{op}_w{self._count}", **parts}
