"""Roles, permissions, and the table that grants them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """The role of a caller. Each includes the rights of the roles before it."""

    VIEWER = "viewer"  # reads runs, without their payloads
    OPERATOR = "operator"  # starts and controls runs, and sees payloads
    WORKER = "worker"  # a process that executes runs
    ADMIN = "admin"  # reads the audit


class Permission(StrEnum):
    """What an operation requires. An operation has exactly one."""

    PUBLIC = "public"  # no authentication: only the two health checks
    SIGNED = "signed"  # the signature of the message authenticates its sender
    SIGN_IN = "sign in"  # the token in the body authenticates its sender
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
    """A caller. The right to see payloads is separate: by default every role but a viewer has it."""

    name: str
    role: Role
    payloads: bool | None = None

    def may(self, permission: Permission) -> bool:
        """Whether the caller may use an operation with this permission."""
        return permission in GRANTS[self.role]

    @property
    def sees_payloads(self) -> bool:
        """Whether the caller may see inputs, results and traces."""
        return self.role is not Role.VIEWER if self.payloads is None else self.payloads
