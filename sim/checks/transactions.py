"""Transactional steps: as many rows as records, of every one, at any time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sim.checks.shadow import Shadow
from sim.coroutines import at_once
from stepwell.model.entries import Entry
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.model.transactions import Transaction
from stepwell.stores.base.transactions import Performed

if TYPE_CHECKING:
    from sim.checker import Checker


CREATE = "create table if not exists sim_rows (node text not null, tries integer not null)"


class Transactions:
    """What the bodies of transactional steps did, outside of all that is durable."""

    def __init__(self) -> None:
        self._tries: Counter[str] = Counter()

    def tried(self, node: dict[str, Any]) -> int:
        """A body runs; how often it has run."""
        self._tries[node["id"]] += 1
        return self._tries[node["id"]]


def count(checker: Checker, shadow: Shadow, entry: Entry) -> None:
    """An entry was committed."""
    path = shadow.path(entry.location)
    kind = str(checker.node_at(path).get("kind", ""))
    if kind.startswith("transactional") and entry.kind is EntryKind.STEP and entry.status is EntryStatus.DONE:
        checker.recorded[path.rpartition("/")[2]] += 1
        checker.kinds["transaction"] += 1


def check_perform(checker: Checker, args: tuple[Any, ...], answer: Performed, is_unchanged: bool) -> None:
    """A transaction has ended, one way or the other."""
    commit, work = args
    if answer.applied is None and not is_unchanged:
        checker.violate("I49", commit.run_id, "a body raised, and its commit was applied all the same")
    if answer.commit is not None:
        missing = [at for at in work._body.args[1] if at not in checker.shadow(commit.run_id).paths]
        if missing:
            checker.violate("I29", commit.run_id, f"{work!r} is durable, and {missing[-1]} before it is not")
    rows = at_once(checker.inspector.transactions.run(_read))
    if rows != checker.recorded:
        strange = {name for name in rows | checker.recorded if rows[name] != checker.recorded[name]}
        checker.violate("I49", commit.run_id, f"rows and records differ for {sorted(strange)[:3]}")


def _read(tx: Transaction) -> Counter[str]:
    tx.execute(CREATE)
    return Counter(dict(tx.execute("select node, count(*) from sim_rows group by node")))
