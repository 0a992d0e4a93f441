"""Whether a request that met an error is repeated: one table for the worker, its commits and the engine's calls.

An error about the store itself is never final for a run: the same request is sent again later. An error about the
request is final: the store would reject it again.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from stepwell.errors import (
    CorruptRecordError,
    EncryptedStoreError,
    LeaseLostError,
    StoreError,
    StoreFullError,
    StoreInUseError,
    StoreLostError,
    StoreRefusedError,
    StoreSealedError,
    StoreUnavailableError,
    TransferError,
    WorkerStoppedError,
)


class FaultClass(Enum):
    """What happens to a request that met an error."""

    FINAL = "final"  # nothing was written; the store would reject a repetition too
    RETRIED = "retried"  # nothing was written; the store may accept it later
    IN_DOUBT = "in doubt"  # it may have been written: repeat the request and reconcile claims


FINAL, RETRIED, IN_DOUBT = FaultClass.FINAL, FaultClass.RETRIED, FaultClass.IN_DOUBT

# The first class that matches counts. Any other error is final.
_ERRORS: Final[tuple[tuple[type[Exception], FaultClass], ...]] = (
    (StoreFullError, RETRIED),
    (StoreUnavailableError, IN_DOUBT),
    (CorruptRecordError, FINAL),
    (LeaseLostError, FINAL),
    (StoreInUseError, FINAL),
    (StoreLostError, FINAL),
    (StoreRefusedError, FINAL),
    (StoreSealedError, FINAL),
    (EncryptedStoreError, FINAL),
    (TransferError, FINAL),
    (WorkerStoppedError, FINAL),
    # No tables, no rights, no access, another schema, a damaged file: an operator can correct these while we wait.
    (StoreError, RETRIED),
)

# SQLSTATEs of PostgreSQL: the full state has precedence over its class (the first two characters).
SQLSTATES: Final[dict[str, FaultClass]] = {
    "": IN_DOUBT,  # an error of the driver: the connection is lost, or the server did not answer in time
    "08": IN_DOUBT,  # connections
    "0A": RETRIED,  # a prepared statement whose tables have changed
    "25": RETRIED,  # the state of a transaction
    "25006": IN_DOUBT,  # read-only: the server became a standby
    "25P03": FINAL,  # a transaction was idle for too long
    "26": RETRIED,  # a prepared statement that is gone
    "28": RETRIED,  # passwords and roles
    "3D": RETRIED,  # no such database
    "3F": RETRIED,  # no such schema
    "40": RETRIED,  # two transactions conflicted
    "40003": IN_DOUBT,  # unknown whether the statement completed
    "42501": RETRIED,  # no rights
    "42703": RETRIED,  # no such column
    "42704": RETRIED,  # no such type
    "42883": RETRIED,  # no such function
    "42P01": RETRIED,  # no such table
    "42P05": RETRIED,  # a prepared statement of this name is there already
    "53": IN_DOUBT,  # memory, connections
    "53100": RETRIED,  # the disk is full
    "55": RETRIED,  # an object is in use
    "57": IN_DOUBT,  # operator intervention
    "58": IN_DOUBT,  # the system below
    "F0": RETRIED,  # the server's configuration
    "XX": RETRIED,  # the server's own errors
}

# Primary result codes of SQLite. Any other code is in doubt.
SQLITE_CODES: Final[dict[str, FaultClass]] = {
    "SQLITE_AUTH": RETRIED,
    "SQLITE_CANTOPEN": RETRIED,
    "SQLITE_CONSTRAINT": FINAL,
    "SQLITE_CORRUPT": RETRIED,
    "SQLITE_FULL": RETRIED,
    "SQLITE_MISMATCH": FINAL,
    "SQLITE_NOTADB": RETRIED,
    "SQLITE_PERM": RETRIED,
    "SQLITE_RANGE": FINAL,
    "SQLITE_READONLY": RETRIED,
    "SQLITE_TOOBIG": FINAL,
}


def classify(error: BaseException) -> FaultClass:
    """Classify the error that a request met."""
    for kind, fault_class in _ERRORS:
        if isinstance(error, kind):
            return fault_class
    return FINAL


def is_final(error: BaseException) -> bool:
    """Whether repeating the request is pointless."""
    return classify(error) is FINAL


def classify_sqlstate(state: str) -> FaultClass:
    """Classify a SQLSTATE."""
    return SQLSTATES.get(state) or SQLSTATES.get(state[:2], FINAL)


def classify_sqlite(code: str) -> FaultClass:
    """Classify a primary result code (`SQLITE_BUSY`)."""
    return SQLITE_CODES.get(code, IN_DOUBT)
