"""What a run shows while it runs."""

from __future__ import annotations

from stepwell.model.live import Append, Chunk, ChunkKind, Page, Published
from stepwell.model.states import TERMINAL
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.memory.database import MemoryDatabase, RunRow
from stepwell.stores.memory.transaction import Transaction


def publish(tx: Transaction, row: RunRow, published: tuple[Published, ...]) -> None:
    """Replace named values, but not by older ones."""
    table = tx.db.published[row.run_id]
    for one in published:
        known = table.get(one.name)
        if known is None or one.position >= known.position:
            tx.put(table, one.name, one)


def append(tx: Transaction, row: RunRow, appends: tuple[Append, ...]) -> None:
    """Append to streams; the first line of a part withdraws what other parts of its source wrote."""
    for one in appends:
        table = tx.db.chunks[row.run_id, one.stream]
        if one.begins:
            _withdraw(tx, table, one)
        tx.put(table, _next(table), one)
    tx.hint(HintKind.STREAM, row)


def _withdraw(tx: Transaction, table: dict[int, Append], one: Append) -> None:
    earlier = [
        number
        for number, chunk in table.items()
        if (chunk.source, chunk.kind) == (one.source, ChunkKind.DATA) and chunk.part != one.part
    ]
    if earlier:
        tx.put(table, _next(table), one._replace(kind=ChunkKind.RESET, value=b"%d" % min(earlier)))
        tx.drop_all(table, earlier)


def _next(table: dict[int, Append]) -> int:
    return max(table, default=0) + 1


def read_stream(db: MemoryDatabase, row: RunRow | None, stream: str, after: int, limit: int) -> Page:
    """A part of a stream."""
    if row is None:
        return Page((), True)
    table = db.chunks.get((row.run_id, stream), {})
    numbers = sorted(number for number in table if number > after)[:limit]
    chunks = tuple(Chunk(number, table[number].kind, table[number].source, table[number].value) for number in numbers)
    return Page(chunks, row.status in TERMINAL)
