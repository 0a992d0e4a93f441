"""Moving the contents out of a database, or into one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import apsw

from stepwell.clock import Instant
from stepwell.stores.base.packed_items import PackedRun, TransferBatch, next_batch
from stepwell.stores.base.transfers import Manifest, Seal, SealKind, not_sealed
from stepwell.stores.sqlite.database import TransferOperation, read_state
from stepwell.stores.sqlite.packed_items import Packer, manifest
from stepwell.stores.sqlite.runners import Runner
from stepwell.stores.sqlite.transaction import Transaction, row_of
from stepwell.stores.sqlite.transitions import transfers
from stepwell.stores.sqlite.views import in_snapshot

T = TypeVar("T")


class SqliteTransfers:
    """`TransferStore` on SQLite. Large writes do not block the event loop."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def _write(self, transition: Callable[[Transaction], T]) -> T:
        return await self._runner.write(TransferOperation(transition), is_blocking=True)

    async def find_seal(self) -> Seal | None:
        return await self._runner.read(_find_seal)

    async def manifest(self) -> Manifest:
        return await self._runner.read(manifest, is_large=True)

    async def restore(self, packed: PackedRun) -> bool:
        return await self._runner.write(lambda tx: transfers.restore(tx, packed), is_blocking=True)

    async def seal(self, transfer_id: str, to: str) -> Seal:
        database = self._runner.database
        return await self._write(lambda tx: transfers.seal(tx, database, transfer_id, SealKind.LEAVING, to))

    async def pack(self, after: str = "", *, limit: int) -> TransferBatch:
        def query(connection: apsw.Connection) -> TransferBatch:
            if _find_seal(connection) is None:
                raise not_sealed("")
            packer = Packer(connection)
            batch = next_batch(after, limit, packer.list_items)
            whole = batch._replace(is_encrypted=read_state(connection)[2], head=packer.head)
            return whole._replace(highest=packer.highest, holds=packer.holds, hold_acts=packer.hold_acts)

        return await self._runner.read(lambda c: in_snapshot(c, lambda: query(c)), is_large=True)

    async def release(self, transfer_id: str) -> Seal:
        database = self._runner.database
        return await self._write(lambda tx: transfers.release(tx, database, transfer_id))

    async def unseal(self, transfer_id: str) -> None:
        database = self._runner.database
        await self._write(lambda tx: transfers.reopen(tx, database, transfer_id, SealKind.LEAVING))

    async def expect(self, transfer_id: str, source: str, *, since: Instant) -> Seal:
        database, kind = self._runner.database, SealKind.ARRIVING
        return await self._write(lambda tx: transfers.seal(tx, database, transfer_id, kind, source, since))

    async def unpack(self, transfer_id: str, batch: TransferBatch) -> None:
        database = self._runner.database
        await self._write(lambda tx: transfers.unpack(tx, database, transfer_id, batch))

    async def accept(self, transfer_id: str) -> None:
        database = self._runner.database
        await self._write(lambda tx: transfers.reopen(tx, database, transfer_id, SealKind.ARRIVING))

    async def reject(self, transfer_id: str) -> None:
        database = self._runner.database

        def transition(tx: Transaction) -> None:
            if transfers.reopen(tx, database, transfer_id, SealKind.ARRIVING):
                transfers.clear(tx)
                database.is_encrypted = False

        await self._write(transition)


def _find_seal(connection: apsw.Connection) -> Seal | None:
    row = row_of(connection, "transfers.find_seal")
    return None if row is None else Seal(row[0], SealKind(row[1]), row[2], Instant(row[3]))
