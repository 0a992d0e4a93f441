"""Run all branches at once, and collect their failures."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Final, Literal, get_args

from stepwell.errors import JoinError
from stepwell.errors.records import FailureRecord
from stepwell.model.entries import Entry
from stepwell.model.failures import decode_failure, encode_failure, record_failure
from stepwell.model.locations import Location
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.branches import (
    Branch,
    Branches,
    Broken,
    check_repeated,
    decode_branch,
    guard_of,
    is_plain,
)
from stepwell.replay.captured_variables import BodyKind
from stepwell.replay.headers import pack, unpack
from stepwell.replay.revival import revive
from stepwell.replay.scopes import Scope

OnError = Literal["wait_all", "fail_fast"]
ON_ERROR: Final = get_args(OnError)


async def run_join(
    scope: Scope, location: Location, entry: Entry | None, branches: Mapping[str, Branch], on_error: OnError
) -> dict[str, Any]:
    """The results of the branches by name. Raises `JoinError` with the failures by name.

    A replay runs the branches again up to the recorded result, so that they change outer variables again. It does not
    run branches of `fail_fast` again, whose history may be gone, nor plain functions, which may run again at any time.
    """
    turn, is_kept = scope.turn, on_error == "wait_all" and not any(map(is_plain, branches.values()))
    if entry is None:
        started_at = scope.time
        values, failures = await _gather(scope, location, branches, on_error, is_kept=is_kept)
        await turn.order.reach_end()
        took = turn.now - started_at
        if failures:
            errors: dict[str, Exception] = {name: revive(failure) for name, failure in failures.items()}
            failure = encode_failure(record_failure(JoinError(turn.journal.names.text(location), errors)))
            entry = turn.journal.record(location, EntryKind.JOIN, EntryStatus.FAILED, failure, turn.now, took)
        else:
            header = [[name, len(values[name])] for name in branches]
            value = pack(header, b"".join(values[name] for name in branches))
            entry = turn.journal.record(location, EntryKind.JOIN, EntryStatus.DONE, value, turn.now, took)
    elif is_kept:
        with turn.journal.repeating(entry):
            _, failures = await _gather(scope, location, branches, on_error, is_kept=True, is_recorded=True)
        check_repeated(turn, entry, bool(failures))
        await turn.order.reach(entry)
    else:
        turn.journal.skip_below(location)
        await turn.order.reach(entry)
    scope.note_result(entry)
    if entry.status is EntryStatus.FAILED:
        raise revive(decode_failure(entry.value))
    return _results(scope, location, entry, branches)


async def _gather(
    scope: Scope,
    location: Location,
    branches: Mapping[str, Branch],
    on_error: OnError,
    *,
    is_kept: bool,
    is_recorded: bool = False,
) -> tuple[dict[str, bytes], dict[str, FailureRecord]]:
    kind: BodyKind = "fail_fast" if on_error == "fail_fast" else "plain"
    guard = None if is_kept else guard_of(scope, location, kind, "join", branches.values())
    with guard or nullcontext():
        ended = await _run(Branches(scope, location, branches, guard, is_recorded=is_recorded), len(branches), on_error)
        if guard is not None:
            guard.check()
    return ended


async def _run(running: Branches, count: int, on_error: OnError) -> tuple[dict[str, bytes], dict[str, FailureRecord]]:
    values: dict[str, bytes] = {}
    failures: dict[str, FailureRecord] = {}
    try:
        for _ in range(count):
            settled = await running.next()
            if isinstance(settled, Broken):
                failures[settled.name] = settled.failure
                if on_error == "fail_fast":
                    await running.cancel()
                    break
            else:
                values[settled.name] = settled.value
    finally:
        running.close()
    return values, failures


def _results(scope: Scope, location: Location, entry: Entry, branches: Mapping[str, Branch]) -> dict[str, Any]:
    header, payloads = unpack(entry.value)
    results, at = {}, 0
    for name, size in header:
        value = payloads[at : at + size]
        results[name] = decode_branch(scope, location, name, branches[name], value) if name in branches else None
        at += size
    return results
