"""How runs are described: attributes, titles and tags."""

from __future__ import annotations

from stepwell.ids import RunId
from stepwell.model.attributes import Attributes, Description
from stepwell.stores.sqlite.rows import encode_tags
from stepwell.stores.sqlite.transaction import Transaction


def describe(tx: Transaction, run: int, run_id: RunId, description: Description) -> None:
    """Change how a run is described."""
    set_attributes(tx, run, run_id, description.attributes)
    if description.title is not None:
        tx.run("payloads.entitle", run=run, title=description.title)
    if description.tags is not None:
        tx.run("payloads.tag", run=run, tags=encode_tags(description.tags))


def set_attributes(tx: Transaction, run: int, run_id: RunId, attributes: Attributes) -> None:
    """Set attributes; those without a value are removed."""
    for name, value, shown in attributes:
        if value:
            tx.run("attributes.set", run=run, name=name, value=value, shown=shown, run_id=run_id)
        else:
            tx.run("attributes.remove", run=run, name=name)
