"""Moving the contents out of a database, or into one."""

from __future__ import annotations

import msgspec

from stepwell.clock import Instant
from stepwell.errors import TransferError
from stepwell.stores.base.packed_items import BATCH_BYTES, PackedRun, TransferBatch
from stepwell.stores.base.transfers import Manifest, Seal, SealKind, damaged, differs, unattached, unstorable
from stepwell.stores.postgres import calls
from stepwell.stores.postgres.database import PostgresDatabase
from stepwell.stores.postgres.faults import ItemRefusedError
from stepwell.stores.postgres.transactions import PostgresTransactions


class PostgresTransfers:
    """`TransferStore` on PostgreSQL. Large writes do not block the event loop.

    Payloads that were put but are not durable yet wait for the next other transition: no row refers to them yet.
    """

    def __init__(self, database: PostgresDatabase, transactions: PostgresTransactions) -> None:
        self._read = database.read
        self._write = transactions.run_transition

    async def find_seal(self) -> Seal | None:
        return await self._read(calls.FIND_SEAL)

    async def manifest(self) -> Manifest:
        return await self._read(calls.MANIFEST)

    async def restore(self, packed: PackedRun) -> bool:
        try:
            return await self._write(calls.RESTORE, packed)
        except ValueError as error:
            raise unstorable(packed, str(error)) from error

    async def seal(self, transfer_id: str, to: str) -> Seal:
        return await self._write(calls.SEAL, transfer_id, SealKind.LEAVING, to, None)

    async def pack(self, after: str = "", *, limit: int) -> TransferBatch:
        return await self._read(calls.PACK, after, limit, BATCH_BYTES)

    async def release(self, transfer_id: str) -> Seal:
        return await self._write(calls.RELEASE, transfer_id)

    async def unseal(self, transfer_id: str) -> None:
        await self._write(calls.UNSEAL, transfer_id, SealKind.LEAVING, False)

    async def expect(self, transfer_id: str, source: str, *, since: Instant) -> Seal:
        return await self._write(calls.SEAL, transfer_id, SealKind.ARRIVING, source, since)

    async def unpack(self, transfer_id: str, batch: TransferBatch) -> None:
        try:
            await self._write(calls.UNPACK, transfer_id, batch)
        except ItemRefusedError as refused:
            raise _refusal(refused, batch) from None
        except ValueError as error:
            raise _unstorable(batch, error) from error

    async def accept(self, transfer_id: str) -> None:
        await self._write(calls.UNSEAL, transfer_id, SealKind.ARRIVING, False)

    async def reject(self, transfer_id: str) -> None:
        await self._write(calls.UNSEAL, transfer_id, SealKind.ARRIVING, True)


def _refusal(refused: ItemRefusedError, batch: TransferBatch) -> TransferError:
    item = getattr(batch, refused.kind)[refused.place]
    match refused.why:
        case "unattached":
            return unattached(item)
        case "differs" if refused.kind != "blobs":
            return differs(item)
        case _:  # the new content matches its name, so the stored one does not
            return damaged(item.name)


def _unstorable(batch: TransferBatch, error: ValueError) -> TransferError:
    """The database nearly always rejects a text that none of its columns can hold."""
    guilty = [item for item in batch.items if b"\\u0000" in msgspec.json.encode(item)]
    return unstorable((guilty or batch.items)[0], str(error))
