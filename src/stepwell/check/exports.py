"""Runs of a store as recordings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepwell.check.histories import Recording
from stepwell.check.payloads import rewrite_all
from stepwell.codec.blobs import Blobs, DamagedBlobError
from stepwell.codec.compression import decompress
from stepwell.codec.offload import read_reference
from stepwell.errors import CorruptRecordError, NotFoundError
from stepwell.ids import RunId
from stepwell.model.runs import Run
from stepwell.model.states import WaitKind
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import Detail

FAMILY_MAX: Final = 50
_TYPED: Final = frozenset({WaitKind.CHILD, WaitKind.TOPIC})


async def export_run(store: Store, run_id: RunId) -> Recording:
    """The record of a run, in one consistent read, with its offloaded payloads."""
    detail = await store.views.detail(run_id)
    if detail is None:
        raise NotFoundError("run", run_id)
    return with_blobs(Recording(detail.run, detail.history), store.blobs)


async def family_of(store: Store, run_id: RunId) -> list[Detail]:
    """A run with its children and their children: at most `FAMILY_MAX`, each in one read."""
    found: list[Detail] = []
    left = [run_id]
    while left and len(found) < FAMILY_MAX:
        detail = await store.views.detail(left.pop(0))
        if detail is None:
            if not found:
                raise NotFoundError("run", run_id)
            continue
        found.append(detail)
        left += [child.run_id for child in detail.children if not child.damage]
    return found


async def export_runs(store: Store, runs: Sequence[Run]) -> list[Recording]:
    """The records of many runs, in few reads. The history of a run that continues meanwhile may be ahead of its row; a
    replay works with that.
    """
    histories = await store.runs.load([run.run_id for run in runs])
    found = [Recording(run, history) for run, history in zip(runs, histories, strict=True)]
    return [await with_inbox(store, one) for one in found]


async def with_inbox(store: Store, recording: Recording) -> Recording:
    """A recording with the inbox of the run, if it waits for a child or an event, whose value may not fit the code.

    A signal that does not fit is refused and stops no run, so signals need no inbox.
    """
    if all(wait.kind not in _TYPED for wait in recording.history.waits):
        return recording
    return recording._replace(inbox=await store.runs.inbox(recording.run.run_id))


def with_blobs(recording: Recording, blobs: Blobs) -> Recording:
    """A recording with its large payloads inline."""

    def fetch(path: str, payload: bytes) -> bytes:
        reference = read_reference(payload)
        if reference is None:
            return decompress(payload) or payload
        try:
            content = blobs.get(reference.name)
            return decompress(content) or content
        except (LookupError, DamagedBlobError) as error:
            raise CorruptRecordError(
                f"a large payload of run {recording.run.run_id} is lost", where=path, why=str(error)
            ) from error

    return rewrite_all(recording, fetch)
