"""Deleting what nobody needs any more."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from stepwell.clock import Instant
from stepwell.model.retention import Swept, Tree
from stepwell.stores.base.retention import Part
from stepwell.stores.sqlite.rows import encode_texts
from stepwell.stores.sqlite.transaction import Row, Transaction


def prune(tx: Transaction, trees: Sequence[Tree], *, is_erasure: bool, by: str, reason: str) -> list[bool]:
    """Delete the trees that nothing has changed since they were planned."""
    ids: list[str] = sorted({one.run_id for tree in trees for one in (*tree.runs, *tree.witnesses)})
    known: dict[str, Row] = {row[0]: row for row in tx.rows("retention.find_doomed", ids=encode_texts(ids))}
    pruned = [_may_go(tree, known, is_erasure=is_erasure) for tree in trees]
    doomed = [known[one.run_id] for tree, goes in zip(trees, pruned, strict=True) if goes for one in tree.runs]
    if doomed:
        _delete(tx, [row[1] for row in doomed])
    if is_erasure:
        for run_id, _, _, workflow, status, _ in doomed:
            said = f"run {run_id}" + (f": {reason}" if reason else "")
            tx.run("retention.note", workflow=workflow, now=tx.now, by=by, before=status, reason=said)
    return pruned


def _may_go(tree: Tree, known: dict[str, Row], *, is_erasure: bool) -> bool:
    """Whether every run has the end that was planned with, and nothing needs it."""
    for run_id, ended_at in (*tree.runs, *tree.witnesses):
        row = known.get(run_id)
        if row is None or row[2] != ended_at:
            return False
    return bool(tree.runs) and (is_erasure or not any(known[one.run_id][5] for one in tree.runs))


def _delete(tx: Transaction, runs: list[int]) -> None:
    numbers = json.dumps(runs)
    for number, kind, is_open in tx.rows("retention.list_records", runs=numbers):
        tx.run("records.remove_labels", kind=kind, was_open=is_open, record=number)
        tx.run("records.prune", number=number)
    signals = [number for (number,) in tx.rows("retention.list_run_signals", runs=numbers)]
    if signals:
        tx.run("retention.forget_signals", numbers=json.dumps(signals))
    tx.run("retention.prune", runs=numbers)


def sweep(tx: Transaction, part: Part, before: Instant, after: int, limit: int) -> Swept:
    """Delete what is not needed any more in the next rows of a table."""
    limits = {"after": after, "limit": limit}
    if part == "events":
        rows = tx.rows("retention.list_events", now=tx.now, **limits)
    else:
        rows = tx.rows("retention.list_signals", before=before, **limits)
    numbers = [number for number, is_old in rows if is_old]
    if numbers:
        tx.run(f"retention.forget_{part}", numbers=json.dumps(numbers))
    return Swept(len(numbers), rows[-1][0] if len(rows) == limit else None)


def drop_blobs(tx: Transaction, hashes: Collection[str], before: Instant, slack: int) -> int:
    """Delete payloads that were last put before then, and long before the start of every run that has a worker."""
    row = tx.find("retention.find_oldest_owned")
    if row is not None and row[0] is not None:
        before = min(before, Instant(row[0] - slack))
    tx.run("retention.drop_blobs", hashes=encode_texts(sorted(hashes)), before=before)
    return int(tx.connection.changes())
