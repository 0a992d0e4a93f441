"""The ledger of the HTTP servers: requests that must not happen twice, and the audit."""

from __future__ import annotations

from stepwell.engine.backend import Backend
from stepwell.errors import KeyReusedError
from stepwell.model.ledger import ACT_LAST, Act, NewAct, Reservation, storable_text


class Ledger:
    """Idempotency keys and the audit, in the engine's store: all servers on it share them."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def reserve(self, reservation: Reservation) -> str:
        """The answer stored under a key. Raises `KeyReusedError` if it was reserved for another request."""
        stored = reservation._replace(scope=storable_text(reservation.scope), key=storable_text(reservation.key))
        found = await self._backend.retrying(lambda store: store.ledger.reserve(stored))
        if found.fingerprint != reservation.fingerprint:
            raise KeyReusedError(
                "this idempotency key was used for another request",
                where=reservation.scope,
                why="a key belongs to one request with one body; this request differs from the first",
                fix="use a new key for a new request",
            )
        return found.answer

    async def settle(self, scope: str, key: str, answer: str) -> None:
        """Store the answer to a request whose key was reserved."""
        place = storable_text(scope), storable_text(key)
        await self._backend.retrying(lambda store: store.ledger.settle(*place, answer))

    async def note(self, act: NewAct) -> Act:
        """Append a line to the audit. A line of the same request with the same outcome is not written twice."""
        return await self._backend.retrying(lambda store: store.ledger.note(act))

    async def list_acts(self, *, limit: int, below: int = ACT_LAST) -> list[Act]:
        """Lines of the audit with numbers below this, newest first."""
        return await self._backend.retrying(lambda store: store.ledger.list_acts(limit=limit, below=below))
