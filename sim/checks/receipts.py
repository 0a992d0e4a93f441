"""Receipts that are not durable yet when a body starts: a replay must make the same ones at the same places."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from stepwell.model.entries import Entry
from stepwell.model.states import EntryKind
from stepwell.replay.bodies import Body

if TYPE_CHECKING:
    from sim.checker import Checker
    from sim.checks.shadow import Shadow


def is_promised(checker: Checker, shadow: Shadow, execution: Any, path: str) -> bool:
    """Whether what a body relies on at this path is such a receipt; it is remembered."""
    sent = execution._commits.sent
    for entry in (*execution._journal.pending.entries, *(() if sent is None else sent.entries)):
        if entry.kind is EntryKind.RECEIVE and execution._journal.names.text(entry.location) == path:
            shadow.promised.setdefault(entry.seq, entry)
            checker.stats["receipts made later"] += 1
            return True
    return False


def check_kept(checker: Checker, shadow: Shadow, entry: Entry) -> None:
    """What is recorded in the place of a receipt that a body relied on is that receipt. Undoing may come instead."""
    promised, path = shadow.promised.pop(entry.seq, None), shadow.path(entry.location)
    if promised is None or "~undo" in path:
        return
    if (entry.location, entry.value) != (promised.location, promised.value):
        was = shadow.path(promised.location)
        checker.violate("I9", shadow.run_id, f"a body began after {was}, and {path} is recorded in its place")


def check_told(checker: Checker, shadow: Shadow, body: Body) -> None:
    """A body that starts again is told what it was told before."""
    node = body.args[0] if body.args else None
    told = node.get("told") if isinstance(node, dict) else None
    if told is not None and shadow.told.setdefault(body.location, copy.deepcopy(told)) != told:
        before = shadow.told[body.location]
        checker.violate("I9", shadow.run_id, f"{body.info.path} was told {before}, and then {told}")


def begin_anew(shadow: Shadow) -> None:
    """A person has changed where the run stands."""
    shadow.promised.clear()
    shadow.told.clear()
    shadow.witnessed.clear()
