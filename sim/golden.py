"""Golden programs: small ones that cover every primitive, for the sweep over all crash points (T2)."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from sim.habits import FORMS, PROGRAM_FORMS, UNDO_FORMS
from sim.neighbours import NEVER
from sim.programs import Node

Program = dict[str, Any]


class _Builder:
    """Nodes with names that are unique within one program."""

    def __init__(self) -> None:
        self._count = 0

    def node(self, op: str, **parts: Any) -> Node:
        self._count += 1
        return {"op": op, "id": f"{op}{self._count}", **parts}

    def step(self, kind: str = "ok", op: str = "step", lasts: float = 0.01, **parts: Any) -> Node:
        undo = {"undo_fails": "no", "undo_lasts": 0} if kind.startswith("undoable") else {}
        return self.node(op, kind=kind, lasts=lasts, value=kind, fails=1, **undo, **parts)

    def streaming(self, chunks: int, breaks: int = 0, lasts: float = 0.01) -> Node:
        return self.step("streaming", lasts=lasts, chunks=chunks, breaks=breaks)

    def sleep(self, seconds: float = 0.05) -> Node:
        return self.node("sleep", seconds=seconds)

    def receive(self, timeout: float | None = None, op: str = "receive") -> Node:
        return self.node(op, names=["a"], timeout=timeout, count=2)

    def look(self, show: str = "latest") -> Node:
        return self.node("observe", names=["a"], show=show)

    def topic(self, timeout: float | None = None, since: str = "wait") -> Node:
        return self.node("topic", topic="x", where=None, since=since, timeout=timeout)

    def within(self, seconds: float, body: Node) -> Node:
        return self.node("within", seconds=seconds, body=body)

    def cleanup(self, body: Node) -> Node:
        return self.node("cleanup", kind="ok", lasts=0.01, value=0, fails=1, body=body)

    def child(
        self, *items: Node, ending: str | None = None, continues: int = 0, key: bool = False, **parts: Any
    ) -> Node:
        program = self.program(*items, ending=ending, continues=continues)
        return self.node("child", program=program, key=key, **parts)

    def branches(self, op: str, *items: Node, **parts: Any) -> Node:
        return self.node(op, branches={f"b{index}": item for index, item in enumerate(items)}, **parts)

    def loop(self, body: Node, times: int = 3, commit_every: int = 1, trim_every: int = 1, keep: int = 0) -> Node:
        return self.node("loop", body=body, times=times, commit_every=commit_every, trim_every=trim_every, keep=keep)

    def describe(self, *, asks_too_much: bool = False) -> Node:
        return self.node("describe", asks_too_much=asks_too_much)

    def seq(self, *items: Node) -> Node:
        return self.node("seq", items=list(items))

    def undoable(self, *items: Node, **parts: Any) -> Node:
        return self.step("undoable_ctx", undo=self.seq(*items), **parts)

    def form(self, within: float | None = None) -> Node:
        return self.node("record", within=within)

    def handler(self, body: Node, answers: str = "last") -> Node:
        return self.node("handle", names=["a"], timeout=None, body=body, answers=answers)

    def tasks(self, form: str, *items: Node) -> Node:
        return self.node("tasks", form=form, items=list(items))

    def attempt(self, body: Node) -> Node:
        return self.node("try", body=body)

    def program(self, *items: Node, ending: str | None = None, continues: int = 0, **parts: Any) -> Program:
        end = {"op": ending} if ending else None
        return {"body": self.seq(*items), "ending": end, "continues": continues, **parts}


def golden_programs() -> tuple[str, ...]:
    """The names of all programs."""
    return tuple(_programs())


def golden_program(name: str) -> Program:
    """One program, as it was written: what an earlier simulation did to it is not there."""
    return copy.deepcopy(_programs()[name])


@cache
def _programs() -> dict[str, Program]:
    b = _Builder()
    return {
        **_steps(b),
        **_waits(b),
        **_branches(b),
        **_families(b),
        **_undoing(b),
        **_shown(b),
        **_passed(b),
        **_undone_by_programs(b),
        **_asyncio(b),
        **_named(b),
        **_forms(b),
        **_time(b),
        **_blocks(b),
        **_neighbours(b),
    }


def _steps(b: _Builder) -> dict[str, Program]:
    join = {"on_error": "wait_all"}
    return {
        "one step": b.program(b.step()),
        "three steps": b.program(b.step(), b.step(), b.step()),
        "busy": b.program(*(b.step(lasts=0.5) for _ in range(4))),
        "flaky": b.program(b.step("flaky"), b.step()),
        "retry after": b.program(b.step("retry_after")),
        "bad": b.program(b.step(), b.step("bad")),
        "fatal": b.program(b.step("fatal")),
        "try": b.program(b.node("try", body=b.step("fatal")), b.step()),
        "try step": b.program(b.step("fatal", op="try_step"), b.step("ok", op="try_step")),
        "sync": b.program(b.step("sync"), b.step()),
        "deferred": b.program(b.step("deferred"), b.step("deferred"), b.step()),
        "long step": b.program(
            b.step("long", pages=4, fails_at=0, keeps=["checkpoint", "yield", "heartbeat", "yield"])
        ),
        "long step that fails": b.program(b.step("long", pages=2, fails_at=2, keeps=["yield", "heartbeat"]), b.step()),
        "long steps side by side": b.program(
            b.branches(
                "join",
                b.step("long", pages=2, fails_at=0, keeps=["yield", "yield"]),
                b.step("long_sync", pages=2, fails_at=1, keeps=["checkpoint", "yield"]),
                **join,
            ),
        ),
        "at most once": b.program(b.step("once_only"), b.step()),
        "timeout": b.program(b.step("timed", lasts=0.1)),
    }


def _waits(b: _Builder) -> dict[str, Program]:
    join = {"on_error": "wait_all"}
    return {
        "once and clock": b.program(b.node("once"), b.node("clock"), b.step(), b.node("clock")),
        "short sleep": b.program(b.step(), b.sleep(0.01), b.step()),
        "long sleep": b.program(b.step(), b.sleep(3.0), b.step()),
        "receive": b.program(b.receive(), b.step()),
        "receive and tell the time": b.program(b.receive(), b.node("clock"), b.step(lasts=0.1), b.receive(), b.step()),
        "receive beside a child": b.program(
            b.branches("join", b.child(b.sleep(0.6)), b.seq(b.receive(), b.step(lasts=0.1)), **join), b.step()
        ),
        "receive or time out": b.program(b.node("try", body=b.receive(0.1)), b.step()),
        "receive many": b.program(b.receive(op="receive_many"), b.step(), b.receive(0.2, op="receive_many")),
        "look": b.program(b.receive(), b.look(), b.step(), b.receive(), b.look("all"), b.look("has"), b.step("flaky")),
        "topic": b.program(b.topic(), b.step(), b.topic(since="all")),
        "topic or time out": b.program(b.node("try", body=b.topic(timeout=0.1)), b.step()),
        "topics in branches": b.program(b.branches("join", b.topic(), b.topic(), b.step(), **join), b.step()),
        "first of several": b.program(
            b.node("wait_any", names=["a"], timeout=1.0, topic="x", where=None, since="wait"), b.step()
        ),
        "first of a child and a timer": b.program(b.child(b.sleep(1.0), within=0.2), b.step()),
    }


def _branches(b: _Builder) -> dict[str, Program]:
    join = {"on_error": "wait_all"}
    race = {"first": "success"}
    return {
        "join": b.program(b.branches("join", b.step(), b.sleep(), b.step("flaky"), **join), b.step()),
        "join fails fast": b.program(b.branches("join", b.step("fatal"), b.step(lasts=0.3), on_error="fail_fast")),
        "race": b.program(b.branches("race", b.step(lasts=0.3), b.step(), b.sleep(1.0), **race), b.step()),
        "race with a child": b.program(b.branches("race", b.child(b.sleep(2.0)), b.step(), **race), b.step()),
        "gather": b.program(b.node("gather", items=[b.step(), b.sleep(), b.step("flaky")]), b.step()),
        "loop": b.program(b.loop(b.step()), b.step()),
        "loop that commits seldom": b.program(b.loop(b.step(), times=5, commit_every=2, trim_every=3)),
        "loop at most once": b.program(b.loop(b.step("once_only"), times=3)),
        "loop with waits": b.program(b.loop(b.seq(b.step("undoable"), b.sleep(0.4)), keep=1)),
    }


def _time(b: _Builder) -> dict[str, Program]:
    race = {"first": "success"}
    return {
        "limits": b.program(
            b.within(0.05, b.step(lasts=0.3)),
            b.within(3.0, b.step()),
            b.node("nap", seconds=0.3),
            b.within(0.1, b.branches("race", b.sleep(1.0), b.receive(), **race)),
            b.loop(b.within(0.05, b.seq(b.step(), b.sleep(1.0)))),
            b.step(),
        ),
        "limits of what is undone": b.program(
            b.undoable(b.within(0.05, b.sleep(1.0)), b.node("nap", seconds=0.1), b.step()), ending="rollback"
        ),
        "business hours": b.program(b.step(), b.node("business", seconds=0.1), b.step()),
    }


def _blocks(b: _Builder) -> dict[str, Program]:
    race = {"first": "success"}
    return {
        "blocks": b.program(
            b.cleanup(b.step()),
            b.within(0.1, b.cleanup(b.sleep(1.0))),
            b.branches("race", b.cleanup(b.sleep(2.0)), b.step(lasts=0.1), **race),
            b.loop(b.cleanup(b.step())),
            b.step(),
        ),
        "effects": b.program(
            b.node("effect", kind="ok", lasts=0.01, value=0, fails=1),
            b.step("undoable_always"),
            b.attempt(b.step("unsure_always")),
            b.within(0.05, b.step("undoable_always", lasts=0.5)),
            b.child(b.step(), undone=True, on_parent_close="leave"),
            ending="rollback",
        ),
        "handlers": b.program(b.node("serve", names=["a"], body=b.step(lasts=0.2)), b.step(lasts=0.5), b.sleep(2.0)),
    }


def _neighbours(b: _Builder) -> dict[str, Program]:
    """Runs that deal with others, and names that are used again."""
    headers = {"user": "ann"}
    told = {"signal": "a", "if_missing": "hold", "dedup": False}
    other = b.program(b.receive(), b.receive(), b.node("headers", expects=headers))
    waiting = b.program(b.step(), b.node("receive", names=[NEVER], timeout=None, count=1))
    again = {"called": "again"}
    return {
        "messages": b.program(
            b.node("launch", program=other, options={"key": "other"}, is_named=True, late=None),
            b.node("tell", to="other", **told),
            b.node("question", to="other", signal="a", timeout=5.0),
            b.node("announce", topic="x", n=0, deliver="all", retain=1.0),
            b.topic(since="start"),
            b.node("tell", to="self", **told),
            b.receive(),
            headers=headers,
        ),
        "runs that others end": b.program(
            b.node("stop", program=waiting, compensate=True),
            b.branches("join", b.node("stop", program=waiting, compensate=False), b.sleep(), on_error="wait_all"),
            b.node("tell", to="nobody", **told),
            b.node("question", to="nobody-of-this-key", signal="a", timeout=5.0),
            b.step(),
        ),
        "names again": b.program(
            b.node("headers", expects=headers),
            b.node("about"),
            *(part | again for part in (b.step(), b.step(), b.sleep(), b.step(), b.child(b.step()), b.sleep())),
            b.step("by_name"),
            b.loop(b.seq(b.step() | again, b.step() | again)),
            b.sleep(1.0),
            b.step() | again,
            headers=headers,
        ),
    }


def _families(b: _Builder) -> dict[str, Program]:
    return {
        "child": b.program(b.child(b.step(), key=True), b.step()),
        "failing child": b.program(b.node("try", body=b.child(b.step("undoable"), ending="fail")), b.step()),
        "continuing child": b.program(b.child(b.step(), continues=1), b.step()),
        "spawn": b.program(b.node("spawn", program=b.program(b.step())), b.step()),
        "continue": b.program(b.step(), b.receive(0.1, op="receive_many"), continues=2),
    }


def _undoing(b: _Builder) -> dict[str, Program]:
    race = {"first": "success"}
    return {
        "rollback": b.program(b.step("undoable"), b.step("undoable"), b.step(), ending="rollback"),
        "rollback to a checkpoint": b.program(
            b.step("undoable"), b.node("checkpoint"), b.step("undoable"), b.step("undoable"), ending="rollback_to"
        ),
        "rollback by operations": b.program(b.step("undoable_ctx"), b.step("undoable"), ending="fail"),
        "rollback in a loop": b.program(b.loop(b.step("undoable")), ending="bug"),
        "rollback after a race": b.program(
            b.branches("race", b.step("undoable"), b.seq(b.step("undoable"), b.sleep(1.0)), **race), ending="rollback"
        ),
    }


def _shown(b: _Builder) -> dict[str, Program]:
    join = {"on_error": "wait_all"}
    race = {"first": "success"}
    return {
        "emits": b.program(
            b.node("emit", event="blue"),
            b.step("flaky", events=2, emits="blue"),
            b.step("fatal", op="try_step", events=1),
        ),
        "emits and fails": b.program(b.step("fatal", op="try_step", events=1), b.step("flaky", events=2)),
        "emits while undoing": b.program(b.step("undoable", events=1), b.node("emit", event="red"), ending="fail"),
        "emits in a chain": b.program(b.node("emit", event="red"), b.step(), continues=2),
        "emits and receives": b.program(
            *(part for _ in range(3) for part in (b.node("emit", event="blue"), b.receive(), b.step(lasts=0.2)))
        ),
        "streams": b.program(b.node("append"), b.streaming(3), b.node("publish"), b.step(), b.node("append")),
        "a stream that breaks": b.program(b.streaming(3, breaks=2), b.sleep(1.0), b.step()),
        "streams in branches": b.program(
            b.branches(
                "join", b.step("streaming", chunks=2, breaks=1), b.step("streaming", chunks=2, breaks=0), **join
            ),
            b.branches("race", b.step("streaming", chunks=4, breaks=0, lasts=0.1), b.sleep(), **race),
        ),
        "state": b.program(
            b.node("publish"), b.branches("join", b.seq(b.step(), b.node("publish")), b.step(), **join), b.sleep(2.0)
        ),
        "version": b.program(b.step(), b.node("version"), b.step()),
        "describes": b.program(
            b.describe(),
            b.step(),
            b.describe(asks_too_much=True),
            b.loop(b.seq(b.describe(), b.step()), times=3),
            b.branches("join", b.seq(b.describe(), b.step(), b.describe()), b.step(), **join),
            b.child(b.step()),
            b.receive(),
            b.describe(),
            continues=1,
        ),
    }


def _passed(b: _Builder) -> dict[str, Program]:
    """What code passes to steps, and what bodies do to it."""
    return {
        "spoilt arguments": b.program(b.step("flaky", spoils=True), b.step("undoable", spoils=True), ending="rollback"),
        "steps of every form": b.program(*(b.step(form=form) for form in FORMS)),
        "undone in every form": b.program(
            *(b.step("undoable", undo_form=form) for form in (*UNDO_FORMS, *UNDO_FORMS)), ending="fail"
        ),
        "odd exceptions": b.program(
            *(b.step("odd", op="try_step", odd=name) for name in ("stop", "generator_exit", "cancelled", "nobody")),
            b.step("odd_sync", op="try_step", odd="mute"),
            b.step("odd", op="try_step", odd="thing"),
        ),
        "odd exceptions of branches": b.program(
            b.attempt(b.branches("join", b.node("odd", odd="halt"), b.step("undoable"), on_error="wait_all")),
            b.attempt(b.branches("race", b.node("odd", odd="cancelled"), b.node("odd", odd="stop"), first="success")),
            ending="fail",
        ),
        "a plain body with a short timeout": b.program(b.step("sync_timed"), b.step()),
    }


def _undone_by_programs(b: _Builder) -> dict[str, Program]:
    race = {"first": "success"}
    return {
        "undone by waits": b.program(
            b.undoable(b.node("clock"), b.sleep(0.3), b.step(), b.receive(), b.node("clock"), b.step()),
            ending="rollback",
        ),
        "undone by children": b.program(
            b.undoable(b.attempt(b.child(b.step(), b.sleep(0.3))), b.look("all"), b.step("flaky")), ending="rollback"
        ),
        "undone by branches": b.program(
            b.undoable(
                b.branches("join", b.step(), b.sleep(), on_error="wait_all"),
                b.branches("race", b.step(), b.sleep(1.0), **race),
                b.loop(b.step(), times=2),
            ),
            ending="rollback",
        ),
        "an undo that stops": b.program(
            b.undoable(b.step(), b.step("stuck"), b.node("fail")), b.undoable(b.step()), ending="rollback"
        ),
        "programs of every form": b.program(
            *(b.undoable(b.node("clock"), b.sleep(0.05), b.step(), undo_form=form) for form in PROGRAM_FORMS),
            ending="fail",
        ),
    }


def _asyncio(b: _Builder) -> dict[str, Program]:
    join = {"on_error": "wait_all"}
    return {
        "tasks": b.program(
            b.tasks("wait", b.step(), b.sleep(), b.node("once")),
            b.tasks("first", b.node("once"), b.step(lasts=0.3)),
            b.tasks("completed", b.step("flaky"), b.step(), b.sleep()),
        ),
        "cancelled tasks": b.program(
            b.tasks("group", b.step("fatal"), b.step(lasts=0.3), b.sleep(1.0)),
            b.tasks("cancelled", b.node("once"), b.step()),
            b.step(),
        ),
        "tasks behind what is passed over": b.program(
            b.loop(b.node("gather", items=[b.step(), b.node("once")]), times=2),
            b.node("wait_any", names=["a"], timeout=0.1),
            b.tasks("wait", *(b.step() for _ in range(4))),
            b.tasks("wait", *(b.step() for _ in range(4))),
            b.sleep(1.0),
            b.step(),
        ),
        "tasks of a lost branch": b.program(
            b.branches("race", b.tasks("wait", b.step(lasts=0.5), b.sleep(0.6)), b.sleep(), first="success"),
            b.sleep(1.0),
            b.step(),
        ),
        "captured variables": b.program(
            b.branches("join", b.step("undoable"), b.sleep(), tally=True, **join),
            b.node("map", items=[b.step(), b.sleep()], limit=2, tally=True, **join),
            b.sleep(2.0),
            b.step(),
            code="async",
        ),
        "captured variables that would be lost": b.program(
            b.step("undoable"), b.branches("race", b.step(), b.sleep(1.0), first="success", leaks=True), b.step()
        ),
        "all about it": b.program(
            b.node("about"), b.node("gates"), b.node("sleep_until", seconds=0.4), b.node("about"), b.step()
        ),
    }


def _forms(b: _Builder) -> dict[str, Program]:
    """Records that code opens: answered by people or a service, withdrawn, and closed with what lost or failed."""
    race = {"first": "success"}
    return {
        "forms": b.program(b.form(), b.step(), b.form(0.1), b.step()),
        "forms that are not needed": b.program(
            b.branches("race", b.form(), b.sleep(0.1), **race),
            b.tasks("first", b.sleep(0.1), b.form()),
            b.undoable(b.form(0.1)),
            b.node("gather", items=[b.form(), b.seq(b.sleep(0.1), b.step("fatal"))]),
        ),
    }


def _named(b: _Builder) -> dict[str, Program]:
    """What is looked at last, and what is named behind a loop that is trimmed."""
    spawn = b.node("spawn", program=b.program(b.step()))
    mark = b.node("checkpoint")
    back = {"op": "rollback_to", "to": mark["id"]}
    return {
        "a handler": b.program(
            b.branches("join", b.handler(b.seq(b.step(), b.sleep())), b.step(), on_error="wait_all"),
            b.handler(b.receive(op="receive_many"), "first"),
        ),
        "a look before the end": b.program(b.step(), look=b.look(), continues=1),
        "spawned in a loop": b.program(b.loop(b.seq(b.step(), spawn), times=3) | {"awaits": 0}, b.step()),
        "back into a loop": b.program(b.loop(b.seq(b.step("undoable"), mark, b.step("undoable")))) | {"ending": back},
        "children": b.program(b.node("children", programs=[b.program(b.step()), b.program(b.sleep())]), b.step()),
        "continue from a branch": b.program(
            b.branches("join", b.seq(b.step(), b.node("continue")), b.sleep(1.0), on_error="wait_all"), continues=1
        ),
    }
