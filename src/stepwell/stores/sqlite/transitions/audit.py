"""The audit: who did what to a run, and whether a request was carried out before."""

from __future__ import annotations

from typing import NamedTuple

from stepwell.stores.sqlite.transaction import Transaction


class Actor(NamedTuple):
    """Who acts, and the id of the request, if it has one."""

    by: str
    act: str = ""

    def has_acted(self, tx: Transaction) -> bool:
        """Whether this request was carried out before."""
        return bool(self.act) and tx.find("audit.find_act", act=self.act) is not None


def note(tx: Transaction, run: int, verb: str, actor: Actor, before: str, reason: str = "") -> None:
    """Add an audit row."""
    tx.run("audit.note", run=run, now=tx.now, verb=verb, by=actor.by, before=str(before), reason=reason, act=actor.act)
