"""Assertions about a run. Each returns the run; a failing assertion shows the run's tree."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from stepwell.clock import SECOND
from stepwell.codec.base import ANY, Place, Row
from stepwell.engine.views import EntryView, WaitView, wait_views
from stepwell.errors.records import FailureRecord
from stepwell.ids import RunId
from stepwell.model.attributes import AttributeValue, read_value
from stepwell.model.failures import decode_failure
from stepwell.nearest import nearest
from stepwell.replay.signals import Signal, name_of
from stepwell.stores.base.views import Detail
from stepwell.testing.faults import Target, matches

if TYPE_CHECKING:
    from stepwell.testing.world import Begun, World

_ANY: Final = object()
# Scopes and internal entries: a path in a test does not list them.
_FRAMES = frozenset(
    {"join", "race", "loop", "map", "item", "version", "checkpoint", "observe", "reply", "undo", "describe"}
)
_UNDO = "~undo"


class RunAsserts(ABC):
    """Assertions about the stored run, and about the bodies that ran."""

    run_id: RunId
    _world: World

    @abstractmethod
    def details(self) -> list[Detail]: ...
    @abstractmethod
    def history(self) -> list[EntryView]: ...
    @abstractmethod
    def tree(self) -> str: ...
    @abstractmethod
    def why(self) -> str: ...

    # --- its state ---

    def assert_status(self, status: str, *, why: str | None = None) -> Self:
        """The run has this status. `why` must be a part of its failure, of its cancel reason, or of its explanation."""
        run = self.details()[-1].run
        if run.status.value != status:
            self._fail(f"the run is {run.status.value}, not {status}", self.why())
        if why is not None:
            failures = _summaries(decode_failure(run.failure)) if run.failure else []
            reasons = [text for text in (*failures, run.reason, self.why()) if text]
            if not any(why in text for text in reasons):
                self._fail(f"the reason does not contain {why!r}", *reasons)
        return self

    def assert_output(self, output: Any) -> Self:
        """The run has completed with this result."""
        last = self.details()[-1].run
        if last.status.value != "completed":
            self._fail(f"the run is {last.status.value} and has no output", self.why())
        found = self._world.ask(self._world.engine.result(last.run_id))
        if found != output:
            self._fail("the run has another output", *_different(output, found))
        return self

    def assert_output_json(self, output: Any) -> Self:
        """The run has completed with this result as plain JSON values: a record is a dict, a time is text."""
        last = self.details()[-1].run
        if last.status.value != "completed" or last.output is None:
            self._fail(f"the run is {last.status.value} and has no output", self.why())
        place = Place(last.workflow, "", "the result", row=Row(last.run_id, "", "output"))
        found = self._world.engine.codec.decode(last.output, ANY, place=place)
        if found != output:
            self._fail("the run has another output", *_different(output, found))
        return self

    def assert_within(self, seconds: float) -> Self:
        """The run took at most this long, by the clock of the test, from its start to its end or to now."""
        details = self.details()
        began = details[0].run.created_at
        ended = details[-1].run.ended_at or self._world.store.now()
        if ended - began > seconds * SECOND:
            self._fail(f"the run took {(ended - began) / SECOND:g} s; the limit is {seconds:g} s")
        return self

    def assert_attributes(self, **expected: AttributeValue | None) -> Self:
        """The run has these attributes, and perhaps others; None means that it has none of that name."""
        run = self.details()[-1].run
        found = {one.name: read_value(one) for one in run.attributes}
        wrong = [name for name, value in expected.items() if found.get(name) != value]
        if wrong:
            shown = [f"{name} is {found.get(name)!r}, not {expected[name]!r}" for name in wrong]
            self._fail(f"the run has other attributes: {found}", *shown)
        return self

    def assert_title(self, title: str | None) -> Self:
        """The run has this title."""
        found = self.details()[-1].run.title
        if found != title:
            self._fail("the run has another title", *_different(title, found))
        return self

    # --- what it did ---

    def assert_path(self, *paths: str) -> Self:
        """The run did exactly these steps, waits, timers and children, in this order. Scopes such as joins are not
        listed. A glob matches one path.
        """
        done = [entry.path for entry in self.history() if entry.kind not in _FRAMES]
        if len(done) != len(paths) or not all(matches(*pair) for pair in zip(paths, done, strict=True)):
            self._fail("the run took another path", *_different_lists(paths, done))
        return self

    def assert_ran(self, *targets: Target) -> Self:
        """Each of these is recorded, or its body has begun."""
        for target in targets:
            if not self._ran(target):
                self._fail(f"{_name(target)} did not run", self._near(target))
        return self

    def assert_not_ran(self, *targets: Target) -> Self:
        """None of these is recorded, and none of their bodies has begun."""
        for target in targets:
            if self._ran(target):
                self._fail(f"{_name(target)} did run")
        return self

    def assert_ran_once(self, *targets: Target) -> Self:
        """The body of each of these has begun exactly once, at one path: not again by a retry, a crash or a loop."""
        for target in targets:
            began = self._began(target)
            if len(began) != 1:
                places = [f"{one.path}, attempt {one.attempt}, on {one.worker}" for one in began]
                self._fail(f"{_name(target)} began {len(began)} times, not once", *places, self._near(target))
        return self

    def assert_attempts(self, target: Target, count: int) -> Self:
        """The body of this step has begun this many times."""
        began = self._began(target)
        if len(began) != count:
            self._fail(f"{_name(target)} was attempted {len(began)} times, not {count}", self._near(target))
        return self

    def assert_undone(self, *paths: str) -> Self:
        """Each of these steps was done, and then undone."""
        history = self.history()
        for path in paths:
            found = [entry for entry in history if matches(path, entry.path) and _UNDO not in entry.path]
            if not found:
                self._fail(f"{path} was not done, so it cannot be undone", self._near(path))
            if not all(entry.is_undone for entry in found):
                cannot = "" if any(entry.can_undo for entry in found) else "it has no compensation"
                self._fail(f"{path} is not undone", cannot)
        return self

    # --- messages ---

    def assert_waiting_on(self, what: str | Signal[Any]) -> Self:
        """The run waits for a signal or an event of this name, or at this path (or glob)."""
        name = what if isinstance(what, str) else name_of(what)
        waits = [wait for detail in self.details() for wait in wait_views(detail)]
        if not any(name in wait.names or matches(name, wait.path) for wait in waits):
            owned = self.details()[-1].run.status.value in ("pending", "running")
            hint = "the test has not driven it that far; write: await run.until_waiting()" if owned else ""
            self._fail(f"the run does not wait for {name!r}", *map(_wait_words, waits), hint)
        return self

    def assert_emitted(self, name: str, payload: Any = _ANY, *, times: int | None = None) -> Self:
        """The run has emitted an event of this name (or glob), with this payload as plain JSON values."""
        emits = [
            (emit.name, self._world.read_emit(detail.run, emit))
            for detail in self.details()
            for emit in self._world.emitted.get(detail.run.run_id, [])
        ]
        found = [value for emitted, value in emits if matches(name, emitted)]
        fitting = [one for one in found if payload is _ANY or one == payload]
        if not fitting or (times is not None and len(fitting) != times):
            wanted = f"{name!r}" if payload is _ANY else f"{name!r} with {payload!r}"
            often = "not emitted" if not fitting else f"emitted {len(fitting)} times, not {times}"
            self._fail(f"{wanted} was {often}", *(f"emitted: {emitted} {value!r}" for emitted, value in emits))
        return self

    def assert_no_pending(self) -> Self:
        """Nothing is left: no unread signal or event, no active child, no event that a sink has not got."""
        left: list[str] = []
        for detail in self.details():
            left += [f"signal {signal.name!r} was not read" for signal in detail.signals]
            left += [f"event {event.topic!r} was not received" for event in detail.events]
            left += [
                f"child {child.run_id} of {child.workflow} is {child.status.value}"
                for child in detail.children
                if child.ended_at is None
            ]
            unread = self._world.ask(self._world.engine.signals.list_unread(detail.run.run_id))
            left += [f"signal {one.name!r} was left unread{_because(one.reason)}" for one in unread]
            owed = self._world.ask(self._world.engine.outbox.list_pending())
            left += [f"sink {one.sink!r} has not got {one.name!r}" for one in owed if one.run_id == detail.run.run_id]
        if left:
            self._fail("something is pending", *dict.fromkeys(left))
        return self

    # --- helpers ---

    def _ran(self, target: Target) -> bool:
        recorded = isinstance(target, str) and any(matches(target, entry.path) for entry in self.history())
        return recorded or bool(self._began(target))

    def _began(self, target: Target) -> list[Begun]:
        runs = {detail.run.run_id for detail in self.details()}
        return [one for one in self._world.begun if one.run_id in runs and matches(target, one.path, one.fn)]

    def _near(self, target: Target) -> str:
        if not isinstance(target, str):
            return ""
        known = {entry.path for entry in self.history()} | {one.path for one in self._world.begun}
        near = [] if target in known else nearest(target, sorted(known))
        return f"did you mean {' or '.join(near)}?" if near else ""

    def _fail(self, title: str, *facts: str) -> NoReturn:
        lines = [title, *(f"  {line}" for fact in facts if fact for line in fact.splitlines())]
        raise AssertionError("\n".join([*lines, "", self.tree()]))


def _summaries(failure: FailureRecord) -> list[str]:
    """The failure and its causes."""
    return [failure.summary, *(text for cause in failure.causes.values() for text in _summaries(cause))]


def _name(target: Target) -> str:
    return target if isinstance(target, str) else str(getattr(target, "__name__", target))


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _wait_words(wait: WaitView) -> str:
    names = ", ".join(repr(name) for name in wait.names)
    return f"waits for: {wait.kind} at {wait.path}{f' ({names})' if names else ''}"


def _different(expected: Any, found: Any) -> list[str]:
    return [f"expected  {expected!r}", f"found     {found!r}"]


def _different_lists(expected: Sequence[str], found: Sequence[str]) -> list[str]:
    lines = difflib.ndiff(list(expected), list(found))
    spell: dict[str, Callable[[str], str]] = {
        "- ": lambda text: f"- {text}   (expected, not done)",
        "+ ": lambda text: f"+ {text}   (done, not expected)",
        "  ": lambda text: f"  {text}",
    }
    return [spell[line[:2]](line[2:]) for line in lines if line[:2] in spell]
