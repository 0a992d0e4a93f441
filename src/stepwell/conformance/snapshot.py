"""Everything that a store shows, as one comparable value."""

from __future__ import annotations

from typing import Any

from stepwell.model.records import RecordFilter
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import RunFilter

_ALL = 1_000_000
RECORD_KINDS = ("task", "Übersicht")  # a store does not list kinds, so these are all that the suite uses


async def snapshot(store: Store) -> dict[str, Any]:
    """Runs with histories, signals, events, acts, published values and streams; workers; held and unread signals; kept
    events; the outbox; records with their events.

    Equal if and only if nothing visible changed.
    """
    runs: dict[str, Any] = {}
    for run in await store.views.list_runs(RunFilter(), limit=_ALL):
        detail = await store.views.detail(run.run_id)
        assert detail is not None
        runs[run.run_id] = {
            "run": detail.run,
            "history": detail.history,
            "signals": detail.signals,
            "events": detail.events,
            "children": sorted(child.run_id for child in detail.children),
            "audit": await store.views.list_audit(run.run_id),
            "published": await store.views.list_published(run.run_id),
            "streams": {
                stream: list((await store.views.read_stream(run.run_id, stream, after=0, limit=_ALL)).chunks)
                for stream in await store.views.list_streams(run.run_id)
            },
        }
    return {
        "runs": runs,
        "workers": await store.views.list_workers(),
        "held": await store.views.list_held(limit=_ALL),
        "unread": await store.views.list_unread(limit=_ALL),
        "kept": await store.views.list_events(limit=_ALL),
        "holds": await store.holds.list_holds(),
        "hold_acts": await store.holds.list_acts(limit=_ALL),
        "acts": await store.ledger.list_acts(limit=_ALL),
        "head": await store.ledger.head(),
        "owed": await store.outbox.list_owed(is_dead=False, limit=_ALL),
        "dead": await store.outbox.list_owed(is_dead=True, limit=_ALL),
        "records": await _records(store),
    }


async def _records(store: Store) -> list[Any]:
    return [
        (record, await store.records.list_events(kind, record.record_id, limit=_ALL))
        for kind in RECORD_KINDS
        for record in await store.records.list_records(RecordFilter(kind, order="oldest"), limit=_ALL)
    ]
