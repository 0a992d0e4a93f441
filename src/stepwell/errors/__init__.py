"""Every exception of stepwell.

    StepwellError                       has: code, title, where, why, fix
    ├── DefinitionError                 the author changes code and redeploys
    │   ├── DuplicateNameError          SW101
    │   ├── InvalidNameError            SW102
    │   ├── InvalidOptionError          SW103
    │   ├── OutsideStepError            SW131
    │   ├── TransactionError            SW132
    │   ├── TransactionsUnsupportedError SW133
    │   ├── BlockedLoopError            SW140
    │   ├── StreamClosedError           SW171
    │   ├── UnserialisableError         SW301
    │   └── UnsupportedTypeError        SW303
    ├── ReplayError                     code breaks a rule or does not fit the history; the run is paused
    │   ├── DuplicateLocationError      SW104
    │   ├── NonDeterministicError       SW121
    │   ├── UnawaitedOperationError     SW122
    │   ├── StuckError                  SW123
    │   ├── ReplyOwedError              SW124
    │   ├── ReplyTwiceError             SW125
    │   ├── HistoryFullError            SW126
    │   ├── LostChangeError             SW127
    │   ├── HistoryDivergedError        SW201
    │   └── PoisonError                 SW202
    ├── RunError                        how a run or a part of it ended; an author may catch it
    │   ├── StepFailed                  SW451
    │   ├── JoinError                   SW452
    │   ├── RaceError                   SW453
    │   ├── ChildFailed                 SW454
    │   ├── WaitTimeout                 SW455
    │   ├── RunFailed                   SW456
    │   ├── RunCancelled                SW457
    │   ├── RunPaused                   SW458
    │   ├── RecordedError               SW460
    │   ├── OutcomeUnknown              SW461
    │   ├── AskRefused                  SW462
    │   ├── Unanswered                  SW463
    │   ├── DeadlineExceeded            SW471
    │   ├── WaitedTooLong               SW472
    │   ├── RollbackIncomplete          SW701
    │   ├── CheckpointMissingError      SW702
    │   └── ResultTimeout               SW459
    ├── RequestError                    the request is invalid; nothing was stored
    │   ├── InvalidInputError           SW310
    │   ├── PayloadTooLargeError        SW302
    │   ├── NotFoundError               SW401
    │   │   ├── UnknownWorkflowError    SW402
    │   │   └── RunEndedError           SW403
    │   ├── InvalidMoveError            SW404
    │   │   └── RunHeldError            SW409
    │   ├── AlreadyExistsError          SW405
    │   ├── InvalidKeyError             SW406
    │   ├── FilterError                 SW407
    │   ├── KeyReusedError              SW408
    │   ├── RepairConflictError         SW410
    │   ├── WrongLoopError              SW411
    │   ├── TopicFullError              SW421
    │   ├── UnknownTopicError           SW422
    │   ├── MailboxFullError            SW423
    │   ├── SignatureError              SW431
    │   ├── HistoryFileError            SW441
    │   ├── NotAuthenticatedError       SW800
    │   ├── NotAllowedError             SW801
    │   ├── UntrustedOriginError        SW802
    │   └── TooManyRequestsError        SW803
    ├── SinkError                       SW850  an event could not be delivered; it is retried
    └── StoreError                      the environment
        ├── StoreUnavailableError       SW601
        │   └── StoreFullError          SW602
        ├── LeaseLostError              SW603
        ├── WorkerStoppedError          SW604
        ├── SchemaMissingError          SW610
        ├── SchemaMismatchError         SW611
        ├── ForeignFileError            SW612
        ├── StoreNotWritableError       SW613
        ├── StoreAccessError            SW614
        ├── StoreRefusedError           SW615
        ├── StoreLostError              SW616
        ├── CorruptRecordError          SW620
        ├── StoreSealedError            SW630
        ├── StoreInUseError             SW631
        ├── TransferError               SW632
        └── EncryptedStoreError         SW633

Raised *by* authors, never stored as such: `Fatal`, `Failure`, `Rollback`, `RetryAfter`.
"""

from __future__ import annotations

from stepwell.errors.access import (
    KeyReusedError,
    NotAllowedError,
    NotAuthenticatedError,
    TooManyRequestsError,
    UntrustedOriginError,
)
from stepwell.errors.authoring import (
    BlockedLoopError,
    DefinitionError,
    DuplicateLocationError,
    DuplicateNameError,
    Failure,
    Fatal,
    HistoryDivergedError,
    HistoryFullError,
    InvalidNameError,
    InvalidOptionError,
    LostChangeError,
    NonDeterministicError,
    OutsideStepError,
    PoisonError,
    ReplayError,
    ReplyOwedError,
    ReplyTwiceError,
    RetryAfter,
    Rollback,
    StreamClosedError,
    StuckError,
    TransactionError,
    TransactionsUnsupportedError,
    UnawaitedOperationError,
    UnserialisableError,
    UnsupportedTypeError,
)
from stepwell.errors.base import (
    StepwellError,
)
from stepwell.errors.requests import (
    AlreadyExistsError,
    FilterError,
    HistoryFileError,
    InvalidInputError,
    InvalidKeyError,
    InvalidMoveError,
    MailboxFullError,
    NotFoundError,
    PayloadTooLargeError,
    RepairConflictError,
    RequestError,
    RunEndedError,
    RunHeldError,
    SignatureError,
    SinkError,
    TopicFullError,
    UnknownTopicError,
    UnknownWorkflowError,
    WrongLoopError,
)
from stepwell.errors.runs import (
    AskRefused,
    CheckpointMissingError,
    ChildFailed,
    DeadlineExceeded,
    JoinError,
    OutcomeUnknown,
    RaceError,
    RecordedError,
    ResultTimeout,
    RollbackIncomplete,
    RunCancelled,
    RunError,
    RunFailed,
    RunPaused,
    StepFailed,
    Unanswered,
    WaitedTooLong,
    WaitTimeout,
)
from stepwell.errors.stores import (
    CorruptRecordError,
    EncryptedStoreError,
    ForeignFileError,
    LeaseLostError,
    SchemaMismatchError,
    SchemaMissingError,
    StoreAccessError,
    StoreError,
    StoreFullError,
    StoreInUseError,
    StoreLostError,
    StoreNotWritableError,
    StoreRefusedError,
    StoreSealedError,
    StoreUnavailableError,
    TransferError,
    WorkerStoppedError,
)

__all__ = [
    "AlreadyExistsError",
    "AskRefused",
    "BlockedLoopError",
    "CheckpointMissingError",
    "ChildFailed",
    "CorruptRecordError",
    "DeadlineExceeded",
    "DefinitionError",
    "DuplicateLocationError",
    "DuplicateNameError",
    "EncryptedStoreError",
    "Failure",
    "Fatal",
    "FilterError",
    "ForeignFileError",
    "HistoryDivergedError",
    "HistoryFileError",
    "HistoryFullError",
    "InvalidInputError",
    "InvalidKeyError",
    "InvalidMoveError",
    "InvalidNameError",
    "InvalidOptionError",
    "JoinError",
    "KeyReusedError",
    "LeaseLostError",
    "LostChangeError",
    "MailboxFullError",
    "NonDeterministicError",
    "NotAllowedError",
    "NotAuthenticatedError",
    "NotFoundError",
    "OutcomeUnknown",
    "OutsideStepError",
    "PayloadTooLargeError",
    "PoisonError",
    "RaceError",
    "RecordedError",
    "RepairConflictError",
    "ReplayError",
    "ReplyOwedError",
    "ReplyTwiceError",
    "RequestError",
    "ResultTimeout",
    "RetryAfter",
    "Rollback",
    "RollbackIncomplete",
    "RunCancelled",
    "RunEndedError",
    "RunError",
    "RunFailed",
    "RunHeldError",
    "RunPaused",
    "SchemaMismatchError",
    "SchemaMissingError",
    "SignatureError",
    "SinkError",
    "StepFailed",
    "StepwellError",
    "StoreAccessError",
    "StoreError",
    "StoreFullError",
    "StoreInUseError",
    "StoreLostError",
    "StoreNotWritableError",
    "StoreRefusedError",
    "StoreSealedError",
    "StoreUnavailableError",
    "StreamClosedError",
    "StuckError",
    "TooManyRequestsError",
    "TopicFullError",
    "TransactionError",
    "TransactionsUnsupportedError",
    "TransferError",
    "Unanswered",
    "UnawaitedOperationError",
    "UnknownTopicError",
    "UnknownWorkflowError",
    "UnserialisableError",
    "UnsupportedTypeError",
    "UntrustedOriginError",
    "WaitTimeout",
    "WaitedTooLong",
    "WorkerStoppedError",
    "WrongLoopError",
]
