"""The whole suite in one class."""

from __future__ import annotations

from stepwell.conformance.cancels import CancelSuite, FamilySuite
from stepwell.conformance.children import ChildSuite, TrimmedChildSuite
from stepwell.conformance.commits import CommitSuite
from stepwell.conformance.concurrency import ConcurrencySuite
from stepwell.conformance.effects import EffectSuite
from stepwell.conformance.hints import HintSuite
from stepwell.conformance.moves import EndSuite, MoveSuite
from stepwell.conformance.operators import ResumeSuite, RetrySuite
from stepwell.conformance.progress import ProgressSuite
from stepwell.conformance.runs import ClaimSuite, RunSuite
from stepwell.conformance.signals import HoldSuite, SignalSuite
from stepwell.conformance.states import StateSuite
from stepwell.conformance.times import TimeSuite
from stepwell.conformance.transactions import TransactionSuite
from stepwell.conformance.views import FindSuite, ListSuite, OutlookSuite
from stepwell.conformance.wakes import WakeSuite
from stepwell.conformance.workers import LeaseSuite, RescueSuite


class StoreSuite(
    RunSuite,
    ClaimSuite,
    CommitSuite,
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
    ResumeSuite,
    RetrySuite,
    LeaseSuite,
    RescueSuite,
    FindSuite,
    ListSuite,
    OutlookSuite,
    TimeSuite,
    HintSuite,
    TransactionSuite,
    ConcurrencySuite,
):
    """Everything the contract says. Each part can also be run by itself."""
