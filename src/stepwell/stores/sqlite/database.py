"""One database: its connection, its time, and operations in transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import apsw

from stepwell.clock import Clock, Instant
from stepwell.errors import StoreLostError, StoreUnavailableError
from stepwell.ids import RunId
from stepwell.stores.base.encryption import plain_writer
from stepwell.stores.base.timeline import Anchor, Timeline
from stepwell.stores.base.transfers import Seal, SealKind, sealed
from stepwell.stores.base.wakeups import Hint
from stepwell.stores.sqlite.blobs import NewBlobs
from stepwell.stores.sqlite.connections import SYNCHRONOUS, Synchronous, open_reader, open_writer
from stepwell.stores.sqlite.faults import LOCK_SECONDS_MAX, translate, translated
from stepwell.stores.sqlite.files import MEMORY
from stepwell.stores.sqlite.guards import Guard
from stepwell.stores.sqlite.identity import OpenFiles
from stepwell.stores.sqlite.log import CHECKPOINT_PAGES, RESTART_PAGES, lengthen, restart
from stepwell.stores.sqlite.presence import FileId, enter, file_id, leave
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Left, Transaction

T = TypeVar("T")
Operation = Callable[[Transaction], T]
Query = Callable[[apsw.Connection], T]
Tell = Callable[[Hint], None]

_BEGIN, _COMMIT, _ROLLBACK = (SQL[f"transactions.{name}"] for name in ("begin", "commit", "rollback"))
_HEED, _SET_CLOCK, _MARK = SQL["meta.heed"], SQL["meta.set_clock"], SQL["meta.mark_encrypted"]

_PAUSE_SECONDS_MIN = 0.000_1
_PAUSE_SECONDS_MAX = 0.001


class Outcome(NamedTuple):
    """What an operation returned, or raised."""

    result: Any = None
    error: BaseException | None = None


class Disturbed(Exception):  # noqa: N818  control flow between the database and a runner
    """An operation raised after it had written: the transaction is no good for the others in it."""


class Transfer(Generic[T]):
    """An operation that is done even if the database is sealed."""

    __slots__ = ("_operation",)

    def __init__(self, operation: Operation[T]) -> None:
        self._operation = operation

    def __call__(self, tx: Transaction) -> T:
        return self._operation(tx)


class Valueless(Generic[T]):
    """An operation that writes no value of a run: whoever has no key may do it, too."""

    __slots__ = ("_operation",)

    def __init__(self, operation: Operation[T]) -> None:
        self._operation = operation

    def __call__(self, tx: Transaction) -> T:
        return self._operation(tx)


class SqliteDatabase:
    """A file, or `:memory:`. Not for use by two threads at once; several handles of one process may share it."""

    def __init__(self, path: str, *, synchronous: Synchronous = SYNCHRONOUS, is_shared: bool = False) -> None:
        self.path = path
        self._is_shared = is_shared
        self.is_memory = path == MEMORY
        self.commits = 0
        self.blobs = NewBlobs()
        self.handles: list[Tell] = []
        self._synchronous: Synchronous = synchronous
        self._connection: apsw.Connection | None = None
        self._times = Timeline()
        self._stored = Anchor()
        self._heeded_version = -1  # the version of the data whose clock and seal are known
        # As of the same version: others who seal the database change that, and whoever does it here sets this.
        self.seal: Seal | None = None
        self.is_encrypted = False  # in the same way: it takes encrypted values only
        self._left: dict[RunId, Left] = {}
        self._log_pages = 0
        self._checkpoint_due = CHECKPOINT_PAGES
        self._version_seen = 0
        self._guard: Guard | None = None
        self._file: FileId | None = None
        self._files: OpenFiles | None = None
        self.lost: StoreLostError | None = None  # the file is no longer there under its name

    # --- life ------------------------------------------------------------------------------

    def open(self, clock: Clock) -> None:
        """Open the file, and create or migrate the schema. Blocks while another process does that."""
        if self._connection is not None:
            return
        self._clock = clock
        with translated(self.path):
            self._connection = open_writer(self.path, self._synchronous, is_shared=self._is_shared)
            self._enter()
            # Instead of SQLite's own checkpoint within a commit: the runner decides when, and where it may block.
            self._connection.set_wal_hook(self._note_log_pages)
            self._heed(clock)
            self._version_seen = self._connection.pragma("data_version")

    def open_reader(self, *, busy_seconds: float) -> apsw.Connection:
        """A second connection, for reads; in memory there is only the one."""
        if self.is_memory:
            return self.connection
        with translated(self.path):
            return open_reader(self.path, busy_seconds=busy_seconds)

    def close(self) -> None:
        """Close the file. Who closes it last empties the log into it."""
        if self._connection is not None:
            self.prepare_close(self._connection)
            with translated(self.path):
                self._connection.close()
            if self._files is not None:
                self._files.close()
            self._connection = self._guard = self._files = self.lost = None
            if self._file is not None:
                leave(self._file)
                self._file = None

    def _enter(self) -> None:
        """Note that this process has the file open: no other copy of SQLite may write to it here."""
        self._file = None if self.is_memory else file_id(self.path)
        if self._file is not None:
            enter(self._file)
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
        """If only the log is gone, write into the file what it holds: it is still open here, and was acknowledged."""
        if self._files is not None and self._files.has_lost_only_its_log and self._connection is not None:
            try:
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            except apsw.Error:
                pass  # the error that is about to be raised says what to do

    def prepare_close(self, connection: apsw.Connection) -> None:
        """Who closes a file last deletes its log by name. Under that name there may be the log of another file now."""
        try:
            self.check_files()
        except StoreLostError:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    @property
    def is_open(self) -> bool:
        """Whether this process has the file open through here."""
        return self._connection is not None

    @property
    def connection(self) -> apsw.Connection:
        """The connection that writes."""
        if self._connection is None:
            raise StoreUnavailableError(f"{self.path} is not open", where=self.path, fix="await store.open() first")
        return self._connection

    def guard(self) -> Guard:
        """The judge of authors' statements. It is set up at its first use: who has no such steps pays nothing."""
        if self._guard is None:
            self._guard = Guard()
            self.connection.authorizer = self._guard
        return self._guard

    # --- time ------------------------------------------------------------------------------

    def now(self, clock: Clock) -> Instant:
        """The store's time, which is the clock's unless that was set back; never behind what was shown."""
        return self._times.now(clock)

    def _show_now(self, connection: apsw.Connection, clock: Clock) -> Instant:
        """The instant of a transaction. The lock is held: every earlier transaction's is known, or below the clock."""
        others_wrote = connection.data_version() != self._heeded_version
        if others_wrote:
            self._heed(clock)
            self._heeded_version = connection.data_version()
        times = self._times
        now = times.now(clock, others_wrote=others_wrote)
        if times.anchor is not self._stored and self.seal is None:
            connection.execute(_SET_CLOCK, times.anchor)
            self._stored = times.anchor
        return now

    def _heed(self, clock: Clock) -> None:
        """Know the clock and the seal that are stored; they stay as they are while nobody else writes."""
        self._stored, self.seal, self.is_encrypted = read_heed(self.connection)
        self._times.adopt(self._stored, clock)

    def lift_floor(self, floor: Instant) -> None:
        """Show no earlier instant than this from now on, and store it. Within a transaction."""
        self._times.lift(floor, self._clock)
        self._stored = self._times.anchor
        self.connection.execute(_SET_CLOCK, self._stored)

    def _admits_values(self, connection: Any, is_encrypted: bool, encrypts: bool) -> bool:
        """Whether a value may be written; the first encrypted one marks the database in its own transaction."""
        if encrypts and not is_encrypted and self.seal is None:
            connection.execute(_MARK, (1,))
            if connection is self._connection:
                self.is_encrypted = True
        return encrypts or not is_encrypted

    def show_now_to(self, connection: Any, clock: Clock, *, encrypts: bool) -> Instant:
        """The instant of a transaction that is written through another connection."""
        anchor, seal, is_encrypted = read_heed(connection)
        if seal is not None:
            raise sealed(seal)
        if not self._admits_values(connection, is_encrypted, encrypts):
            raise plain_writer()
        self._times.adopt(anchor, clock)
        now = self._times.now(clock, others_wrote=True)
        if self._times.anchor is not anchor:
            connection.execute(_SET_CLOCK, self._times.anchor)
        return now

    # --- transactions ----------------------------------------------------------------------

    def try_begin(self) -> bool:
        """Take the write lock, if nobody has it."""
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
        """Take the write lock, waiting for it as long as it is wanted and reasonable. Not for the loop's thread.

        Raises `StoreUnavailableError` if another process has it all the time.
        """
        waited, pause = 0.0, _PAUSE_SECONDS_MIN
        while not self.try_begin():
            if waited >= LOCK_SECONDS_MAX or not is_wanted():
                raise translate(apsw.BusyError(), self.path)
            # Short: others hold it for less than a millisecond, and SQLite's own waiting soon sleeps for a hundred.
            time.sleep(pause)
            waited += pause
            pause = min(pause * 1.5, _PAUSE_SECONDS_MAX)

    def perform(
        self, operations: Sequence[Operation[Any]], clock: Clock, *, encrypts: bool = False
    ) -> tuple[list[Outcome], list[Hint]]:
        """Run operations in the begun transaction. One that raises before it wrote does not touch the others.

        Raises `Disturbed` if one raised after it wrote, and our own error if the database failed. Roll back then.
        """
        try:
            connection = self.connection
            tx = Transaction(connection, self._show_now(connection, clock), self._left)
            takes_values = self.is_encrypted is encrypts or self._admits_values(connection, self.is_encrypted, encrypts)
            if not self.blobs.is_empty and self.seal is None and takes_values:
                self.blobs.write(connection, tx.now)
            outcomes: list[Outcome] = []
            for operation in operations:
                if self.seal is not None and not isinstance(operation, Transfer):
                    outcomes.append(Outcome(error=sealed(self.seal)))
                    continue
                if not takes_values and not isinstance(operation, (Transfer, Valueless)):
                    outcomes.append(Outcome(error=plain_writer()))
                    continue
                before = connection.total_changes()
                try:
                    outcomes.append(Outcome(operation(tx)))
                except apsw.Error as error:
                    if not isinstance(error, apsw.ConstraintError):
                        raise
                    raise Disturbed from ValueError(f"the database refuses this: {error}")
                except Disturbed:
                    raise
                except Exception as error:
                    if connection.total_changes() != before:
                        raise Disturbed from error
                    outcomes.append(Outcome(error=error))
            return outcomes, tx.hints()
        except apsw.Error as error:
            raise translate(error, self.path) from error

    def write_blobs(self, clock: Clock, *, encrypts: bool) -> None:
        """Begin the transaction's work with the large payloads alone, for a thread that may take its time."""
        with translated(self.path):
            self._heed(clock)
            if self.seal is None and self._admits_values(self.connection, self.is_encrypted, encrypts):
                self.blobs.write(self.connection, self._times.now(clock))

    def commit(self) -> None:
        """Make the transaction durable; what is committed survives a loss of power."""
        connection = self._connection or self.connection
        try:
            connection.execute(_COMMIT)
        except apsw.Error as error:
            raise translate(error, self.path) from error
        self.check_files()
        self.commits += 1
        # Whoever finds another version later knows that others have written.
        self._heeded_version = connection.data_version()
        if self.blobs.is_written:
            self.blobs.committed()

    def rollback(self) -> None:
        """Undo the transaction, if SQLite has not done so by itself."""
        self._heeded_version = -1
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
        """Run one operation in the begun transaction and commit, by `commit` if the caller has his own way to call
        ours; roll back if that raises.
        """
        try:
            connection = self._connection or self.connection
            tx = Transaction(connection, self._show_now(connection, clock), self._left)
            if self.seal is not None and not isinstance(operation, Transfer):
                raise sealed(self.seal)
            takes_values = self.is_encrypted is encrypts or self._admits_values(connection, self.is_encrypted, encrypts)
            if not takes_values and not isinstance(operation, (Transfer, Valueless)):
                raise plain_writer()
            if not self.blobs.is_empty and self.seal is None and takes_values:
                self.blobs.write(connection, tx.now)
            result = operation(tx)
            (commit or self.commit)()
        except Disturbed as disturbed:
            self.rollback()
            raise disturbed.__cause__ or disturbed from None
        except apsw.ConstraintError as error:
            self.rollback()
            raise ValueError(f"the database refuses this: {error}") from error
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
        """Whether the log has grown enough to be written back."""
        return self._log_pages >= self._checkpoint_due

    def checkpoint(self) -> None:
        """Write the log back into the file, as far as no reader needs it. What it cannot do is done next time."""
        # A reader may keep the log from starting over; then it grows, and is looked at again when it has grown as much.
        self._checkpoint_due = self._log_pages + CHECKPOINT_PAGES
        try:
            if self._log_pages < RESTART_PAGES:
                self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            else:
                restart(self.connection, self._log_pages)
        except apsw.Error:
            pass  # nothing is lost: the log has it all, and a lasting fault shows in the next commit

    def lengthen_log(self) -> None:
        """Let the log have its length before the commits that would make it grow."""
        try:
            lengthen(self.connection, self.path)
        except (apsw.Error, OSError):
            pass  # somebody else writes, or the disk is full: then it grows with the commits

    def has_changed(self, clock: Clock) -> bool:
        """Whether another connection has written since this was asked last."""
        self.check_files()
        version = self.connection.pragma("data_version")
        if version == self._version_seen:
            return False
        self._version_seen = version
        self._heed(clock)
        return True

    def _note_log_pages(self, _: apsw.Connection, __: str, pages: int) -> int:
        if pages < self._log_pages:
            self._checkpoint_due = CHECKPOINT_PAGES
        self._log_pages = pages
        return apsw.SQLITE_OK


def read_heed(connection: Any) -> tuple[Anchor, Seal | None, bool]:
    """The clock and the seal that are stored, and whether values are encrypted."""
    row = connection.execute(_HEED).fetchone()
    if row is None:
        return Anchor(), None, False
    floor, uptime, boot, divisor, transfer_id, kind, peer, at, is_encrypted = row
    seal = None if kind is None else Seal(transfer_id, SealKind(kind), peer, Instant(at))
    return Anchor(Instant(floor), uptime, boot, divisor), seal, bool(is_encrypted)
