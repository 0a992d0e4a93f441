"""The driver's errors in our words; none of them leaves this folder as it is."""

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
from stepwell.stores.base.encryption import plain_writer
from stepwell.stores.base.faults import Fate, fate_of_sqlstate
from stepwell.stores.base.transfers import Manifest, Seal, in_use, not_empty, not_sealed, sealed
from stepwell.stores.base.workers import lease_lost

_TAKEN = msgspec.json.Decoder(tuple[str, OnConflict, str, RunStatus])
_SEAL = msgspec.json.Decoder(Seal)
_WORKERS = msgspec.json.Decoder(list[Worker])
_MANIFEST = msgspec.json.Decoder(Manifest)
_MISFIT = msgspec.json.Decoder(tuple[Literal["differs", "homeless", "damaged"], str, int])

# Two transitions met, and the database undid one of them: it is asked again, and sees what the other did.
_CONFLICTS = (pg.SerializationFailure, pg.DeadlockDetected, pg.LockNotAvailable)
# Constraints by which two that do the same at once meet, each with the table that it guards.
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
    }
)


class ConflictError(Exception):
    """Nothing was written: another transaction was in the way. Asking again is all there is to do."""


class MisfitError(Exception):
    """Nothing was written: something in a parcel cannot be unpacked, and who sent the parcel knows what it is."""

    def __init__(self, why: Literal["differs", "homeless", "damaged"], kind: str, place: int) -> None:
        super().__init__(f"{kind}[{place}]: {why}")
        self.why = why
        self.kind = kind  # a field of the parcel
        self.place = place  # there, from 0


def translate(error: psycopg.Error, where: str) -> Exception:
    """What an error of the driver means for who uses the store."""
    state = error.sqlstate or ""
    detail = error.diag.message_detail or ""
    words = error.diag.message_primary or str(error).strip().partition("\n")[0] or type(error).__name__
    match error:
        case pg.UniqueViolation() if error.diag.constraint_name in _RACES:
            return ConflictError(words)
        case pg.UniqueViolation() if error.diag.constraint_name == "entries_pkey":
            return ValueError(f"the run has an entry at one of these locations already: {detail}")
        case pg.IntegrityError() | pg.DataError():
            return ValueError(f"the database refuses this: {words}")
        case _ if isinstance(error, _CONFLICTS):
            return ConflictError(words)
        case _ if state.startswith("SW"):
            return _ours(state, words, detail)
        case _:
            return _environment(state, words, where)


def _ours(state: str, words: str, detail: str) -> Exception:
    """What our own functions refuse."""
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
            return plain_writer()
        case "SW010":
            return MisfitError(*_MISFIT.decode(detail))
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
                fix="make space on the server's disk; work goes on by itself",
            )
        case "25006":
            return read_only(where)
        case "25P03":
            return TransactionError(
                "a transaction stood still for too long, and the server ended it",
                where=where,
                why="meanwhile its run, and every row that it wrote, are kept from all others",
                fix="do what takes time in a step before, and hand its result over",
            )
        case "42501":
            return StoreNotWritableError(
                f"this role has not the rights that it needs in {where}",
                where=where,
                why=f"PostgreSQL says: {words}",
                fix="grant what docs/postgres.md lists, or connect as the role that migrated; `stepwell doctor` says "
                "what is missing",
            )
        case "42P01" | "42883" | "3F000" | "42703" | "42704":
            return SchemaMissingError(
                f"the tables or functions of stepwell are gone from {where}",
                where=where,
                why=f"PostgreSQL says: {words}",
                fix="put the database back from a backup, or migrate it: `stepwell migrate`",
            )
        case _:
            return _by_fate(state, words, where)


def _by_fate(state: str, words: str, where: str) -> StepwellError:
    """The error for a state that has no words of its own."""
    match fate_of_sqlstate(state):
        case Fate.IN_DOUBT:
            return unavailable(where, words)
        case Fate.RETRIED:
            return StoreError(
                f"{where} refuses this now: {words}",
                where=where,
                why=f"PostgreSQL's state is {state}",
                fix="look at the server's log; the request is repeated until the server accepts it",
            )
        case Fate.FINAL:
            return StoreRefusedError(
                f"{where} refuses what it was asked: {words}",
                where=where,
                why=f"PostgreSQL's state is {state}",
                fix="look at the server's log; asking again would be refused again",
            )


def in_words(error: psycopg.Error, where: str) -> StepwellError:
    """`translate` for whoever only looks or prepares: what would mean that the caller asks again is an error there."""
    found = translate(error, where)
    return (
        found
        if isinstance(found, StepwellError)
        else StoreError(
            f"{where} refuses what it was asked: {found}",
            where=where,
            why=f"PostgreSQL's state is {error.sqlstate}",
            fix="try again; if that does not help look at the server's log",
        )
    )


def read_only(where: str) -> StoreUnavailableError:
    """A standby, or a primary that is being replaced: another host of the DSN may be the one that writes."""
    return unavailable(where, "the server takes no writes now: it is a standby, or read-only")


def unavailable(where: str, words: str) -> StoreUnavailableError:
    """The server did not answer, or not with what was asked."""
    return StoreUnavailableError(
        f"{where} did not answer: {words}",
        where=where,
        why="the server is starting, stopping, out of reach, or ended the connection",
        fix="nothing, if it comes back: work goes on by itself; else look at the server and at the DSN",
    )
