"""Keys of requests, and the audit."""

from __future__ import annotations

from stepwell.model.ledger import Act, ChainHead, NewAct, Reservation, Reserved, appended
from stepwell.stores.memory.database import MemoryDatabase
from stepwell.stores.memory.transaction import Transaction


def reserve(tx: Transaction, reservation: Reservation) -> Reserved:
    """Find what stands under a key, or put this there."""
    requests = tx.db.requests
    tx.drop_all(requests, [place for place, known in requests.items() if known.kept_until <= tx.now])
    place = (reservation.scope, reservation.key)
    found = requests.get(place)
    if found is None:
        tx.put(requests, place, reservation)
    stands = found or reservation
    return Reserved(stands.fingerprint, stands.answer, is_new=found is None)


def settle(tx: Transaction, scope: str, key: str, answer: str) -> None:
    """Put the answer under a key that is there."""
    found = tx.db.requests.get((scope, key))
    if found is not None:
        tx.put(tx.db.requests, (scope, key), found._replace(answer=answer))


def note(tx: Transaction, act: NewAct) -> Act:
    """Append a line, unless it is there."""
    db = tx.db
    known = db.noted.get((act.request_id, act.outcome))
    if known is not None:
        return db.acts[known]
    line = appended(head_of(db), tx.now, act)
    add_act(tx, line)
    tx.put(db.chain, "", ChainHead(line.number, line.chain))
    return line


def add_act(tx: Transaction, line: Act) -> None:
    """Add a line as it is."""
    tx.put(tx.db.acts, line.number, line)
    tx.put(tx.db.noted, (line.request_id, line.outcome), line.number)


def head_of(db: MemoryDatabase) -> ChainHead:
    """What was appended last."""
    return db.chain.get("", ChainHead())


def list_acts(db: MemoryDatabase, limit: int, below: int) -> list[Act]:
    """Lines below a number, newest first."""
    numbers = sorted((number for number in db.acts if number < below), reverse=True)
    return [db.acts[number] for number in numbers[:limit]]
