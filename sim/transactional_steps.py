"""Bodies of transactional steps: each writes one row beside its record, and some fail after that."""

from __future__ import annotations

from typing import Any

from sim.checks.transactions import CREATE
from sim.ledger import world_here
from sim.programs import Node
from stepwell.model.retries import Retry
from stepwell.model.transactions import Transaction
from stepwell.replay.steps import Step, step

RETRY = Retry(max_attempts=3, initial="50ms", max_delay="1s")


class Refused(Exception):
    """The row is written, and the body does not want it."""


def _write(tx: Transaction, node: Node, after: list[str]) -> Any:
    world = world_here()
    world.stats["transactions"] += 1
    tries = world.transactions.tried(node)
    tx.execute(CREATE)
    tx.execute("insert into sim_rows (node, tries) values (?, ?)", (node["id"], tries))
    if tries <= node["fails"] and node["kind"] == "transactional_flaky":
        raise Refused(f"try {tries}")
    return ["did", node["id"], node["value"]]


async def _write_async(tx: Transaction, node: Node, after: list[str]) -> Any:
    return _write(tx, node, after)


TRANSACTIONAL_STEPS: dict[str, Step[..., Any]] = {
    "transactional": step(_write_async, retry=RETRY, transaction=True),
    "transactional_flaky": step(_write, retry=RETRY, transaction=True),
}
