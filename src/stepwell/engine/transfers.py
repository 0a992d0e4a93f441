"""Moving everything from one store to another: the copy is proven to continue before the source is given up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from stepwell.codec.base import Codec
from stepwell.environment import LockstepThreads
from stepwell.errors import StepwellError, StoreUnavailableError, TransferError, UnknownWorkflowError
from stepwell.ids import RunId
from stepwell.model.live import Chunk
from stepwell.model.runs import History, Run
from stepwell.model.states import ACTIVE, RunStatus
from stepwell.replay.registry import Registry
from stepwell.replay.rehearsals import describe_break, rehearse
from stepwell.stores.base.packed_items import Item, name_of
from stepwell.stores.base.store import Store
from stepwell.stores.base.transfers import Manifest, Seal, SealKind, not_empty, sealed
from stepwell.stores.base.views import RunFilter

BATCH_ITEMS = 200
_PAGE = 100
_SHOWN = 5
_OPERATORS_TURN = frozenset({RunStatus.PAUSED, RunStatus.COMPENSATION_FAILED})


class Stage(StrEnum):
    """What a move is doing."""

    COPYING = "copying"
    COMPARING = "comparing"
    REPLAYING = "replaying"


Tell = Callable[[Stage, int, int], None]  # how much of a stage is done, and how much there is


class Side(NamedTuple):
    """One end of a move."""

    store: Store
    name: str  # for people: an address without a password


class Code(NamedTuple):
    """The code that replays runs."""

    registry: Registry
    codec: Codec
    threads: LockstepThreads | None = None


class Stopped(NamedTuple):
    """A run that could not continue with this code."""

    run_id: RunId
    definition: str
    status: RunStatus
    error: StepwellError


class Moved(NamedTuple):
    """What was moved."""

    manifest: Manifest
    replayed: int  # runs that can continue with this code; 0 without code
    stopped: tuple[Stopped, ...] = ()  # paused runs that cannot; they could not in the source either
    is_source_open: bool = False


class Move:
    """One move, from the check of both ends to the opening of the destination.

    An error that a retry cannot fix opens the source again and empties the destination. Anything else, including the
    death of this process, leaves both closed: `run` continues the move, and `undo` reverts it.
    """

    def __init__(
        self, source: Side, destination: Side, *, new_id: str, code: Code | None = None, tell: Tell | None = None
    ) -> None:
        self._source = source
        self._destination = destination
        self._new_id = new_id
        self._code = code
        self._tell = tell or (lambda *_: None)

    async def run(self, *, keep_source_open: bool = False, batch_items: int = BATCH_ITEMS) -> Moved:
        """Copy everything, compare it, replay the active runs, and only then give the source up.

        With `keep_source_open` the source is opened again at the end, and the copy stays closed.
        Raises `TransferError`, `StoreSealedError` or `StoreInUseError`; nothing has moved then.
        """
        seal = await self._begin()
        if seal.kind is SealKind.LEFT:  # only the last transition was missing
            await self._destination.store.transfers.accept(seal.transfer_id)
            return Moved(await self._destination.store.transfers.manifest(), 0)
        try:
            moved = await self._copy_and_verify(seal, batch_items)
        except StoreUnavailableError:
            raise
        except Exception:
            await self._give_up(seal)
            raise
        if keep_source_open:
            await self._source.store.transfers.unseal(seal.transfer_id)
            return moved._replace(is_source_open=True)
        await self._source.store.transfers.release(seal.transfer_id)
        await self._destination.store.transfers.accept(seal.transfer_id)
        return moved

    # --- stages ---

    async def _begin(self) -> Seal:
        """Close the source, or find it closed for this move. Nothing has changed if this raises."""
        source, destination = self._source.store.transfers, self._destination.store.transfers
        here, there = await source.find_seal(), await destination.find_seal()
        if here is None:
            await self._check_destination(there)
            return await source.seal(self._new_id, self._destination.name)
        if here.kind is SealKind.ARRIVING:
            raise sealed(here)
        if there is not None and (there.transfer_id, there.kind) == (here.transfer_id, SealKind.ARRIVING):
            return here
        if here.kind is SealKind.LEAVING and there is None and here.peer == self._destination.name:
            return here
        if here.kind is SealKind.LEAVING and here.peer != self._destination.name:
            raise TransferError(
                f"this database is being moved to {here.peer}, and not to {self._destination.name}",
                why="that move was begun and has not ended",
                fix="finish it by naming the same destination, or revert it with --undo",
            )
        raise sealed(here)

    async def _check_destination(self, there: Seal | None) -> None:
        transfers = self._destination.store.transfers
        if there is None:
            found = await transfers.manifest()
            if found.items:
                raise not_empty(found)
        elif _is_from(self._source, there):
            # The copy of an abandoned move, or of a rehearsal: the source has all of it, and may have more.
            await transfers.reject(there.transfer_id)
        else:
            raise sealed(there)

    async def _copy_and_verify(self, seal: Seal, batch_items: int) -> Moved:
        source, destination = self._source.store.transfers, self._destination.store.transfers
        if await destination.find_seal() == seal:
            raise TransferError(
                "the source and the destination are the same database",
                where=self._destination.name,
                fix="move into a new database",
            )
        await destination.expect(seal.transfer_id, self._source.name, since=seal.at)
        manifest = await source.manifest()
        await self._copy(seal, manifest, batch_items)
        await self._compare(manifest, batch_items)
        return Moved(manifest, *await self._replay(manifest))

    async def _copy(self, seal: Seal, manifest: Manifest, batch_items: int) -> None:
        source, destination = self._source.store.transfers, self._destination.store.transfers
        done, mark, is_over = 0, "", False
        while not is_over:
            batch = await source.pack(mark, limit=batch_items)
            await destination.unpack(seal.transfer_id, batch)
            done += len(batch.items)
            mark, is_over = batch.next, not batch.next
            self._tell(Stage.COPYING, done, manifest.items)

    async def _compare(self, manifest: Manifest, batch_items: int) -> None:
        """Compare everything twice: the packed records with internal ones, and what the views show of each run."""
        total, done = manifest.items + manifest.runs, 0
        there = _items(self._destination.store, batch_items)
        async for item in _items(self._source.store, batch_items):
            other = await anext(there, None)
            if other != item:
                raise _changed(name_of(item))
            done += 1
            self._tell(Stage.COMPARING, done, total)
        extra = await anext(there, None)
        if extra is not None:
            raise _changed(name_of(extra))
        async for runs in _pages(self._source.store, RunFilter()):
            await asyncio.gather(*(self._compare_views(run.run_id) for run in runs))
            done += len(runs)
            self._tell(Stage.COMPARING, done, total)

    async def _compare_views(self, run_id: RunId) -> None:
        here, there = self._source.store, self._destination.store
        shown, arrived = await asyncio.gather(_shown(here, run_id), _shown(there, run_id))
        if shown != arrived:
            raise _changed(f"run {run_id}")
        for stream in shown[-1]:
            others = _chunks(there, run_id, stream)
            async for chunk in _chunks(here, run_id, stream):
                if await anext(others, None) != chunk:
                    raise _changed(f"stream {stream!r} of run {run_id}")

    async def _replay(self, manifest: Manifest) -> tuple[int, tuple[Stopped, ...]]:
        """Replay the active runs from the destination. Returns how many can continue, and the paused runs that cannot:
        they could not continue in the source either.
        """
        if self._code is None:
            return 0, ()
        replayed, done = 0, 0
        stopped: list[Stopped] = []
        store, where = self._destination.store, RunFilter(statuses=tuple(sorted(ACTIVE)))
        async for runs in _pages(store, where):
            for run in runs:
                [history] = await store.runs.load([run.run_id])
                error = _rehearse(self._code, run, history)
                if error is None:
                    replayed += 1
                else:
                    stopped.append(Stopped(run.run_id, run.definition, run.status, error))
                done += 1
                self._tell(Stage.REPLAYING, done, manifest.active)
        stuck = [one for one in stopped if one.status not in _OPERATORS_TURN]
        if stuck:
            raise _cannot_go_on(stuck)
        return replayed, tuple(stopped)

    async def _give_up(self, seal: Seal) -> None:
        """Open the source again. The rest in the destination is deleted, now or when the next move begins."""
        try:
            await self._destination.store.transfers.reject(seal.transfer_id)
        except StepwellError:
            pass  # it stays closed, so it does no harm
        await self._source.store.transfers.unseal(seal.transfer_id)


async def undo(source: Side, destination: Side | None) -> bool:
    """Revert an unfinished move: open the source, and empty the destination if it can be reached. False if there was
    nothing to revert.

    Raises `StoreSealedError` if the source has moved permanently, or is itself the destination of a move.
    """
    here = await source.store.transfers.find_seal()
    if here is not None:
        if here.kind is not SealKind.LEAVING:
            raise sealed(here)
        await source.store.transfers.unseal(here.transfer_id)
    there = None if destination is None else await destination.store.transfers.find_seal()
    if destination is None or there is None or not _is_from(source, there):
        return here is not None
    await destination.store.transfers.reject(there.transfer_id)
    return True


def _is_from(source: Side, there: Seal) -> bool:
    """Whether a destination holds only what an unfinished move from this source copied."""
    return there.kind is SealKind.ARRIVING and there.peer == source.name


def _rehearse(code: Code, run: Run, history: History) -> StepwellError | None:
    workflow = code.registry.find(run.definition)
    if workflow is None:
        known = ", ".join(code.registry.definitions)
        return UnknownWorkflowError("workflow", run.definition, fix=f"name the module that has it; known: {known}")
    try:
        return rehearse(workflow, run, history, code.codec, code.threads)
    except Exception as error:  # noqa: BLE001  any error means that this run would not continue
        return describe_break(error)


async def _items(store: Store, batch_items: int) -> AsyncIterator[Item]:
    """Everything that a sealed store holds, in the order of packing."""
    mark, is_over = "", False
    while not is_over:
        batch = await store.transfers.pack(mark, limit=batch_items)
        for item in batch.items:
            yield item
        mark, is_over = batch.next, not batch.next


async def _pages(store: Store, where: RunFilter) -> AsyncIterator[list[Run]]:
    before: RunId | None = None
    while page := await store.views.list_runs(where, limit=_PAGE, before=before):
        yield page
        before = page[-1].run_id


async def _chunks(store: Store, run_id: RunId, stream: str) -> AsyncIterator[Chunk]:
    after = 0
    while page := (await store.views.read_stream(run_id, stream, after=after, limit=_PAGE)).chunks:
        for chunk in page:
            yield chunk
        after = page[-1].offset


async def _shown(store: Store, run_id: RunId) -> tuple[Any, ...]:
    """What a store shows of a run, with the names of its streams at the end."""
    views = store.views
    return (
        await views.detail(run_id),
        await views.list_audit(run_id),
        await views.list_published(run_id),
        await views.list_progress([run_id]),
        await views.list_streams(run_id),
    )


def _changed(what: str) -> TransferError:
    return TransferError(
        f"{what} differs after the copy",
        why="the two databases were compared after everything was copied",
        fix="nothing was moved; move into a new database, and report it if that fails too",
    )


def _cannot_go_on(stuck: Sequence[Stopped]) -> TransferError:
    shown = [f"{one.run_id} ({one.definition}): {one.error.title}" for one in stuck[:_SHOWN]]
    more = f"; and {len(stuck) - _SHOWN} more" if len(stuck) > _SHOWN else ""
    count = "1 run" if len(stuck) == 1 else f"{len(stuck)} runs"
    return TransferError(
        f"{count} could not continue in the destination with this code",
        where=stuck[0].error.where,
        why="; ".join(shown) + more,
        fix="name the code that recorded these runs; without --app they are only compared",
    )
