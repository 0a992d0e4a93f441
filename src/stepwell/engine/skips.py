"""Skips: the record of a step or wait whose result an operator supplies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from stepwell.advice import Advice, Verb
from stepwell.codec.base import ANY, Codec, Place, Row
from stepwell.engine.catalogue import schema_of
from stepwell.engine.repair_drafts import Draft, places
from stepwell.errors import InvalidInputError, InvalidMoveError, InvalidOptionError, NotFoundError
from stepwell.model.amendments import Dropped
from stepwell.model.entries import Entry
from stepwell.model.locations import Location, format_path, is_undoing, prefixes
from stepwell.model.records import awaited_record
from stepwell.model.runs import Run
from stepwell.model.states import ENTRIES_OF_WAITS, EntryKind, EntryStatus
from stepwell.model.waits import Wait
from stepwell.nearest import nearest
from stepwell.replay.headers import pack
from stepwell.replay.observations import used_by
from stepwell.replay.registry import Registry
from stepwell.replay.rehearsals import Asked, Rehearsal, find_next_steps, perform
from stepwell.replay.signals import Signal
from stepwell.replay.workflows import Workflow

NO_RESULT: Final = object()

_CAN_BE_SUPPLIED = frozenset(
    {EntryKind.STEP, EntryKind.CHILD, EntryKind.RECEIVE, EntryKind.RECEIVE_MANY, EntryKind.RECORD, EntryKind.TOPIC}
)


@dataclass(frozen=True, slots=True)
class SkippablePlace:
    """A step or wait that can be given a result. `schema` is the JSON Schema of that, if it is known."""

    path: str
    kind: str  # "step", "receive", "sleep", …
    takes_result: bool
    schema: Mapping[str, Any] | None
    names: tuple[str, ...] = ()  # of the signals or the topic that it waits for


@dataclass(frozen=True, slots=True)
class Skippable:
    """What can be skipped in a run; `why_not` tells why there is nothing."""

    run_id: str
    places: tuple[SkippablePlace, ...]
    why_not: str


def fit(codec: Codec, value: Any, hint: Any, place: Place) -> Any:
    """A value of a type, from a Python value or from plain JSON. Raises `InvalidInputError`."""
    if hint is ANY:
        return value
    try:
        return codec.validate(value, hint, place=place)
    except InvalidInputError:
        try:
            text = msgspec.json.encode(value)
        except (TypeError, msgspec.MsgspecError):
            text = b""
        if not text:
            raise
        return codec.decode_external(text, hint, place=place)


class Skip:
    """Puts a result that an operator supplies into the draft of a repair."""

    def __init__(self, draft: Draft, registry: Registry, codec: Codec, token: str) -> None:
        self._draft = draft
        self._registry = registry
        self._codec = codec
        self._token = token
        run = draft.run
        version = run.version if draft.version is None else draft.version
        self.workflow: Workflow[Any, Any] | None = registry.find(f"{run.workflow}@{version}")

    def apply(self, path: str, result: Any) -> str:
        """Record a result at a path as people write it; returns the path in its normal spelling.

        Raises `NotFoundError` if the run is not at that place, and `InvalidMoveError` if the place already has a
        result or cannot have one.
        """
        draft = self._draft
        asked = find_next_steps(self.workflow, draft.future(), draft.history(), self._codec) if self.workflow else []
        location, names = self._locate(path, asked)
        draft.names = names
        text = draft.path(location)
        if is_undoing(location):
            raise InvalidMoveError(f"{text} is an undo", fix="fix it and resume the rollback")
        kinds = self._kinds(location, text, asked)
        hint = next((one.hint for one in asked if one.location == location), ANY)
        for number, kind in enumerate(kinds):
            self._record(location, kind, text, hint, result)
            problem = self._find_problem(text)
            if problem is None:
                pending = {signal.number for signal in draft.detail.signals}
                draft.consumed |= used_by(draft.entries[-1], draft.kept) & pending
                return text
            draft.entries.pop()
            draft.children = [one for one in draft.children if one.location != location]
            if number == len(kinds) - 1:
                raise InvalidMoveError(f"{text} cannot be skipped", where=text, why=problem)
        raise AssertionError("unreachable")

    def places(self) -> list[SkippablePlace]:
        """Every place that `apply` accepts, as far as it depends on the place."""
        draft = self._draft
        asked = find_next_steps(self.workflow, draft.future(), draft.history(), self._codec) if self.workflow else []
        names = max((one.names for one in asked), key=len, default=draft.detail.history.names)
        waits = {one.location: one for one in draft.waits}
        begun = (*draft.dropped, *waits, *(one.location for one in draft.detail.history.attempts))
        found: list[SkippablePlace] = []
        for location in dict.fromkeys((*begun, *(one.location for one in asked))):
            text = format_path(location, names)
            if is_undoing(location):
                continue
            try:
                kind = self._kinds(location, text, asked)[0]
            except InvalidMoveError:
                continue
            hint = next((one.hint for one in asked if one.location == location), ANY)
            wait = waits.get(location)
            takes_result = kind is not EntryKind.SLEEP
            schema = self._schema(hint, wait) if takes_result else None
            found.append(SkippablePlace(text, kind.word, takes_result, schema, () if wait is None else wait.names))
        return found

    def _schema(self, hint: Any, wait: Wait | None) -> Mapping[str, Any] | None:
        declared = None if self.workflow is None else self.workflow.mailbox.declared
        if wait is not None and declared is not None:
            signal = next((declared[name] for name in wait.names if name in declared), None)
            hint = signal.hint if isinstance(signal, Signal) else ANY
        return None if hint is ANY else schema_of(hint)

    def _locate(self, path: str, asked: list[Asked]) -> tuple[Location, tuple[str, ...]]:
        wanted, known = path.strip().strip("/"), places(self._draft.detail)
        new = {one.path: one for one in asked}
        if wanted in new:
            before = len(self._draft.detail.history.names)
            return new[wanted].location, new[wanted].names[before:] if wanted not in known else ()
        if wanted not in known:
            fix = "" if self.workflow else "a step that has not begun is known only where the workflow is registered"
            raise NotFoundError("place", path, near=nearest(wanted, [*known, *new]), fix=fix)
        return known[wanted], ()

    def _kinds(self, location: Location, text: str, asked: list[Asked]) -> tuple[EntryKind, ...]:
        """What can be recorded there."""
        draft = self._draft
        kept = {entry.location: entry for entry in draft.kept}
        holder = next((at for at in prefixes(location) if at in kept), None)
        if holder is not None:
            raise InvalidMoveError(
                f"{text} already has its result" if holder == location else f"{draft.path(holder)} has ended",
                where=text,
                fix=Advice(Verb.REWIND, draft.run.run_id, {"path": draft.path(holder)}, note="rewind to it"),
            )
        failed = draft.dropped.get(location)
        if failed is not None and failed.kind in _CAN_BE_SUPPLIED:
            return (failed.kind,)
        wait = next((one for one in draft.waits if one.location == location), None)
        if wait is not None and awaited_record(wait.names) is not None:
            return (EntryKind.RECORD,)
        if wait is not None and not self._is_one_of_many(wait):
            return tuple(kind for kind in ENTRIES_OF_WAITS[wait.kind] if kind is not EntryKind.UNDO)
        history = draft.detail.history
        begun = {one.location for one in history.attempts} | {one.location for one in history.progress}
        if failed is None and location in begun | {one.location for one in asked}:
            return (EntryKind.STEP,)
        raise InvalidMoveError(
            f"{text} cannot be skipped",
            where=text,
            why="it is neither the next step of the run nor one of its waits",
            fix="name the step or the wait below it",
        )

    def _is_one_of_many(self, wait: Wait) -> bool:
        """Whether it may be a part of a combined wait, which has only one result."""
        if self.workflow is not None:
            return False  # a dry replay shows it
        above = list(prefixes(wait.location))[1:2]
        others = [one for one in self._draft.waits if one is not wait]
        return any(list(prefixes(one.location))[1:2] == above for one in others) and above != []

    def _record(self, location: Location, kind: EntryKind, text: str, hint: Any, result: Any) -> None:
        draft = self._draft
        waits = [one for one in draft.detail.history.waits if one.location == location]
        value = self._value(location, kind, text, hint, result, waits[0] if waits else None)
        attempted = (*draft.detail.history.attempts, *draft.attempts)
        tries = len({one.number for one in attempted if one.location == location and not one.is_beginning})
        seq = draft.run.last_seq + 1 + len(draft.entries)
        attempts = tries if kind is EntryKind.STEP else 0
        draft.entries.append(Entry(seq, location, kind, EntryStatus.DONE, value, draft.now, 0, attempts))
        draft.waits = tuple(one for one in draft.waits if one.location != location)
        draft.ended_progress |= {one.location for one in draft.detail.history.progress if one.location == location}
        child = self._child_at(location) if kind is EntryKind.CHILD else None
        if child is not None:  # the run no longer waits for it
            draft.retries = [one for one in draft.retries if one != child.run_id]
            draft.children.append(Dropped(child.run_id, location))

    def _value(
        self, location: Location, kind: EntryKind, text: str, hint: Any, result: Any, wait: Wait | None
    ) -> bytes:
        """The result as the code decodes it there."""
        run, now = self._draft.run, self._draft.now
        if kind is EntryKind.SLEEP:
            if result is not NO_RESULT and result is not None:
                raise InvalidOptionError(f"{text} is a timer, which has no result", where=text, fix="leave it out")
            due_at = now if wait is None or wait.due_at is None else wait.due_at
            return pack([due_at], b"")
        value = None if result is NO_RESULT else result
        match kind:
            case EntryKind.CHILD:
                child = self._child_at(location)
                known = None if child is None else self._registry.find(child.definition)
                payload = self._encode(run, text, known.output_hint if known else ANY, value, "value")
                return pack(["" if child is None else child.run_id], payload)
            case EntryKind.RECEIVE | EntryKind.RECEIVE_MANY | EntryKind.RECORD:
                payload = self._encode(run, text, ANY, value, "signal 0")
                return pack([[self._name(wait, "signal"), now, len(payload)]], payload)
            case EntryKind.TOPIC:
                payload = self._encode(run, text, ANY, value, "event")
                return pack([self._name(wait, "event"), f"skipped-{self._token}"], payload)
            case _:
                return self._encode(run, text, hint, value, "value")

    @staticmethod
    def _name(wait: Wait | None, otherwise: str) -> str:
        return wait.names[0] if wait is not None and wait.names else otherwise

    def _child_at(self, location: Location) -> Run | None:
        for child in self._draft.detail.children:
            if child.parent is not None and child.parent.location == location:
                return child
        return None

    def _encode(self, run: Run, path: str, hint: Any, value: Any, field: str) -> bytes:
        place = Place(run.workflow, path, "the result", row=Row(run.run_id, path, field))
        return self._codec.encode(fit(self._codec, value, hint, place), hint, place=place)

    def _find_problem(self, path: str) -> str | None:
        """Why the code would reject it; None if it accepts it, or if the code is not registered here."""
        if self.workflow is None:
            return None
        rehearsal = rehearse_draft(self.workflow, self._draft, self._codec)
        if rehearsal.problem is not None:
            return f"{rehearsal.problem.code}: {rehearsal.problem.title} {rehearsal.problem.why}".strip()
        return "the run would still wait there" if path in rehearsal.waits else None


def rehearse_draft(workflow: Workflow[Any, Any], draft: Draft, codec: Codec) -> Rehearsal:
    """A dry replay of the record after a repair."""
    return perform(workflow, draft.future(), draft.history(), codec)
