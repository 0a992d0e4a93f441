"""The life of runs: each method is one atomic transition."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from stepwell.ids import Incarnation, RunId
from stepwell.model.cancels import Cancelled
from stepwell.model.commits import Applied, Commit
from stepwell.model.runs import Claimed, Created, History, Inbox, NewRun
from stepwell.model.workers import Claimant


class RunStore(Protocol):
    """Transitions of runs."""

    async def create(self, runs: Sequence[NewRun], claimant: Claimant | None = None) -> list[Created]:
        """Start runs, in order, all in one transaction.

        For each: an active run with the key is returned instead (`is_new` false), else one that ended less than
        `dedup` ago
        (the latest; not one that was `continued`); `same_input` compares the stored input bytes. A taken `run_id` gives
        `is_new` true with nothing written if `own_id` (the call was repeated), else `is_duplicate_id`. A new run is
        `pending`
        with `wake_at` = now + delay, and takes over the signals held for its key, oldest first. If `claimant` is
        given, has a live
        lease, serves the definition and its limit allows, a new run without delay is claimed for it in the same
        transaction
        (as `claim` would: running, epoch 1, `started_at` set).
        """
        ...

    async def claim(self, claimant: Claimant) -> list[Claimed]:
        """Own up to `limit` runs with `wake_at` <= now whose definition the claimant serves, oldest `wake_at` first.

        Each gets epoch + 1, the owner, `wake_at` None, and applied-commit number 0; pending and waiting become
        running, cancelling and
        compensating stay. `started_at` is set by the first claim. Raises `LeaseLostError` unless the claimant's
        worker row has a live lease.
        """
        ...

    async def load(self, run_ids: Sequence[RunId]) -> list[History]:
        """What is recorded of each run, in one read; entries by seq, attempts by number."""
        ...

    async def inbox(self, run_id: RunId) -> Inbox:
        """Unconsumed signals by number, and the outcomes of ended (not continued) children that stored waits name."""
        ...

    async def apply(self, commits: Sequence[Commit], claimant: Claimant | None = None) -> list[Applied]:
        """Apply each commit whole or not at all; one fenced commit does not hinder the others.

        A commit is FENCED unless the run's owner and epoch equal the fence and its number is one above the last
        applied one of that epoch.
        Applying the last applied number of the same epoch again answers APPLIED and changes nothing, also after that
        commit gave
        the run up or ended it (as long as nobody claimed it since).
        While the run is `cancelling`: a commit without a move is applied and answers `cancelling` true;
        `BeginRollback("cancelled")` and
        `End(cancelled)` are applied; `Release` is applied; any other move answers CANCELLING and nothing is written.
        An applied commit raises `revision`, sets `last_seq` to its last entry's seq (entries must continue the run's
        seq without a
        gap, else `ValueError`), and resets `stalls` if it carries entries, attempts, cursors, progress with another
        state than the stored one, or a move other than Release.
        Order of effects: names, entries, attempts, cursors, then trims (so a commit may append and trim the same
        entry), consumed signals, children, waits, progress (then `ended_progress`, the only way but a cancel in which
        it is removed), move.
        Children: a taken id is left alone; if an active run of another parent holds the child's key, the child is
        created already `failed`
        (without the key) with an `AlreadyExistsError` failure record. Those new may be claimed for the claimant like
        in `create`.
        Park: waiting (or compensating as before), unowned, `wake_at` as given; but `wake_at` = now and `is_awake`
        true if a pending signal matches a
        signal wait, or a waited child has ended. Signals do not wake a compensating run unless its waits name them.
        Release: unowned, `wake_at` = now; running becomes pending. Pause: paused, unowned, failure stored, waits kept.
        BeginRollback: compensating, cause, failure and undo_floor stored, waits deleted, still owned.
        End: status, `ended_at`, output and failure stored (a None failure keeps the stored one); waits
        deleted, cursors too unless the status `KEEPS_CURSORS`; unowned. A parent that is
        parked with a child wait on this run's location is woken (`wake_at` = now). `continued`: the successor is
        created in the same transaction with the
        same key, parent, `generation` + 1, `previous`; unconsumed signals move to it; `successor` is set; the parent
        is not woken.
        `compensation_failed` is not an end: no `ended_at`, nobody is woken, the key stays taken.
        """
        ...

    async def cancel(self, run_id: RunId, *, compensate: bool, reason: str) -> Cancelled:
        """Cancel a run and its attached active descendants, root first, by `model.cancels.decide_cancel` for each.

        `CANCELLED` also sets `ended_at`, epoch + 1, no owner, deletes waits and cursors (and progress, unless somebody
        held the run) and wakes a waiting parent; `CANCELLING`
        keeps an owner, or else sets `wake_at` = now.
        The reason is kept verbatim on each. Raises `NotFoundError` for an unknown run. Writes an audit row if
        anything changed.
        """
        ...

    async def resume(self, run_id: RunId, *, by: str) -> bool:
        """A paused run becomes pending (compensating if it has a `cause`), `wake_at` = now, stalls 0, failure cleared
        unless it has a cause.
        Anything else: False. Audit row."""
        ...

    async def resume_rollback(self, run_id: RunId, *, by: str) -> bool:
        """`compensation_failed` becomes compensating, `wake_at` and `retried_at` = now. Anything else: False.

        Audit row.
        """
        ...

    async def retry(self, run_id: RunId, *, by: str) -> bool:
        """A failed run becomes pending: `ended_at`, failure, cause and undo_floor cleared, `retried_at` and `wake_at` =
        now, stalls 0, and the failed entries that the failure `concerns` are deleted, by their spelled path. A failed
        child that stood at one of them is retried likewise. Anything else, or another active run with its key: False.
        Audit row.
        """
        ...

    async def rescue(self, *, stalls_max: int) -> list[RunId]:
        """Free every owned run whose owner has no live lease by the store's clock; a missing worker row counts as dead.

        Freed: no owner, `wake_at` = now, running becomes pending, stalls + 1. At `stalls_max` stalls the run is
        paused instead, with a `PoisonError` failure
        record whose path is the latest recorded place. Workers' rows whose lease is over are removed. Returns the
        freed runs.
        """
        ...

    async def relinquish(self, incarnation: Incarnation, keep: Collection[RunId]) -> list[RunId]:
        """Free the runs owned by the incarnation but for `keep`, as rescue does, without counting a stall.

        For a worker that lost an acknowledgement: it may own runs that it never heard of.
        """
        ...
