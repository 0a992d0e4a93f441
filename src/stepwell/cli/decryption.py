"""The encrypted values of one run, decrypted for a person who has the keys of the application."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from stepwell.check.histories import Recording
from stepwell.check.payloads import rewrite_all
from stepwell.codec.base import Place, Row
from stepwell.codec.envelopes import find_mark
from stepwell.errors import StoreError

if TYPE_CHECKING:
    from stepwell.codec.base import Codec
    from stepwell.stores.base.views import Detail

_FIELDS = ("value", "event", "undo", "state", "progress")


def decrypt_detail(detail: Detail, codec: Codec) -> Detail:
    """A run with its values as plain JSON. A value that this codec cannot decrypt stays as it is."""
    if not codec.conceals:
        return detail
    run, names = detail.run, detail.history.names
    received: Counter[str] = Counter()  # by path: how many values were decrypted there

    def rows(path: str) -> Iterator[Row]:
        if path in ("input", "output"):
            yield Row(run.run_id, "", path)
        yield from (Row(run.run_id, path, field) for field in _FIELDS)
        yield Row(run.run_id, path, f"signal {received[path]}")
        yield from (Row(run.run_id, f"{path}/{name}", "value") for name in names)

    def decrypt(path: str, payload: bytes) -> bytes:
        """The plain value. Encryption binds a value to its row and field, so only the right row decrypts it."""
        if find_mark(payload) is None:
            return payload
        for row in rows(path):
            try:
                opened = codec.unseal(payload, place=Place(run.workflow, path, "the value", row=row))
            except StoreError:
                continue
            received[path] += 1
            return opened
        return payload

    rewritten = rewrite_all(Recording(run, detail.history), decrypt)
    return detail._replace(run=rewritten.run, history=rewritten.history)
