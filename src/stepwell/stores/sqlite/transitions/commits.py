"""Applying commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stepwell.ids import RunId
from stepwell.model.commits import Applied, Commit, Verdict
from stepwell.model.states import RunStatus
from stepwell.model.workers import Claimant
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Transaction
from stepwell.stores.sqlite.transitions.claims import Quota

_FIND = SQL["runs.find_for_commit"]
_ADVANCE = SQL["runs.advance"]
_TOUCH = SQL["runs.touch"]
_APPEND = SQL["entries.append"]
_NAME = SQL["names.append"]
_FENCED = Applied(Verdict.FENCED)
_CANCELLING = RunStatus.CANCELLING.value


class Target(NamedTuple):
    """The run that a commit is for, as it stands before."""

    id: int
    run_id: RunId
    status: RunStatus
    revision: int
    last_seq: int
    number: int


def apply(tx: Transaction, commits: Sequence[Commit], claimant: Claimant | None) -> list[Applied]:
    """Apply each commit under its own fence."""
    quota = Quota(tx, claimant)
    return [_apply_one(tx, commit, quota, claimant) for commit in commits]
