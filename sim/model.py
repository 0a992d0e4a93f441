"""The model: what a program may come to, said without any engine (T7)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sim.programs import Node

OK, FAIL = "ok", "fail"
Outcomes = frozenset[str]
BOTH: Outcomes = frozenset({OK, FAIL})
_ONLY_OK: Outcomes = frozenset({OK})
_ONLY_FAIL: Outcomes = frozenset({FAIL})

_TIMEOUT = 0.02  # seconds, of a step of kind "timed"


def outcomes_of_program(program: dict[str, Any], *, are_cancels: bool) -> Outcomes:
    """Whether a run of this program may complete (or continue), or fail."""
    return _ONLY_FAIL if program["ending"] is not None else outcomes(program["body"], are_cancels)


def outcomes(node: Node, are_cancels: bool) -> Outcomes:
    """Whether a node may succeed or fail; both where faults or timing decide."""
    match node["op"]:
        case "step":
            return _step(node)
        case "receive" | "topic":
            return _ONLY_OK if node["timeout"] is None else BOTH
        case "child":
            inner = outcomes_of_program(node["program"], are_cancels=are_cancels)
            return BOTH if are_cancels else inner
        case "join" | "race":
            parts = [outcomes(inner, are_cancels) for inner in node["branches"].values()]
            if node["op"] == "join":
                return _all(parts)
            can_fail = any if node["first"] == "settled" else all
            return _set(any(OK in part for part in parts), can_fail(FAIL in part for part in parts))
        case "seq" | "gather" | "map":
            return _all(outcomes(item, are_cancels) for item in node["items"])
        case "loop":
            return outcomes(node["body"], are_cancels)
        case _:
            return _ONLY_OK


def _step(node: Node) -> Outcomes:
    match node["kind"]:
        case "bad" | "fatal":
            return _ONLY_FAIL
        case "timed":
            return _ONLY_FAIL if node["lasts"] > _TIMEOUT else BOTH
        case "stuck" | "once_only" | "slow_timed":  # workers may be lost with it until its attempts are used up
            return BOTH
        case _:
            return _ONLY_OK


def _all(parts: Iterable[Outcomes]) -> Outcomes:
    found = list(parts)
    return _set(all(OK in part for part in found), any(FAIL in part for part in found))


def _set(can_succeed: bool, can_fail: bool) -> Outcomes:
    return frozenset(word for word, can in ((OK, can_succeed), (FAIL, can_fail)) if can)


def refuse_program(program: dict[str, Any], value: Any, *, are_cancels: bool) -> str | None:
    """Why this cannot be the result of a completed run of the program; None if it can."""
    if not isinstance(value, list) or len(value) != 3 or value[0] != "ended":
        return f"a program does not end with {value!r}"
    return refuse(program["body"], value[2], are_cancels)


def refuse(node: Node, value: Any, are_cancels: bool) -> str | None:
    """Why this cannot be the value of the node; None if it can."""
    problem = _refuse(node, value, are_cancels)
    return None if problem is None else f"{node['id']}: {problem}" if ":" not in problem else problem


def _refuse(node: Node, value: Any, are_cancels: bool) -> str | None:
    wrong = f"got {value!r}"
    match node["op"], value:
        case "step", _:
            return None if value == ["did", node["id"], node["value"]] and OK in _step(node) else wrong
        case "try_step", ["tried", True, result, None, attempts]:
            right = result == ["did", node["id"], node["value"]] and attempts >= 1 and OK in _step(node)
            return None if right else wrong
        case "try_step", ["tried", False, None, str(), _]:
            return None if FAIL in _step(node) else wrong
        case "seq", list() if len(value) == len(node["items"]):
            return _first(refuse(item, part, are_cancels) for item, part in zip(node["items"], value, strict=True))
        case "gather", list() if len(value) == len(node["items"]):
            return _first(refuse(item, part, are_cancels) for item, part in zip(node["items"], value, strict=True))
        case "try", ["ok", inner]:
            return refuse(node["body"], inner, are_cancels)
        case "try", ["caught", str()]:
            return None if FAIL in outcomes(node["body"], are_cancels) else wrong
        case "join", ["joined", dict() as parts] if list(parts) == list(node["branches"]):
            return _first(refuse(node["branches"][name], part, are_cancels) for name, part in parts.items())
        case "map", ["mapped", list(parts)] if len(parts) == len(node["items"]):
            return _first(refuse(item, part, are_cancels) for item, part in zip(node["items"], parts, strict=True))
        case "race", ["won", str(name), part] if name in node["branches"]:
            return refuse(node["branches"][name], part, are_cancels)
        case "loop", ["looped", times, part] if times == node["times"]:
            return refuse(node["body"], part, are_cancels)
        case "child", ["child", part]:
            return refuse_program(node["program"], part, are_cancels=are_cancels)
        case "spawn", ["spawned", str()]:
            return None
        case "emit", ["emitted", str()]:
            return None
        case "once", ["once", int()]:
            return None
        case "clock", ["clock", str(), float(chance), str()]:
            return None if 0 <= chance < 1 else wrong
        case "sleep", ["slept", str(due), str(woke)]:
            return None if due <= woke else wrong
        case "receive", ["got", str(name), {"mark": str()}]:
            return None if not node["names"] or name in node["names"] else wrong
        case "wait_any", ["any", "late", None, None]:
            return None
        case "wait_any", ["any", "got", str(name), {"mark": str()}]:
            return None if not node["names"] or name in node["names"] else wrong
        case "observe", ["seen", seen]:
            return None if _may_be_seen(node, seen) else wrong
        case "topic", ["event", topic, dict(payload)]:
            return None if _is_news(node, topic, payload) else wrong
        case "wait_any", ["any", "event", topic, dict(payload)]:
            return None if _is_news(node, topic, payload) else wrong
        case "receive_many", ["many", list(messages)]:
            return _refuse_many(node, messages)
        case "version", ["version", 3, True]:
            return None
        case ("append", ["appended"]) | ("publish", ["published"]):
            return None
        case "checkpoint", ["checkpoint"]:
            return None
        case _:
            return wrong


def _may_be_seen(node: Node, seen: Any) -> bool:
    if node["show"] == "has":
        return isinstance(seen, bool)
    messages = seen if node["show"] == "all" else [] if seen is None else [seen]
    return all(name == node["names"][0] and "mark" in payload for name, payload in messages)


def _is_news(node: Node, topic: Any, payload: dict[str, Any]) -> bool:
    return topic == node["topic"] and (node["where"] is None or payload["n"] == node["where"]["n"])


def _refuse_many(node: Node, messages: list[Any]) -> str | None:
    if len(messages) > node["count"] or (not messages and node["timeout"] is None):
        return f"got {len(messages)} messages"
    strange = [name for name, _ in messages if node["names"] and name not in node["names"]]
    return f"got a {strange[0]}" if strange else None


def _first(problems: Iterable[str | None]) -> str | None:
    return next((problem for problem in problems if problem is not None), None)
