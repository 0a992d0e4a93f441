"""Idempotency keys: a repeated request gets the answer of the first."""

from __future__ import annotations

import hashlib

from stepwell.clock import SECOND, Instant
from stepwell.http.operations import Call
from stepwell.model.ledger import Reservation


async def reserve(call: Call, scope: str, key: str, answer: str) -> str:
    """What is stored under an idempotency key; see `Ledger.reserve`."""
    services = call.services
    fingerprint = hashlib.sha256(call.raw).hexdigest()
    until = Instant(services.engine.now() + int(services.limits.window_seconds * SECOND))
    return await services.ledger.reserve(Reservation(scope, key, fingerprint, answer, until))
