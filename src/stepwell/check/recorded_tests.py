"""Recorded runs as tests: a pytest with the input, the signals, the events and the results of one run."""

from __future__ import annotations

import builtins
import keyword
import pprint
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from stepwell.codec.envelopes import find_mark, read_plainly
from stepwell.engine.views import as_stored
from stepwell.errors import Failure, Fatal, HistoryFileError, Rollback
from stepwell.errors.records import FailureRecord
from stepwell.model.entries import Entry
from stepwell.model.failures import decode_failure
from stepwell.model.locations import format_path
from stepwell.model.states import TERMINAL, EntryKind, EntryStatus, RunStatus
from stepwell.replay.headers import unpack
from stepwell.replay.workflows import Workflow
from stepwell.stores.base.views import Detail

PATHS_MAX: Final = 60  # that a test compares one by one
_WIDTH: Final = 96
_BODIES: Final = frozenset({EntryKind.STEP, EntryKind.UNDO})
_LISTED: Final = frozenset(
    {
        EntryKind.STEP,
        EntryKind.ONCE,
        EntryKind.SLEEP,
        EntryKind.RECEIVE,
        EntryKind.RECEIVE_MANY,
        EntryKind.TOPIC,
        EntryKind.CHILD,
        EntryKind.SPAWN,
        EntryKind.WAIT_ANY,
        EntryKind.EMIT,
        EntryKind.STREAM,
        EntryKind.RECORD,
    }
)
_OWN: Final = {kind.__name__: kind for kind in (Fatal, Failure, Rollback)}

Fetch = Callable[[bytes], bytes]


def write_test(
    detail: Detail,
    *,
    workflow: Workflow[Any, Any] | None = None,
    children: Sequence[Detail] = (),
    fetch: Fetch = as_stored,
) -> str:
    """The text of a test file that repeats a run: it starts the workflow with the recorded input, replaces each step by
    its recorded result, sends what the run received, and compares how it ends.

    No step of the test has an effect: a step without a recorded result fails. Without `workflow` the test starts it by
    its name, and needs the fixture `stepwell_app`. `children` are the runs that it started, with their steps.

    Raises `HistoryFileError` if a value is encrypted or lost, or if the row of the run cannot be read.
    """
    return _Writer(detail, workflow, children, fetch).write()


def file_name(detail: Detail) -> str:
    """The usual name of the file of such a test."""
    return f"test_{_identifier(detail.run.key or detail.run.run_id)}.py"


class _Writer:
    """Writes the test of one run."""

    def __init__(
        self, detail: Detail, workflow: Workflow[Any, Any] | None, children: Sequence[Detail], fetch: Fetch
    ) -> None:
        self._detail = detail
        self._workflow = workflow
        self._children = children
        self._fetch = fetch
        self._imports: set[str] = set()
        self._mocked: dict[str, str] = {}  # what replaces each path
        self._notes: list[str] = []
        if detail.run.damage:
            raise HistoryFileError(
                f"run {detail.run.run_id} cannot be written as a test", where=detail.run.run_id, why=detail.run.damage
            )

    def write(self) -> str:
        """The whole file."""
        run = self._detail.run
        name, start = self._named_workflow()
        mocks = [*self._mocks(self._detail)]
        for child in self._children:
            mocks += self._mocks(child)
        acts = [*self._acts()]
        end = [*self._end()]
        given = [] if run.input[1:] == b"null" else [self._literal(run.input, "the input")]
        options = [] if run.key is None else [f"key={run.key!r}"]
        body = [
            "# Only recorded results: a step that this run did not record fails.",
            'stepwell.mock("*", raises=AssertionError("the recorded run did not run this step"))',
            *mocks,
            "",
            *_call("run = await stepwell.start", [start, *given, *options]),
            *acts,
            *end,
        ]
        notes = [f"# {note}" for note in dict.fromkeys(self._notes)]
        when = f"{run.status.value}" + ("" if run.key is None else f", key {run.key}")
        head = [f'"""Run {run.run_id} of {name} v{run.version}, as it was recorded ({_text(when)})."""', ""]
        imports = [*sorted(self._imports), ""] if self._imports else []
        test = f"async def test_{_identifier(run.key or run.run_id)}(stepwell):"
        lines = [*head, *imports, "", test, *(f"    {line}" if line else "" for line in [*notes, *body])]
        return "\n".join(lines) + "\n"

    # --- the workflow ---

    def _named_workflow(self) -> tuple[str, str]:
        """The name of the workflow, and the expression that names it in the test."""
        run, found = self._detail.run, self._workflow
        if found is not None:
            module = sys.modules.get(found.fn.__module__)
            for variable, value in () if module is None else vars(module).items():
                if value is found and found.fn.__module__ != "__main__":
                    self._imports.add(f"from {found.fn.__module__} import {variable}")
                    return run.workflow, variable
        self._notes.append("The fixture `stepwell_app` must return the App with this workflow.")
        return run.workflow, repr(run.workflow)

    # --- results ---

    def _mocks(self, detail: Detail) -> Iterator[str]:
        """A mock for each recorded body, after the mocks of its failed attempts."""
        names, history = detail.history.names, detail.history
        failed: dict[str, list[FailureRecord]] = {}
        for attempt in history.attempts:
            if attempt.failure is not None:
                failed.setdefault(format_path(attempt.location, names), []).append(decode_failure(attempt.failure))
        results = {format_path(one.location, names): one for one in history.entries if one.kind in _BODIES}
        for path in dict.fromkeys([*results, *failed]):
            lines = [*self._mock(path, results.get(path), failed.get(path, []))]
            known = self._mocked.setdefault(path, "\n".join(lines))
            if known != "\n".join(lines):
                self._notes.append(f"Two runs recorded {path}: the test replaces it by the first.")
            elif detail is self._detail or lines:
                yield from lines

    def _mock(self, path: str, entry: Entry | None, failed: list[FailureRecord]) -> Iterator[str]:
        if entry is not None and entry.status is EntryStatus.DONE:
            result = self._literal(entry.value, path)
            yield from _call("stepwell.mock", [repr(path), f"returns={result}"])
        elif entry is not None and not failed:
            failed = [decode_failure(entry.value)]
        # The last of several mocks applies first, so the first attempt comes last.
        for failure, times in reversed(_runs_of(failed)):
            limit = [f"times={times}"]
            if failure.kind == "timeout" and "worker was lost" not in failure.message:
                yield from _call("stepwell.time_out", [repr(path), *limit])
            else:
                yield from _call("stepwell.mock", [repr(path), f"raises={self._error(failure, path)}", *limit])

    def _error(self, failure: FailureRecord, path: str) -> str:
        """The expression of an exception that is recorded like this one."""
        if failure.type == Failure.__name__ and not failure.qualified:
            self._imports.add("from stepwell import Failure")
            data = "" if failure.data is None else f", {_pretty(failure.data)}"
            return f"Failure({failure.message!r}{data})"
        module, _, name = failure.qualified.rpartition(".")
        if module == "builtins" and isinstance(getattr(builtins, name, None), type):
            return f"{name}({failure.message!r})"
        own = _OWN.get(name)
        if own is not None and failure.qualified == f"{own.__module__}.{own.__qualname__}":
            self._imports.add(f"from stepwell import {name}")
            if own is Rollback:
                facts = failure.data if isinstance(failure.data, dict) else {}
                return f"Rollback({facts.get('reason', failure.message)!r}, to={facts.get('to')!r})"
            return f"{name}({failure.message!r})"
        if failure.code:
            self._notes.append(f"{path} failed with {failure.code}, which stepwell itself raised.")
        self._imports.add("from stepwell.testing import recorded_error")
        return f"recorded_error({failure.qualified!r}, {failure.message!r})"

    # --- what came from outside ---

    def _acts(self) -> Iterator[str]:
        detail = self._detail
        names = detail.history.names
        begins: list[str] = []
        rest: list[str] = []
        for entry in sorted(detail.history.entries):
            path = format_path(entry.location, names)
            self._note(entry, path)
            if entry.status is not EntryStatus.DONE or "~undo" in path:
                continue
            sent = [*self._sent(entry, path)]
            if not sent:
                continue
            if entry.kind is EntryKind.OBSERVE:
                begins += sent  # the code looks for them without waiting
            else:
                rest += [f"await run.until({path!r})", *sent]
        yield from (*begins, *rest)

    def _sent(self, entry: Entry, path: str) -> Iterator[str]:
        match entry.kind:
            case EntryKind.RECEIVE | EntryKind.RECEIVE_MANY:
                header, payloads = unpack(entry.value)
                yield from self._signals(header, payloads, path)
            case EntryKind.OBSERVE:
                _, messages = unpack(entry.value)
                yield from self._signals(*unpack(messages), path)
            case EntryKind.TOPIC:
                header, payload = unpack(entry.value)
                yield from _call("await stepwell.emit", [repr(header[0]), self._literal(payload, path)])
            case EntryKind.WAIT_ANY:
                _, inner = unpack(entry.value)
                header, payload = unpack(inner)
                if header and isinstance(header[0], list):
                    yield from self._signals(header, payload, path)
                elif len(header) == 2 and header[1:] != ["completed"] and payload[:1] == b"j":
                    yield from _call("await stepwell.emit", [repr(header[0]), self._literal(payload, path)])
            case _:
                return

    def _signals(self, header: Iterable[Any], payloads: bytes, path: str) -> Iterator[str]:
        at = 0
        for name, *_, size in header:
            payload = payloads[at : at + size]
            at += size
            given = [] if payload[1:] == b"null" else [self._literal(payload, path)]
            yield from _call("await run.signal", [repr(name), *given])

    def _note(self, entry: Entry, path: str) -> None:
        """What the test cannot repeat, in words."""
        match entry.kind:
            case EntryKind.VERSION if unpack(entry.value)[0][0] >= 1:
                version = unpack(entry.value)[0][0]
                self._notes.append(f"The run passed the gate {path} with version {version}; the test gets the newest.")
            case EntryKind.RECORD:
                self._notes.append(f"A person answered at {path}: answer there in the test.")
            case EntryKind.LOOP if not self._is_whole(entry):
                self._notes.append(f"The loop {path} has dropped old iterations: mock the steps of those.")
            case _:
                pass

    def _is_whole(self, loop: Entry) -> bool:
        return any(one.location.startswith(loop.location) and one is not loop for one in self._detail.history.entries)

    # --- the end ---

    def _end(self) -> Iterator[str]:
        run, history = self._detail.run, self._detail.history
        names = history.names
        paths = [
            format_path(one.location, names)
            for one in sorted(history.entries)
            if one.kind in _LISTED and "~undo" not in format_path(one.location, names)
        ]
        if run.cause == "cancelled" or run.status is RunStatus.CANCELLED:
            yield f"await run.until({paths[-1]!r})" if paths else "await run.until_waiting()"
            yield from _call("await run.cancel", [repr(run.reason)] if run.reason else [])
        if run.status is RunStatus.CONTINUED:
            self._notes.append("The run continued as new: the test ends there, and not with the runs after it.")
            if paths:
                yield f"await run.until({paths[-1]!r})"
            return
        if run.status not in TERMINAL and run.status is not RunStatus.COMPENSATION_FAILED:
            yield "await run.until_waiting()"
            for wait in history.waits:
                yield f"run.assert_waiting_on({format_path(wait.location, names)!r})"
            return
        yield "await run.ended()"
        yield ""
        why = "" if run.failure is None else decode_failure(run.failure).message
        yield from _call("run.assert_status", [repr(run.status.value), *([f"why={why!r}"] if why else [])])
        if run.status is RunStatus.COMPLETED:
            output = "None" if run.output is None else self._literal(run.output, "the result")
            yield from _call("run.assert_output_json", [output])
        if run.status in (RunStatus.COMPLETED, RunStatus.FAILED) and len(paths) <= PATHS_MAX:
            yield from _call("run.assert_path", [repr(path) for path in paths])

    # --- values ---

    def _literal(self, payload: bytes, where: str) -> str:
        """A stored value as a Python expression of plain JSON values."""
        fetched = self._fetch(payload)
        mark = find_mark(fetched)
        if mark is not None:
            state = "encrypted" if "encrypted" in mark else "stored outside the run, and not found"
            raise HistoryFileError(
                f"a value of run {self._detail.run.run_id} cannot be written into a test",
                where=where,
                why=f"it is {state}",
                fix="name the application that has its keys and blobs: stepwell export RUN --as-test --app app.py",
            )
        return _pretty(read_plainly(fetched))


def _runs_of(failed: list[FailureRecord]) -> list[tuple[FailureRecord, int]]:
    """Failures in their order; equal ones that follow each other are counted."""
    found: list[tuple[FailureRecord, int]] = []
    for failure in failed:
        last = found[-1][0] if found else None
        if last is not None and (last.qualified, last.message) == (failure.qualified, failure.message):
            found[-1] = (failure, found[-1][1] + 1)
        else:
            found.append((failure, 1))
    return found


def _call(name: str, arguments: Sequence[str]) -> Iterator[str]:
    """A call, in one line if that is short enough."""
    line = f"{name}({', '.join(arguments)})"
    if len(line) <= _WIDTH and "\n" not in line:
        yield line
        return
    yield f"{name}("
    for argument in arguments:
        lines = argument.split("\n")
        yield from (f"    {one}" for one in lines[:-1])
        yield f"    {lines[-1]},"
    yield ")"


def _pretty(value: Any) -> str:
    """A plain value as a Python expression. A text of several lines stays one expression."""
    return pprint.pformat(value, width=_WIDTH - 8, sort_dicts=False)


def _identifier(text: str) -> str:
    word = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:60] or "run"
    return f"{word}_run" if keyword.iskeyword(word) else word


def _text(text: str) -> str:
    """A text inside a docstring of one line."""
    return re.sub(r"[\\\"\x00-\x1f\x7f]", "?", text)
