"""The environment: stores, files and leases."""

from __future__ import annotations

from stepwell.errors.base import StepwellError

# --- the environment -----------------------------------------------------------------------


class StoreError(StepwellError):
    """The environment: the store or its file."""

    code = "SW600"


class StoreUnavailableError(StoreError):
    """The store did not answer, and the write may have happened: repeat it with the same key or id.

    That is the `key` or `run_id` of a start, the `dedup_key` of a signal, the `event_id` of an event. Without one, what
    is repeated may happen twice.
    """

    code = "SW601"


class StoreFullError(StoreUnavailableError):
    """The disk is full. Nothing was written; work goes on when there is space again."""

    code = "SW602"


class LeaseLostError(StoreError):
    """This worker's lease has run out; others may own its runs now."""

    code = "SW603"


class WorkerStoppedError(StoreError):
    """This worker ended by itself: a part of it failed again and again. Its runs are for other workers."""

    code = "SW604"


class SchemaMissingError(StoreError):
    """The database has no tables of stepwell yet, or older ones, or not the functions of this release."""

    code = "SW610"


class SchemaMismatchError(StoreError):
    """The database was made by a newer stepwell."""

    code = "SW611"


class ForeignFileError(StoreError):
    """The file or schema is not stepwell's, or is damaged."""

    code = "SW612"


class StoreNotWritableError(StoreError):
    """The database's file or folder cannot be written, or the role has not the rights that it needs."""

    code = "SW613"


class StoreAccessError(StoreError):
    """The server does not let us in: no such user, password or database, no encryption, or it is too old."""

    code = "SW614"


class StoreRefusedError(StoreError):
    """The store refuses what it was asked, and would refuse it again. Nothing was written."""

    code = "SW615"


class StoreLostError(StoreError):
    """The database's file or its log was deleted, renamed or replaced while it was open. Nothing was acknowledged."""

    code = "SW616"


class CorruptRecordError(StoreError):
    """A stored value cannot be read back."""

    code = "SW620"


class StoreSealedError(StoreError):
    """The database has been moved, or is being moved: it takes nothing and gives nothing out. Nothing was written."""

    code = "SW630"


class EncryptedStoreError(StoreError):
    """The database holds encrypted values, and this process would write values that are not. Nothing was written."""

    code = "SW633"


class StoreInUseError(StoreError):
    """Workers hold leases on a database that must be at rest."""

    code = "SW631"


class TransferError(StoreError):
    """Runs cannot be moved: the destination has something else, or they could not go on there."""

    code = "SW632"
