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
        case "fail" | "odd":
            return _ONLY_FAIL
        case "cleanup":
            return outcomes(node["body"], are_cancels)
        case "handle" | "within":
            return _set(True, FAIL in outcomes(node["body"], are_cancels))
        case "children":
            parts = [outcomes_of_program(program, are_cancels=are_cancels) for program in node["programs"]]
            return BOTH if are_cancels else _all(parts)
        case "child":
            inner = outcomes_of_program(node["program"], are_cancels=are_cancels)
            return BOTH if are_cancels else inner
        case "question":
            return BOTH if are_cancels else _ONLY_OK
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
        case "unsure_always":
            return _ONLY_FAIL
        case "bad" | "fatal" | "odd" | "odd_sync":
            return _ONLY_FAIL
        case "timed":
            return _ONLY_FAIL if node["lasts"] > _TIMEOUT else BOTH
        case (
            "stuck" | "once_only" | "slow_timed" | "sync_timed"
        ):  # workers may be lost with it until its attempts are used up
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
    if ("tally" in node or "leaks" in node) and isinstance(value, list):
        *value, written = value
        if not _may_be_written(node, written):
            return f"{written!r} was written outside"
    if "awaits" in node and isinstance(value, list):
        *value, label = value
        if label not in ("ended", "late"):
            return wrong
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
        case "handle", ["unhandled"]:
            return None
        case ("within", ["late"]) | ("nap", ["napped"]) | ("effect", ["registered"]) | ("serve", ["serving"]):
            return None
        case "cleanup", ["cleaned", part]:
            return refuse(node["body"], part, are_cancels)
        case "within", ["in time", part]:
            return refuse(node["body"], part, are_cancels)
        case "handle", ["handled", str(name), {"mark": str()}, part] if _is_named(node, name):
            return refuse(node["body"], part, are_cancels)
        case "tasks", ["tasks", form, part] if form == node["form"]:
            return _refuse_tasks(node, part, are_cancels)
        case "children", ["children", list(parts)] if len(parts) == len(node["programs"]):
            return _first(
                refuse_program(program, part, are_cancels=are_cancels)
                for program, part in zip(node["programs"], parts, strict=True)
            )
        case ("fail" | "odd", ["mended"]) | ("continue", ["stays"]) | ("gates", ["gates"]):
            return None  # only a compensation is mended
        case "about", ["about", [str(), _, "program" | "helper", 1, int()], _, str()]:
            return None
        case "child", ["child", part]:
            return refuse_program(node["program"], part, are_cancels=are_cancels)
        case "spawn", ["spawned", str()]:
            return None
        case "emit", ["emitted", str()]:
            return None
        case ("tell", ["told", str()]) | ("announce", ["announced", str()]) | ("headers", ["headers"]):
            return None
        case "question", ["asked", kind, str(mark), answer]:
            return None if _may_be_answered(kind, mark, answer) else wrong
        case "launch", ["launched", str(), label]:
            return None if label in ((None,) if node["late"] is None else ("ended", "late")) else wrong
        case "stop", ["stopped", str(), status]:
            return None if status in (None, "cancelled", "completed") else wrong
        case "once", ["once", int()]:
            return None
        case "clock", ["clock", str(), float(chance), str()]:
            return None if 0 <= chance < 1 else wrong
        case "sleep" | "sleep_until" | "business", ["slept", str(due), str(woke)]:
            return None if due <= woke else wrong
        case "receive", ["got", str(name), {"mark": str()}]:
            return None if _is_named(node, name) else wrong
        case "wait_any", ["any", "late", None, None]:
            return None
        case "wait_any", ["any", "got", str(name), {"mark": str()}]:
            return None if _is_named(node, name) else wrong
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
        case "describe", ["described", bool(is_refused)] if is_refused == node["asks_too_much"]:
            return None
        case ("append", ["appended"]) | ("publish", ["published"]):
            return None
        case "checkpoint", ["checkpoint"]:
            return None
        case "record", ["answered", "ann" | "bo", str()]:
            return None
        case "record", ["answered", "keeper", str()]:
            return wrong if node["within"] is None else None
        case _:
            return wrong


def _may_be_answered(kind: str, mark: str, answer: Any) -> bool:
    match kind:
        case "given":
            return bool(answer == {"answer": mark})
        case "refused":
            return answer == f"refused {mark}" or "before it replied" in answer
        case _:
            return kind in ("unanswered", "late") and answer is None


def _is_named(node: Node, name: str) -> bool:
    return not node["names"] or name in node["names"]


def _may_be_written(node: Node, written: Any) -> bool:
    """Everybody who came to an end has written once; where that would be lost, nobody has."""
    if "leaks" in node:
        return bool(written == [])
    writers: list[Any] = list(node["branches"]) if "branches" in node else list(range(len(node["items"])))
    return isinstance(written, list) and sorted(written) == writers


def _refuse_tasks(node: Node, part: Any, are_cancels: bool) -> str | None:
    items = {item["id"]: item for item in node["items"]}
    if part == "failed":
        can_fail = any(FAIL in outcomes(item, are_cancels) for item in node["items"])
        return None if node["form"] == "group" and can_fail else "the tasks failed"
    names = [name for name, _ in part]
    is_whole = node["form"] in ("first", "cancelled") or len(names) == len(items)
    if len(set(names)) != len(names) or not is_whole or (node["form"] == "first" and not names):
        return f"got {names}"
    return _first(refuse(items[name], value, are_cancels) for name, value in part)


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
