"""What a campaign must have covered: every method of the contract, and every result that matters."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping

from stepwell.codec.blobs import Blobs
from stepwell.model.amendments import AMENDABLE
from stepwell.model.commits import Verdict
from stepwell.model.events import Publication
from stepwell.model.signals import Delivery
from stepwell.model.states import TERMINAL, RunStatus, WaitKind
from stepwell.stores.base.events import EventStore
from stepwell.stores.base.holds import HoldStore
from stepwell.stores.base.ledger import LedgerStore
from stepwell.stores.base.outbox import OutboxStore
from stepwell.stores.base.overviews import OverviewStore
from stepwell.stores.base.records import RecordStore
from stepwell.stores.base.retention import RetentionStore
from stepwell.stores.base.runs import RunStore
from stepwell.stores.base.signals import SignalStore
from stepwell.stores.base.transactions import TransactionStore
from stepwell.stores.base.transfers import TransferStore
from stepwell.stores.base.views import ViewStore
from stepwell.stores.base.workers import WorkerStore

_NOUNS = {
    "runs": RunStore,
    "signals": SignalStore,
    "events": EventStore,
    "outbox": OutboxStore,
    "workers": WorkerStore,
    "holds": HoldStore,
    "ledger": LedgerStore,
    "records": RecordStore,
    "retention": RetentionStore,
    "views": ViewStore,
    "overviews": OverviewStore,
    "transactions": TransactionStore,
    "transfers": TransferStore,
    "blobs": Blobs,
}

SOMETHING_FROM = 5_000  # operations: each method has had its main result
EVERYTHING_FROM = 20_000  # and every other result

# The first is the main result of the method. A method that is not listed must have found or done something.
_FACTS: dict[str, tuple[str, ...]] = {
    "runs.create": (
        "new",
        "known",
        "known, other input",
        "duplicate id",
        "claimed",
        "replaced",
        "refused: AlreadyExistsError",
        *(f"together, {which} claimed" for which in ("all", "some", "none")),
    ),
    "runs.debounce": ("planned", "changed", "stale"),
    "runs.claim": (
        "running",
        "cancelling",
        "compensating",
        "debounced run began",
        "with mail",
        "ahead of its time",
        "refused: LeaseLostError",
    ),
    "runs.inbox": ("done", "signals", "children", "events"),
    "runs.apply": (
        *(verdict.value for verdict in Verdict),
        "applied before",
        "applied, cancel waiting",
        *(f"another step alone: {word}" for word in ("applied", "applied, paused", "applied, cancelling", "fenced")),
        *(f"applied, paused: {move}" for move in ("NoneType", "Park", "Release", "Pause")),
        "refused: ValueError",
        "refused: InvalidMoveError",
        *("no move", "Park", "Park, awake", "Release", "Pause", "BeginRollback(failed)", "BeginRollback(cancelled)"),
        *(
            f"End({status.value})"
            for status in RunStatus
            if status in TERMINAL or status is RunStatus.COMPENSATION_FAILED
        ),
        *("Park together", "End together"),
        *("names", "entries", "attempts", "cursors", "ended_cursors", "trims", "progress", "ended_progress"),
        *("ended_attempts", "opened", "closed", "record closed with its run"),
        *("consumed", "refused", "received", "reply given", "reply refused"),
        *(
            "emits",
            "announced",
            "published",
            "description",
            "appends",
            "append data",
            "append close",
            "append that begins a part",
        ),
        *(
            "append withdrew",
            "child",
            "child, detached",
            "child, tied",
            "child with a taken key",
            "child with a known id",
        ),
        *("child claimed", "tied child cancelled", "trimmed child cancelled"),
        *(f"wait for a {kind.value}" for kind in WaitKind),
        *("wait with conditions", *(f"wait for events since {since}" for since in ("wait", "start", "all"))),
    ),
    "runs.cancel": (
        *("cancelled with compensation", "cancelled without compensation", "cancelling with compensation"),
        *("descendants", "record closed", "too late", "refused: NotFoundError"),
    ),
    "runs.pause": ("paused", "told", "not possible"),
    "runs.resume": ("resumed", "resumed undoing", "withdrawn", "left to a person", "not paused"),
    "runs.resume_rollback": ("resumed", "not stuck"),
    "runs.retry": ("retried", "failed entries forgotten", "failed child retried", "not failed, or its key is taken"),
    "runs.amend": (
        *("applied", "applied before", "stale", "key_taken", "refused: NotFoundError", "refused: ValueError"),
        *("forgotten", "ended_cursors", "ended_progress", "attempts", "entries", "waits", "children", "names"),
        *(f"from {status.value}" for status in sorted(AMENDABLE)),
        *(
            "record closed",
            "another version",
            "another input",
            "child cancelled",
            "key of a child freed",
            "child retried",
        ),
    ),
    "runs.fork": ("forked", "forked before", "stale", "refused: AlreadyExistsError", "refused: NotFoundError"),
    "runs.rescue": ("freed", "poisoned", "paused", "nothing"),
    "runs.relinquish": ("freed", "nothing"),
    "signals.deliver": (*(delivery.value for delivery in Delivery), "woke", "claimed"),
    "signals.deliver_or_create": ("new", "known", "delivered", "duplicate", "woke", "claimed"),
    "signals.redeliver": ("delivered", "duplicate", "missing", "woke"),
    "events.publish": (
        *(publication.value for publication in Publication),
        *("for all, given", "for all, nobody there", "for one, given", "for one, nobody there", "given to several"),
        *("started", "claimed", "refused: AlreadyExistsError"),
    ),
    "outbox.take": ("taken", "taken again", "batch of several", "refused: LeaseLostError"),
    "outbox.settle": ("sent", "dead", "to be repeated", "given back", "not its own"),
    "outbox.next_due": ("due", "nothing"),
    "outbox.list_owed": ("owed", "dead"),
    "workers.register": ("new", "again", "refused: LeaseLostError"),
    "workers.renew": ("renewed", "told of cancels", "told of pauses", "refused: LeaseLostError"),
    "holds.pause": ("paused", "paused before"),
    "holds.resume": ("resumed", "not paused"),
    "holds.list_holds": ("found", "nothing"),
    "holds.list_acts": ("found",),
    "ledger.reserve": ("new", "known"),
    "ledger.settle": ("done",),
    "ledger.note": ("appended", "repeated"),
    "ledger.list_acts": ("found", "nothing"),
    "ledger.head": ("found",),
    "records.change": (
        *("changed", "stale", "repeated", "created", "closed", "opened again", "started", "claimed"),
        *(f"signal {delivery.value}" for delivery in Delivery),
        *("signal kept by an ended run", "refused: ValueError", "refused: AlreadyExistsError"),
    ),
    "records.prune": ("pruned", "nothing"),
    "records.due": ("due", "nothing"),
    "records.next_due": ("due", "nothing"),
    "records.find": ("found", "nothing"),
    "records.list_records": ("found", "nothing"),
    "records.count": ("found", "nothing"),
    "records.list_events": ("found", "nothing"),
    "retention.list_ended": ("found", "nothing", "needed", "with children"),
    "retention.list_relatives": ("found", "nothing"),
    "retention.prune": ("pruned", "left", "erased", "several runs", "with records", "with dead letters"),
    "retention.sweep": ("signals", "events", "no signals", "no events"),
    "retention.has_old_blobs": ("found", "nothing"),
    "retention.sweep_blobs": ("deleted", "nothing"),
    "workers.retire": ("with runs", "without runs"),
    "transactions.perform": (
        "applied",
        "applied before",
        "fenced",
        "cancelling",
        "raised: Changed",
        "raised: IntegrityError",
    ),
    "transactions.run": ("done", "raised: Changed", "raised: IntegrityError"),
    "transactions.enqueue": ("new",),
    "transfers.find_seal": ("sealed", "open"),
    "transfers.seal": ("done", "refused: StoreInUseError"),
    "transfers.pack": ("done", "refused: TransferError"),
    "transfers.restore": ("added", "taken"),
    "blobs.get": ("found", "nothing"),
}


def methods() -> list[str]:
    """Every method of the contract."""
    return [
        f"{noun}.{name}"
        for noun, protocol in _NOUNS.items()
        for name, _ in inspect.getmembers(protocol, inspect.isfunction)
        if not name.startswith("_")
    ]


def required(operations: int) -> Iterator[tuple[str, str]]:
    """Each method with the results that a campaign of this many operations must have."""
    for method in methods():
        facts = _FACTS.get(method, ("asked", "found") if method.startswith(("views.", "overviews.")) else ("done",))
        count = len(facts) if operations >= EVERYTHING_FROM else 1 if operations >= SOMETHING_FROM else 0
        yield from ((method, fact) for fact in facts[:count])


def missing(facts: Mapping[tuple[str, str], int], operations: int) -> list[str]:
    """What should have happened in this many operations and did not."""
    return [f"{method}: {fact}" for method, fact in required(operations) if not facts.get((method, fact))]
