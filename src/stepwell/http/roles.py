"""Who may do what: roles, permissions, and the one table that joins them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What a caller is. Each may do what those before it may."""

    VIEWER = "viewer"  # looks at runs, without their payloads
    OPERATOR = "operator"  # starts and steers runs, and sees payloads
    WORKER = "worker"  # a process that executes runs
    ADMIN = "admin"  # sees who did what


class Permission(StrEnum):
    """What an operation asks for. An operation has exactly one."""

    PUBLIC = "public"  # nobody is asked who they are: the two health checks, and nothing else
    SIGNED = "signed"  # the message proves by its own signature where it is from
    READ = "read"
    STEER = "steer"
    WORK = "work"
    AUDIT = "audit"


_READS: Final = frozenset({Permission.READ})
_STEERS: Final = _READS | {Permission.STEER}
_WORKS: Final = _STEERS | {Permission.WORK}

GRANTS: Final[dict[Role, frozenset[Permission]]] = {
    Role.VIEWER: _READS,
    Role.OPERATOR: _STEERS,
    Role.WORKER: _WORKS,
    Role.ADMIN: _WORKS | {Permission.AUDIT},
}

PUBLIC_PATHS: Final = frozenset({"/healthz", "/readyz"})


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. Seeing payloads is a right of its own: by default everybody's but a viewer's."""

    name: str
    role: Role
    payloads: bool | None = None

    def may(self, permission: Permission) -> bool:
        """Whether an operation that asks for this is theirs to use."""
        return permission in GRANTS[self.role]

    @property
    def sees_payloads(self) -> bool:
        """Whether inputs, results and traces are shown to them."""
        return self.role is not Role.VIEWER if self.payloads is None else self.payloads
