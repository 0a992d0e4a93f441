"""Idempotency keys, and the audit."""

from __future__ import annotations

import apsw

from stepwell.model.ledger import Act, ChainHead, NewAct, Reservation, Reserved, appended
from stepwell.stores.sqlite.transaction import Transaction, row_of, rows_of


def reserve(tx: Transaction, reservation: Reservation) -> Reserved:
    """Find what is stored under a key, or reserve it."""
    tx.run("ledger.forget", now=tx.now)
    found = tx.find("ledger.find", scope=reservation.scope, key=reservation.key)
    if found is not None:
        return Reserved(found[0], found[1], is_new=False)
    tx.run("ledger.reserve", **reservation._asdict())
    return Reserved(reservation.fingerprint, reservation.answer, is_new=True)


def settle(tx: Transaction, scope: str, key: str, answer: str) -> None:
    """Store the answer to a reserved request."""
    tx.run("ledger.settle", scope=scope, key=key, answer=answer)


def note(tx: Transaction, act: NewAct) -> Act:
    """Append a line, unless it exists."""
    found = tx.find("ledger.find_act", request_id=act.request_id, outcome=act.outcome)
    if found is not None:
        return Act._make(found)
    line = appended(read_head(tx.connection), tx.now, act)
    tx.run("ledger.add_act", **line._asdict())
    tx.run("ledger.set_head", number=line.number, chain=line.chain)
    return line


def read_head(connection: apsw.Connection) -> ChainHead:
    """The last appended line."""
    row = row_of(connection, "ledger.head")
    return ChainHead() if row is None else ChainHead._make(row)


def list_acts(connection: apsw.Connection, limit: int, below: int) -> list[Act]:
    """Lines below a number, newest first."""
    return [Act._make(row) for row in rows_of(connection, "ledger.list_acts", limit=limit, below=below)]
