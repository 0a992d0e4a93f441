"""All branches at once; failures are collected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from stepwell.errors import JoinError
from stepwell.model.entries import Entry
from stepwell.model.failures import FailureRecord, decode_failure, encode_failure, record_failure
from stepwell.model.locations import Location
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.branches import Branch, Branches, Broken, decode_branch
from stepwell.replay.packing import pack, unpack
from stepwell.replay.revival import revive
from stepwell.replay.scopes import Scope

OnError = Literal["wait_all", "fail_fast"]


async def run_join(
    scope: Scope, location: Location, entry: Entry | None, branches: Mapping[str, Branch], on_error: OnError
) -> dict[str, Any]:
    """The branches' results by name. Raises `JoinError` with the failing ones."""
    turn = scope.turn
    if entry is None:
        started_at = scope.time
        values, failures = await _gather(scope, location, branches, on_error)
        took = turn.now - started_at
        if failures:
            errors: dict[str, Exception] = {name: revive(failure) for name, failure in failures.items()}
            failure = encode_failure(record_failure(JoinError(turn.journal.names.text(location), errors)))
            entry = turn.journal.record(location, EntryKind.JOIN, EntryStatus.FAILED, failure, turn.now, took)
        else:
            header = [[name, len(values[name])] for name in branches]
            value = pack(header, b"".join(values[name] for name in branches))
            entry = turn.journal.record(location, EntryKind.JOIN, EntryStatus.DONE, value, turn.now, took)
    else:
        turn.journal.skip_below(location)
        await turn.in_order(entry)
    scope.saw(entry)
    if entry.status is EntryStatus.FAILED:
        raise revive(decode_failure(entry.value))
    return _results(scope, location, entry, branches)


async def _gather(
    scope: Scope, location: Location, branches: Mapping[str, Branch], on_error: OnError
) -> tuple[dict[str, bytes], dict[str, FailureRecord]]:
    running = Branches(scope, location, branches)
    values: dict[str, bytes] = {}
    failures: dict[str, FailureRecord] = {}
    try:
        for _ in branches:
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
