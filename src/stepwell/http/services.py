"""What the operations use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stepwell.clock import Clock
from stepwell.engine.ledger import Ledger
from stepwell.http.limits import Limits
from stepwell.wiring import Engine

if TYPE_CHECKING:
    from stepwell.http.hooks import Hook
    from stepwell.http.sessions import Sessions


@dataclass(slots=True)
class Services:
    """One engine, and the state of the HTTP API."""

    engine: Engine
    clock: Clock
    limits: Limits
    hooks: Mapping[str, Hook]
    sessions: Sessions | None = None  # if callers sign in with tokens
    document: dict[str, Any] = field(default_factory=dict)  # the OpenAPI description
    followers: int = 0
    unsigned_bytes: int = 0  # of messages whose signatures are not checked yet
    requests: dict[tuple[str, int], int] = field(default_factory=dict)  # answered, by operation and status

    @property
    def ledger(self) -> Ledger:
        """Idempotency keys and the audit, in the engine's store."""
        return self.engine.ledger
