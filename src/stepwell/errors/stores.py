"""Errors of the environment: stores, files and leases."""

from __future__ import annotations

from stepwell.errors.base import StepwellError

# --- the environment -----------------------------------------------------------------------


class StoreError(StepwellError):
    """The store or its file has a problem."""

    code = "SW600"


class StoreUnavailableError(StoreError):
    """The store did not answer, and the write may have happened. Repeat the request with the same key or id.

    That is the `key` or `run_id` of a start, the `dedup_key` of a signal, the `event_id` of an event. Without
    one, the request may happen twice.
    """

    code = "SW601"


class StoreFullError(StoreUnavailableError):
    """The disk is full. Nothing was written; work continues when there is space again."""

    code = "SW602"


class LeaseLostError(StoreError):
    """This worker's lease has expired; other workers may own its runs now."""

    code = "SW603"


class WorkerStoppedError(StoreError):
    """This worker stopped because a part of it failed again and again. Other workers take over its runs."""

    code = "SW604"


class SchemaMissingError(StoreError):
    """The database has no tables of stepwell, or older ones, or lacks the functions of this release."""

    code = "SW610"


class SchemaMismatchError(StoreError):
    """A newer stepwell created the database."""

    code = "SW611"


class ForeignFileError(StoreError):
    """The file or schema is not stepwell's, or is damaged."""

    code = "SW612"


class StoreNotWritableError(StoreError):
    """The database's file or folder cannot be written, or the role lacks rights."""

    code = "SW613"


class StoreAccessError(StoreError):
    """The server refuses the connection: wrong user, password or database, no encryption, or it is too old."""

    code = "SW614"


class StoreRefusedError(StoreError):
    """The store rejects the request, and would reject it again. Nothing was written."""

    code = "SW615"


class StoreLostError(StoreError):
    """The database's file or its log was deleted, renamed or replaced while it was open. Nothing was acknowledged."""

    code = "SW616"


class CorruptRecordError(StoreError):
    """A stored value cannot be read back."""

    code = "SW620"


class StoreSealedError(StoreError):
    """The database has been moved, or is being moved: it accepts no requests. Nothing was written."""

    code = "SW630"


class EncryptedStoreError(StoreError):
    """The database holds encrypted values, and this process would write plain ones. Nothing was written."""

    code = "SW633"


class StoreInUseError(StoreError):
    """Workers hold leases on a database that must not be in use."""

    code = "SW631"


class TransferError(StoreError):
    """Runs cannot be moved: the destination holds other data, or they could not continue there."""

    code = "SW632"
