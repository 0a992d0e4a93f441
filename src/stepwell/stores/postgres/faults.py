"""Translates the driver's errors; none of them leaves this package untranslated."""

from __future__ import annotations

from typing import Literal

import msgspec
import psycopg
from psycopg import errors as pg

from stepwell.errors import (
    InvalidMoveError,
    NotFoundError,
    SchemaMissingError,
    StepwellError,
    StoreError,
    StoreFullError,
    StoreNotWritableError,
    StoreRefusedError,
    StoreUnavailableError,
    TransactionError,
)
from stepwell.ids import RunId
from stepwell.model.runs import NewRun, OnConflict
from stepwell.model.starts import check_replaceable
from stepwell.model.states import RunStatus
from stepwell.model.workers import Worker
from stepwell.stores.base.encryption import plaintext_refused
from stepwell.stores.base.faults import FaultClass, classify_sqlstate
from stepwell.stores.base.transfers import Manifest, Seal, in_use, not_empty, not_sealed, sealed
from stepwell.stores.base.workers import lease_lost

_TAKEN = msgspec.json.Decoder(tuple[str, OnConflict, str, RunStatus])
_SEAL = msgspec.json.Decoder(Seal)
_WORKERS = msgspec.json.Decoder(list[Worker])
_MANIFEST = msgspec.json.Decoder(Manifest)
_REFUSED_ITEM = msgspec.json.Decoder(tuple[Literal["differs", "unattached", "damaged"], str, int])

# Two transitions conflicted and the database rolled back one of them. It is repeated, and then sees what the other did.
_CONFLICTS = (pg.SerializationFailure, pg.DeadlockDetected, pg.LockNotAvailable)
# The constraints that two concurrent transitions can violate by doing the same; each belongs to a table.
_RACES = frozenset(
    {
        "runs_run_id_key",
        "runs_active_key",
        "runs_debounced",
        "signals_signal_id_key",
        "signals_dedup",
        "events_event_id_key",
        "definitions_workflow_version_priority_key",
        "workers_incarnation_key",
        "receipts_run_event_key",
        "requests_pkey",
        "acts_pkey",
        "acts_request_id_outcome_key",
        "records_kind_record_id_key",
    }
)


class ConflictError(Exception):
    """Nothing was written: another transaction conflicted. The caller repeats the call."""


class ItemRefusedError(Exception):
    """Nothing was written: an item of a batch cannot be unpacked. The caller knows the item by its place."""

    def __init__(self, why: Literal["differs", "unattached", "damaged"], kind: str, place: int) -> None:
        super().__init__(f"{kind}[{place}]: {why}")
        self.why = why
        self.kind = kind  # a field of the batch
        self.place = place  # in that field, from 0


def translate(error: psycopg.Error, where: str) -> Exception:
    """The error that a user of the store gets for an error of the driver."""
    state = error.sqlstate or ""
    detail = error.diag.message_detail or ""
    words = error.diag.message_primary or str(error).strip().partition("\n")[0] or type(error).__name__
    match error:
        case pg.UniqueViolation() if error.diag.constraint_name in _RACES:
            return ConflictError(words)
        case pg.UniqueViolation() if error.diag.constraint_name == "entries_pkey":
            return ValueError(f"the run has an entry at one of these locations already: {detail}")
        case pg.IntegrityError() | pg.DataError():
            return ValueError(f"the database rejects this: {words}")
        case _ if isinstance(error, _CONFLICTS):
            return ConflictError(words)
        case _ if state.startswith("SW"):
            return _ours(state, words, detail)
        case _:
            return _environment(state, words, where)


def _ours(state: str, words: str, detail: str) -> Exception:
    """The errors that our own functions raise."""
    match state:
        case "SW001":
            return lease_lost(detail)
        case "SW003":
            key, on_conflict, holder, status = _TAKEN.decode(detail)
            try:
                check_replaceable(_starting(key, on_conflict), RunId(holder), status)
            except StepwellError as refused:
                return refused
            return StoreError(words)
        case "SW004":
            return InvalidMoveError(words)
        case "SW005":
            return NotFoundError("run", detail)
        case "SW006":
            return sealed(_SEAL.decode(detail))
        case "SW007":
            return in_use(_WORKERS.decode(detail))
        case "SW008":
            return not_empty(_MANIFEST.decode(detail))
        case "SW009":
            return not_sealed(detail)
        case "SW011":
            return plaintext_refused()
        case "SW010":
            return ItemRefusedError(*_REFUSED_ITEM.decode(detail))
        case _:
            return ValueError(words)


def _starting(key: str, on_conflict: OnConflict) -> NewRun:
    return NewRun(RunId(""), "", 0, b"", key, on_conflict=on_conflict)


def _environment(state: str, words: str, where: str) -> StepwellError:
    match state:
        case "53100":
            return StoreFullError(
                f"there is no space left for {where}",
                where=where,
                why=f"PostgreSQL says: {words}",
                fix="free some space on the server's disk; work continues by itself",
            )
        case "25006":
            return read_only(where)
        case "25P03":
            return TransactionError(
                "a transaction was idle for too long, and the server ended it",
                where=where,
                why="while it is open, its run and every row that it wrote are locked for others",
                fix="do slow work in an earlier step, and pass its result on",
            )
        case "42501":
            return StoreNotWritableError(
                f"this role lacks rights that it needs in {where}",
                where=where,
                why=f"PostgreSQL says: {words}",
                fix="grant what docs/postgres.md lists, or connect as the role that migrated; `stepwell doctor` "
                "reports what is missing",
            )
        case "42P01" | "42883" | "3F000" | "42703" | "42704":
            return SchemaMissingError(
                f"the tables or functions of stepwell are gone from {where}",
                where=where,
                why=f"PostgreSQL says: {words}",
                fix="restore the database from a backup, or migrate it: `stepwell migrate`",
            )
        case _:
            return _by_class(state, words, where)


def _by_class(state: str, words: str, where: str) -> StepwellError:
    """The error for a state without an error of its own."""
    match classify_sqlstate(state):
        case FaultClass.IN_DOUBT:
            return unavailable(where, words)
        case FaultClass.RETRIED:
            return StoreError(
                f"{where} rejects this now: {words}",
                where=where,
                why=f"PostgreSQL's state is {state}",
                fix="check the server's log; the request is repeated until the server accepts it",
            )
        case FaultClass.FINAL:
            return StoreRefusedError(
                f"{where} rejects the request: {words}",
                where=where,
                why=f"PostgreSQL's state is {state}",
                fix="check the server's log; repeating the request would not help",
            )


def to_store_error(error: psycopg.Error, where: str) -> StepwellError:
    """`translate` for callers that do not repeat: a conflict is an error for them."""
    found = translate(error, where)
    return (
        found
        if isinstance(found, StepwellError)
        else StoreError(
            f"{where} rejects the request: {found}",
            where=where,
            why=f"PostgreSQL's state is {error.sqlstate}",
            fix="try again; if that does not help, check the server's log",
        )
    )


def read_only(where: str) -> StoreUnavailableError:
    """A standby, or a primary that is being replaced. Another host of the URL may accept writes."""
    return unavailable(where, "the server accepts no writes now: it is a standby, or read-only")


def unavailable(where: str, words: str) -> StoreUnavailableError:
    """The server did not answer, or the answer was lost."""
    return StoreUnavailableError(
        f"{where} did not answer: {words}",
        where=where,
        why="the server is starting, stopping, out of reach, or ended the connection",
        fix="nothing if it comes back: work continues by itself; otherwise check the server and the URL",
    )
