"""One database: its connection, its time, and its transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import apsw

from stepwell.clock import Clock, Instant
from stepwell.errors import StoreLostError, StoreUnavailableError
from stepwell.ids import RunId
from stepwell.stores.base.encryption import plaintext_refused
from stepwell.stores.base.timeline import Anchor, Timeline
from stepwell.stores.base.transfers import Seal, SealKind, sealed
from stepwell.stores.base.wakeups import Hint
from stepwell.stores.sqlite.blobs import NewBlobs
from stepwell.stores.sqlite.connections import SYNCHRONOUS, Synchronous, open_reader, open_writer
from stepwell.stores.sqlite.faults import LOCK_SECONDS_MAX, translate, translated
from stepwell.stores.sqlite.file_registry import FileId, file_id, register, unregister
from stepwell.stores.sqlite.files import MEMORY
from stepwell.stores.sqlite.forks import check_usable, drop_connection
from stepwell.stores.sqlite.guards import Guard
from stepwell.stores.sqlite.identity import OpenFiles
from stepwell.stores.sqlite.log import CHECKPOINT_PAGES, RESTART_PAGES, lengthen, restart
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import KnownRevision, Transaction

T = TypeVar("T")
Operation = Callable[[Transaction], T]
Query = Callable[[apsw.Connection], T]
Notify = Callable[[Hint], None]

_BEGIN, _COMMIT, _ROLLBACK = (SQL[f"transactions.{name}"] for name in ("begin", "commit", "rollback"))
_READ_STATE, _SET_CLOCK, _MARK = SQL["meta.read_state"], SQL["meta.set_clock"], SQL["meta.mark_encrypted"]

_PAUSE_SECONDS_MIN = 0.000_1
_PAUSE_SECONDS_MAX = 0.001


class Outcome(NamedTuple):
    """What an operation returned or raised."""

    result: Any = None
    error: BaseException | None = None


class BatchAborted(Exception):  # noqa: N818  control flow between the database and a runner
    """An operation raised after it had written, so the other operations cannot be committed with it."""


class _Privileged(Generic[T]):
    """An operation that some database accepts although it rejects others."""

    __slots__ = ("_operation",)

    def __init__(self, operation: Operation[T]) -> None:
        self._operation = operation

    def __call__(self, tx: Transaction) -> T:
        return self._operation(tx)


class TransferOperation(_Privileged[T]):
    """An operation that is allowed in a sealed database."""

    __slots__ = ()


class Valueless(_Privileged[T]):
    """An operation that writes no value of a run, so a process without the encryption key may do it."""

    __slots__ = ()


class SqliteDatabase:
    """A file, or `:memory:`. Not for use by two threads at once; several handles of one process may share it."""

    def __init__(self, path: str, *, synchronous: Synchronous = SYNCHRONOUS, is_shared: bool = False) -> None:
        self.path = path
        self._is_shared = is_shared
        self.is_memory = path == MEMORY
        self.commits = 0
        self.blobs = NewBlobs()
        self.handles: list[Notify] = []
        self._synchronous: Synchronous = synchronous
        self._connection: apsw.Connection | None = None
        self._times = Timeline()
        self._stored = Anchor()
        self._state_version = -1  # the data version whose clock and seal are known
        # As of the same version: another process that seals the database changes the version; this process sets `seal`.
        self.seal: Seal | None = None
        self.is_encrypted = False  # as of the same version: the database accepts only encrypted values
        self._known_revisions: dict[RunId, KnownRevision] = {}
        self._log_pages = 0
        self._checkpoint_due = CHECKPOINT_PAGES
        self._version_seen = 0
        self._guard: Guard | None = None
        self._file: FileId | None = None
        self._files: OpenFiles | None = None
        self.lost: StoreLostError | None = None  # the file is no longer at its path

    # --- opening and closing ---------------------------------------------------------------

    def open(self, clock: Clock) -> None:
        """Open the file, and create or migrate the schema. Blocks while another process does that."""
        if self._connection is not None:
            return
        self._clock = clock
        check_usable(self.path)
        with translated(self.path):
            self._connection = open_writer(self.path, self._synchronous, is_shared=self._is_shared)
            self._register()
            # Replaces SQLite's own checkpoint within a commit: the runner decides when and where a checkpoint may
            # block.
            self._connection.set_wal_hook(self._note_log_pages)
            self._read_state(clock)
            self._version_seen = self._connection.pragma("data_version")

    def open_reader(self, *, busy_seconds: float) -> apsw.Connection:
        """A second connection, for reads. A database in memory has only one connection."""
        if self.is_memory:
            return self.connection
        with translated(self.path):
            return open_reader(self.path, busy_seconds=busy_seconds)

    def close(self) -> None:
        """Close the file. The process that closes it last writes the log back into it."""
        if self._connection is not None:
            self.prepare_close(self._connection)
            with translated(self.path):
                self._connection.close()
            if self._files is not None:
                self._files.close()
            self._connection = self._guard = self._files = self.lost = None
            if self._file is not None:
                unregister(self._file)
                self._file = None

    def drop(self) -> None:
        """In a forked child: close the connection that writes, which belongs to the parent."""
        drop_connection(self._connection)
        if self._files is not None:
            self._files.close()
        if self._file is not None:
            unregister(self._file)
        self._connection = self._guard = self._files = self._file = None

    def _register(self) -> None:
        """Register that this process has the file open: no other copy of SQLite may write to it in this process."""
        self._file = None if self.is_memory else file_id(self.path)
        if self._file is not None:
            register(self._file)
            self._files = OpenFiles(self.path)

    def check_files(self) -> None:
        """Raise `StoreLostError` if the file or its log has been deleted, renamed or replaced."""
        if self._files is None:
            return
        if self.lost is not None:
            raise self.lost
        try:
            self._files.check(self._clock)
        except StoreLostError as error:
            self.lost = error
            self._save_log()
            raise

    def _save_log(self) -> None:
        """If only the log is gone, write its contents into the file: this process still has it open, and the contents
        were acknowledged.
        """
        if self._files is not None and self._files.has_lost_only_its_log and self._connection is not None:
            try:
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            except apsw.Error:
                pass  # the StoreLostError that follows tells the operator what to do

    def prepare_close(self, connection: apsw.Connection) -> None:
        """Keep the log of another file. The last process that closes a file deletes its log by name, and that name may
        now belong to the log of another file.
        """
        try:
            self.check_files()
        except StoreLostError:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    @property
    def is_open(self) -> bool:
        """Whether this object has the file open."""
        return self._connection is not None

    @property
    def connection(self) -> apsw.Connection:
        """The connection that writes."""
        if self._connection is None:
            raise StoreUnavailableError(f"{self.path} is not open", where=self.path, fix="await store.open() first")
        return self._connection

    def guard(self) -> Guard:
        """The guard of authors' statements. It is created at its first use, so that it costs nothing without such
        steps.
        """
        if self._guard is None:
            self._guard = Guard()
            self.connection.authorizer = self._guard
        return self._guard

    # --- time ------------------------------------------------------------------------------

    def now(self, clock: Clock) -> Instant:
        """The store's time: the clock's time unless the clock was set back; never behind an instant that was shown."""
        return self._times.now(clock)

    def _transaction_time(self, connection: apsw.Connection, clock: Clock) -> Instant:
        """The instant of a transaction. The caller holds the write lock, so the instant of every earlier transaction is
        known or is below the clock.
        """
        others_wrote = connection.data_version() != self._state_version
        if others_wrote:
            self._read_state(clock)
            self._state_version = connection.data_version()
        times = self._times
        now = times.now(clock, others_wrote=others_wrote)
        if times.anchor is not self._stored and self.seal is None:
            connection.execute(_SET_CLOCK, times.anchor)
            self._stored = times.anchor
        return now

    def _read_state(self, clock: Clock) -> None:
        """Read the stored clock and seal. They stay valid until another connection writes."""
        self._stored, self.seal, self.is_encrypted = read_state(self.connection)
        self._times.adopt(self._stored, clock)

    def raise_floor(self, floor: Instant) -> None:
        """Show no earlier instant than this from now on, and store it. Must be called within a transaction."""
        self._times.raise_floor(floor, self._clock)
        self._stored = self._times.anchor
        self.connection.execute(_SET_CLOCK, self._stored)

    def _admits_values(self, connection: Any, is_encrypted: bool, encrypts: bool) -> bool:
        """Whether a value may be written. The first encrypted value marks the database in its own transaction."""
        if encrypts and not is_encrypted and self.seal is None:
            connection.execute(_MARK, (1,))
            if connection is self._connection:
                self.is_encrypted = True
        return encrypts or not is_encrypted

    def now_for_caller(self, connection: Any, clock: Clock, *, encrypts: bool) -> Instant:
        """The instant of a transaction on a caller's connection."""
        anchor, seal, is_encrypted = read_state(connection)
        if seal is not None:
            raise sealed(seal)
        if not self._admits_values(connection, is_encrypted, encrypts):
            raise plaintext_refused()
        self._times.adopt(anchor, clock)
        now = self._times.now(clock, others_wrote=True)
        if self._times.anchor is not anchor:
            connection.execute(_SET_CLOCK, self._times.anchor)
        return now

    # --- transactions ----------------------------------------------------------------------

    def try_begin(self) -> bool:
        """Take the write lock if it is free."""
        if self.lost is not None:
            raise self.lost
        try:
            (self._connection or self.connection).execute(_BEGIN)
        except apsw.BusyError:
            return False
        except apsw.Error as error:
            raise translate(error, self.path) from error
        return True

    def begin(self, is_wanted: Callable[[], bool] = lambda: True) -> None:
        """Take the write lock. Waits for it up to `LOCK_SECONDS_MAX` while `is_wanted`. Not for the loop's thread.

        Raises `StoreUnavailableError` if other processes hold it for all that time.
        """
        waited, pause = 0.0, _PAUSE_SECONDS_MIN
        while not self.try_begin():
            if waited >= LOCK_SECONDS_MAX or not is_wanted():
                raise translate(apsw.BusyError(), self.path)
            # Short pauses: others hold the lock for less than a millisecond. SQLite's own busy handler soon sleeps 100
            # ms.
            time.sleep(pause)
            waited += pause
            pause = min(pause * 1.5, _PAUSE_SECONDS_MAX)

    def perform(
        self, operations: Sequence[Operation[Any]], clock: Clock, *, encrypts: bool = False
    ) -> tuple[list[Outcome], list[Hint]]:
        """Run operations in the begun transaction. If one raises before it writes, the others are not affected.

        Raises `BatchAborted` if an operation raised after it wrote, and a `StepwellError` if the database failed. The
        caller then rolls back.
        """
        try:
            connection = self.connection
            tx = Transaction(connection, self._transaction_time(connection, clock), self._known_revisions)
            takes_values = self.is_encrypted is encrypts or self._admits_values(connection, self.is_encrypted, encrypts)
            if not self.blobs.is_empty and self.seal is None and takes_values:
                self.blobs.write(connection, tx.now)
            outcomes: list[Outcome] = []
            for operation in operations:
                if self.seal is not None and not isinstance(operation, TransferOperation):
                    outcomes.append(Outcome(error=sealed(self.seal)))
                    continue
                if not takes_values and not isinstance(operation, (TransferOperation, Valueless)):
                    outcomes.append(Outcome(error=plaintext_refused()))
                    continue
                before = connection.total_changes()
                try:
                    outcomes.append(Outcome(operation(tx)))
                except apsw.Error as error:
                    if not isinstance(error, apsw.ConstraintError):
                        raise
                    raise BatchAborted from ValueError(f"the database rejects this: {error}")
                except BatchAborted:
                    raise
                except Exception as error:
                    if connection.total_changes() != before:
                        raise BatchAborted from error
                    outcomes.append(Outcome(error=error))
            return outcomes, tx.hints()
        except apsw.Error as error:
            raise translate(error, self.path) from error

    def write_blobs(self, clock: Clock, *, encrypts: bool) -> None:
        """Write the large payloads first in the begun transaction, in a thread that may block."""
        with translated(self.path):
            self._read_state(clock)
            if self.seal is None and self._admits_values(self.connection, self.is_encrypted, encrypts):
                self.blobs.write(self.connection, self._times.now(clock))

    def commit(self) -> None:
        """Make the transaction durable; it survives a power failure."""
        connection = self._connection or self.connection
        try:
            connection.execute(_COMMIT)
        except apsw.Error as error:
            raise translate(error, self.path) from error
        self.check_files()
        self.commits += 1
        # If the version differs later, another connection has written.
        self._state_version = connection.data_version()
        if self.blobs.is_written:
            self.blobs.committed()

    def rollback(self) -> None:
        """Undo the transaction, unless SQLite has done that already."""
        self._state_version = -1
        self.blobs.rolled_back()
        with translated(self.path):
            if self.connection.in_transaction:
                self.connection.execute(_ROLLBACK)

    def transact(self, operation: Operation[T], clock: Clock, *, encrypts: bool = False) -> tuple[T, list[Hint]]:
        """One operation in a transaction of its own."""
        if not self.try_begin():
            self.begin()
        return self.finish(operation, clock, encrypts=encrypts)

    def finish(
        self,
        operation: Operation[T],
        clock: Clock,
        commit: Callable[[], None] | None = None,
        *,
        encrypts: bool = False,
    ) -> tuple[T, list[Hint]]:
        """Run one operation in the begun transaction and commit it; roll back if that raises. `commit` replaces
        `self.commit`.
        """
        try:
            connection = self._connection or self.connection
            tx = Transaction(connection, self._transaction_time(connection, clock), self._known_revisions)
            if self.seal is not None and not isinstance(operation, TransferOperation):
                raise sealed(self.seal)
            takes_values = self.is_encrypted is encrypts or self._admits_values(connection, self.is_encrypted, encrypts)
            if not takes_values and not isinstance(operation, (TransferOperation, Valueless)):
                raise plaintext_refused()
            if not self.blobs.is_empty and self.seal is None and takes_values:
                self.blobs.write(connection, tx.now)
            result = operation(tx)
            (commit or self.commit)()
        except BatchAborted as aborted:
            self.rollback()
            raise aborted.__cause__ or aborted from None
        except apsw.ConstraintError as error:
            self.rollback()
            raise ValueError(f"the database rejects this: {error}") from error
        except apsw.Error as error:
            self.rollback()
            raise translate(error, self.path) from error
        except BaseException:
            self.rollback()
            raise
        return result, tx.hints()

    # --- the log, and other processes ---------------------------------------------------------

    @property
    def needs_checkpoint(self) -> bool:
        """Whether the log is long enough to be written back."""
        return self._log_pages >= self._checkpoint_due

    def checkpoint(self) -> None:
        """Write the log back into the file, except for pages that readers need. The next call writes the rest."""
        # A reader can prevent the log from starting over. Then it grows, and the next attempt waits for as many pages.
        self._checkpoint_due = self._log_pages + CHECKPOINT_PAGES
        try:
            if self._log_pages < RESTART_PAGES:
                self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            else:
                restart(self.connection, self._log_pages)
        except apsw.Error:
            pass  # nothing is lost: the log has everything, and the next commit reports a lasting fault

    def lengthen_log(self) -> None:
        """Extend the log file once, before the commits that would make it grow step by step."""
        try:
            lengthen(self.connection, self.path)
        except (apsw.Error, OSError):
            pass  # another process writes, or the disk is full: the log then grows with the commits

    def has_changed(self, clock: Clock) -> bool:
        """Whether another connection has written since the last call."""
        self.check_files()
        version = self.connection.pragma("data_version")
        if version == self._version_seen:
            return False
        self._version_seen = version
        self._read_state(clock)
        return True

    def _note_log_pages(self, _: apsw.Connection, __: str, pages: int) -> int:
        if pages < self._log_pages:
            self._checkpoint_due = CHECKPOINT_PAGES
        self._log_pages = pages
        return apsw.SQLITE_OK


def read_state(connection: Any) -> tuple[Anchor, Seal | None, bool]:
    """The stored clock and seal, and whether values are encrypted."""
    row = connection.execute(_READ_STATE).fetchone()
    if row is None:
        return Anchor(), None, False
    floor, uptime, boot, divisor, transfer_id, kind, peer, at, is_encrypted = row
    seal = None if kind is None else Seal(transfer_id, SealKind(kind), peer, Instant(at))
    return Anchor(Instant(floor), uptime, boot, divisor), seal, bool(is_encrypted)
