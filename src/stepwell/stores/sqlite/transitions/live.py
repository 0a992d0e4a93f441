"""Published values and streams of runs."""

from __future__ import annotations

from stepwell.ids import RunId
from stepwell.model.live import Append, ChunkKind, Published
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.sqlite.transaction import Transaction


def publish(tx: Transaction, run: int, published: tuple[Published, ...]) -> None:
    """Replace named values, unless the stored ones are newer."""
    for name, position, value in published:
        tx.run("live.publish", run=run, name=name, position=position, value=value)


def append(tx: Transaction, run: int, run_id: RunId, appends: tuple[Append, ...]) -> None:
    """Append to streams. The first line of a part withdraws what other parts of its source wrote."""
    for one in appends:
        if one.begins:
            _withdraw(tx, run, one)
        _put(tx, run, one)
    tx.hint(HintKind.STREAM, run_id)


def _withdraw(tx: Transaction, run: int, one: Append) -> None:
    where = {"run": run, "stream": one.stream, "source": one.source, "part": one.part}
    found = tx.find("live.find_earlier", **where)
    if found is None or found[0] is None:
        return
    # First the reset, then the deletion: the reset must get an offset above all deleted lines.
    _put(tx, run, one._replace(kind=ChunkKind.RESET, value=b"%d" % found[0]))
    tx.run("live.withdraw", since=found[0], **where)


def _put(tx: Transaction, run: int, one: Append) -> None:
    tx.run(
        "live.append",
        run=run,
        stream=one.stream,
        kind=one.kind.value,
        source=one.source,
        part=one.part,
        value=one.value,
    )
