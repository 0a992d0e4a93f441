"""The whole suite in one class."""

from __future__ import annotations

from stepwell.conformance.acts import ActSuite
from stepwell.conformance.amendments import AmendedChildSuite, AmendmentSuite, ForkSuite
from stepwell.conformance.attributes import AttributeFilterSuite, AttributeSuite
from stepwell.conformance.batches import BatchSuite
from stepwell.conformance.blobs import BlobSuite
from stepwell.conformance.cancels import CancelSuite, FamilySuite
from stepwell.conformance.children import ChildSuite, TrimmedChildSuite
from stepwell.conformance.commits import CommitSuite
from stepwell.conformance.concurrency import ConcurrencySuite
from stepwell.conformance.effects import EffectSuite
from stepwell.conformance.encryption import EncryptionSuite
from stepwell.conformance.events import EventSuite, KeptEventSuite, UnreadEventSuite
from stepwell.conformance.filters import FilterSuite
from stepwell.conformance.hints import HintSuite
from stepwell.conformance.ledger import LedgerSuite
from stepwell.conformance.letters import LetterSuite
from stepwell.conformance.live import LiveSuite
from stepwell.conformance.moves import EndSuite, MoveSuite
from stepwell.conformance.operators import ResumeSuite, RetrySuite
from stepwell.conformance.outbox import DeadLetterSuite, EmitSuite, LifecycleSuite, SettleSuite, TakeSuite
from stepwell.conformance.overviews import OverviewSuite, PassageSuite
from stepwell.conformance.pauses import PauseSuite, WorkflowPauseSuite
from stepwell.conformance.plain_commits import PlainCommitSuite
from stepwell.conformance.progress import ProgressSuite
from stepwell.conformance.record_ends import RunRecordSuite
from stepwell.conformance.record_listings import RecordListSuite
from stepwell.conformance.records import DueRecordSuite, RecordSuite
from stepwell.conformance.replies import AnswerSuite, RedeliverySuite, SignalOrStartSuite
from stepwell.conformance.retention import RetentionSuite, SweepSuite
from stepwell.conformance.runs import ClaimSuite, RunSuite
from stepwell.conformance.seals import SealSuite
from stepwell.conformance.signals import HoldSuite, SignalSuite
from stepwell.conformance.starts import ConflictSuite, DeadlineSuite, DebounceSuite, PrioritySuite, TiedSuite
from stepwell.conformance.states import StateSuite
from stepwell.conformance.times import TimeSuite
from stepwell.conformance.transactions import TransactionSuite
from stepwell.conformance.transfers import RestoreSuite, TransferSuite
from stepwell.conformance.views import FindSuite, ListSuite, UpcomingWorkSuite
from stepwell.conformance.wakes import WakeSuite
from stepwell.conformance.workers import LeaseSuite, RescueSuite


class StoreSuite(
    ActSuite,
    RunSuite,
    ClaimSuite,
    CommitSuite,
    PlainCommitSuite,
    BatchSuite,
    EffectSuite,
    ProgressSuite,
    MoveSuite,
    EndSuite,
    StateSuite,
    CancelSuite,
    FamilySuite,
    ChildSuite,
    TrimmedChildSuite,
    SignalSuite,
    WakeSuite,
    HoldSuite,
    AnswerSuite,
    RedeliverySuite,
    SignalOrStartSuite,
    EventSuite,
    KeptEventSuite,
    UnreadEventSuite,
    EmitSuite,
    TakeSuite,
    SettleSuite,
    DeadLetterSuite,
    LifecycleSuite,
    ResumeSuite,
    RetrySuite,
    PauseSuite,
    WorkflowPauseSuite,
    LedgerSuite,
    RecordSuite,
    RunRecordSuite,
    DueRecordSuite,
    RecordListSuite,
    EncryptionSuite,
    AmendmentSuite,
    AmendedChildSuite,
    ForkSuite,
    LeaseSuite,
    RescueSuite,
    FindSuite,
    ListSuite,
    FilterSuite,
    AttributeSuite,
    AttributeFilterSuite,
    UpcomingWorkSuite,
    OverviewSuite,
    PassageSuite,
    TimeSuite,
    HintSuite,
    LiveSuite,
    TransactionSuite,
    ConcurrencySuite,
    PrioritySuite,
    DeadlineSuite,
    ConflictSuite,
    DebounceSuite,
    TiedSuite,
    BlobSuite,
    LetterSuite,
    RetentionSuite,
    SweepSuite,
    SealSuite,
    TransferSuite,
    RestoreSuite,
):
    """The whole contract. Each part can also be run separately."""
