"""The life of runs: each method is one atomic transition."""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Sequence
from typing import Any, Protocol

from stepwell.clock import Span
from stepwell.ids import Incarnation, RunId
from stepwell.model.amendments import Amended, Amendment, Fork
from stepwell.model.cancels import Cancelled
from stepwell.model.commits import Applied, Commit
from stepwell.model.locations import Location
from stepwell.model.outbox import Announce
from stepwell.model.runs import Claimed, Created, Debounced, History, Inbox, NewRun
from stepwell.model.workers import Claimant


class RunStore(Protocol):
    """Transitions of runs."""

    def create(self, runs: Sequence[NewRun], claimant: Claimant | None = None) -> Coroutine[Any, Any, list[Created]]:
        """Start runs, in order, all in one transaction.

        For each new run, the store looks for an existing run with its key: an active run, else the latest run that
        ended less than `dedup` ago (`continued` and replaced runs do not count). If there is one, it is returned with
        `is_new` false; `same_input` compares the stored input bytes. With `on_conflict` "raise" such a run raises
        `AlreadyExistsError`, and nothing of the call is stored. With "replace" ended runs do not count, and an active
        run loses its key to the new run: its `replaced_by` is set and it is cancelled as by `cancel` with compensation,
        in the same transaction; a `compensation_failed` run raises `AlreadyExistsError`. Runs of the same call never
        conflict: the first one is returned for the others.
        If `run_id` is taken: with `own_id` (the call was repeated) the answer is `is_new` true and nothing is written;
        otherwise it is `is_duplicate_id`, nothing of the whole call is written, and the other runs have `is_new` false.
        A new run is `pending` with `wake_at` = now + delay, but not later than its deadline. It takes over the signals
        held for its key, oldest first. If `claimant` is given, has a live lease, serves the definition and its limit
        allows, a new run without delay is claimed for it in the same transaction (as `claim` would: running, epoch 1,
        `started_at` set). It is not claimed if a run of a higher priority that the claimant serves is due, or if the
        runs of this call differ in priority.
        """
        ...

    async def debounce(self, new: NewRun, *, quiet: Span, max_wait: Span) -> Debounced:
        """Plan a run for a key. The run begins when `quiet` has passed without another call, and no later than
        `max_wait` after the first call. If a run is planned already, replace its input and definition (and its time,
        unless it is paused).

        The planned run is `pending` with `debounced_until`, and does not hold its key: other starts and signals do not
        see it. Its first claim clears `debounced_until` and takes the key. While another active run has the key, the
        claim postpones the planned run past `debounced_until`, and the end of the other run makes it due. The answer is
        `is_stale`, with nothing written, if the planned run has another id than `new` (the answer contains its id), or
        if the id of `new` belongs to a run that has begun with another input.
        """
        ...

    async def claim(self, claimant: Claimant) -> list[Claimed]:
        """Claim up to `limit` due runs (`wake_at` <= now) whose definition the claimant serves.

        For this and every other transition that claims: a claimant does not serve a workflow that `HoldStore.pause` has
        paused.

        Runs with the highest priority come first; runs of equal priority are ordered by `wake_at`, oldest first. If
        that leaves room, waiting runs that will be due within `ahead` follow in the same order. Their owner continues
        their code when they are due. No run starts ahead of its time.

        Each claimed run gets epoch + 1, the owner, `wake_at` None, and applied-commit number 0; pending and waiting
        become running; cancelling and compensating stay. The first claim sets `started_at`. Raises `LeaseLostError`
        unless the claimant's worker row has a live lease.
        """
        ...

    async def load(self, run_ids: Sequence[RunId]) -> list[History]:
        """The recorded history of each run, in one read; entries by seq, attempts by number."""
        ...

    async def inbox(self, run_id: RunId) -> Inbox:
        """Unconsumed signals by number, the outcomes of ended (not continued) children that stored waits name, and
        events not received yet, by number.
        """
        ...

    def apply(self, commits: Sequence[Commit], claimant: Claimant | None = None) -> Coroutine[Any, Any, list[Applied]]:
        """Apply each commit completely or not at all; a fenced commit does not affect the others.

        Commits of different runs are applied in any order.
        A commit is FENCED unless the run's owner and epoch equal the fence and its number is one above the last applied
        one of that epoch.
        Applying the last applied number of the same epoch again answers APPLIED and changes nothing, even if that
        commit released the run or ended it (until the run is claimed again).
        While the run is `running` and its deadline has passed: `End(completed)` and `End(continued)` answer EXPIRED and
        nothing is written.
        `End(completed, unread_above=n)` answers UNREAD and writes nothing while signals with numbers above n wait to be
        read, as `Verdict.UNREAD` says; signals that the commit consumes or refuses do not count.
        While the run has a `hold`, every commit is applied as usual and answers `held` true; but Park, Release and
        Pause leave it `paused` with `wake_at` None and is_awake false, a rollback or an end clears the hold, and the
        successor of `continued` is created `paused` with the same hold.
        While the run is `cancelling`: a commit without a move is applied and answers `cancelling` true;
        `BeginRollback("cancelled")` and `End(cancelled)` are applied; `Release` is applied; any other move answers
        CANCELLING and nothing is written.
        An applied commit raises `revision`, sets `last_seq` to its last entry's seq (entries must continue the run's
        seq without a gap, else `ValueError`), and resets `stalls` if it carries entries, attempts, cursors, progress
        with another state than the stored one, or a move other than Release.
        Order of effects: names, entries, attempts (then `ended_attempts` are removed), cursors, then trims (so a commit
        may append and trim the same entry), consumed signals, refused signals and replies (the first reply to a signal
        counts), received events, children, published, appends, waits, emitted events, records (opened, then closed),
        the description, progress (then `ended_progress`; apart from a cancel, only this removes progress), move.
        Published: replaces the value of that name unless the stored one has a later position.
        Appends: each gets the next offset of its stream, from 1. An append that `begins` a part first withdraws what
        other parts of its source wrote to the stream: if there is any, the store appends a RESET with the first
        withdrawn offset as its value, and deletes the withdrawn lines. No offset is ever used again.
        Children: an id that is taken is skipped; if an active run of another parent holds the child's key, the child is
        created already `failed` (without the key) with an `AlreadyExistsError` failure record. New children may be
        claimed for the claimant as in `create`.
        Received events leave the inbox. `ValueError` if the run has no such event there.
        Waits: a topic wait that was stored before, unchanged, keeps its state (open or not). A new one is open. If it
        is the receiver (`model.events.receiver`) of an event in the inbox, it gets that event. Otherwise, unless it is
        since "wait", it gets the oldest event that its topic keeps ("start": published not before the run was created),
        that matches the wait, and that this run has not received before. A kept "one" event then leaves the topic. A
        hint notifies the owner.
        Emitted events: one row in the outbox for each sink of each event, in their order, due now unless the run owes
        that sink an earlier one. `announce`: each run that the commit brings to an end other than `continued` (itself,
        trimmed or tied children that are cancelled at once, children that could not start) also owes
        `model.outbox.lifecycle_event`.
        Records: an opened record belongs to the run. `ValueError` for what `model.records.check_opening` or
        `check_closing` rejects. The run's open records that have an `end_state` are closed in it,
        with the event `CLOSED_WITH_RUN`: those at trimmed locations by a trim, all of them by BeginRollback and End
        (also `continued` and `compensation_failed`), and by a cancel that ends the run at once.
        Park: waiting (a compensating run stays compensating), unowned, `wake_at` as given, but not later than the
        deadline of a running run; but `wake_at` = now and `is_awake` true if a signal wait accepts a pending signal
        (`model.signals.is_accepted`), an event in the inbox has a receiver, or an awaited child has ended. Signals do
        not wake a compensating run unless its waits name them.
        Release: unowned, `wake_at` = now; running becomes pending. Pause: paused, unowned, failure stored, waits kept.
        BeginRollback: compensating, cause, failure and undo_floor stored, waits deleted, still owned.
        End: status, `ended_at`, output and failure stored (a None failure keeps the stored one); waits deleted, cursors
        too unless the status `KEEPS_CURSORS`; unowned; pending signals are dropped if it was created with `discards`
        and `ENDS_FOR_GOOD`. A parent that waits for a child at this run's location is woken (`wake_at` = now).
        `continued`: the successor is created in the same transaction with the same key (none if the run was replaced),
        parent, `generation` + 1, `previous`; unconsumed signals and events move to it; it begins with the `names` and
        `entries` of the move (with any: `revision` 1, and their `last_seq`); `successor` is set; the parent is not
        woken.
        Any other end: "one" events in the inbox return to their topics, as if they were published now, and are kept for
        the rest of their time (`RETENTION` if they had none); "all" events are dropped.
        End and BeginRollback also cancel, with compensation, the active children that are `tied`, and the tied children
        of these.
        `compensation_failed` is not an end: no `ended_at`, no parent is woken, the key stays taken.
        """
        ...

    async def cancel(
        self,
        run_id: RunId,
        *,
        compensate: bool,
        reason: str,
        by: str = "",
        announce: Announce | None = None,
        act: str = "",
    ) -> Cancelled:
        """Cancel a run and its attached or tied active descendants, root first.

        `model.cancels.decide_cancel` decides what becomes of each.
        `CANCELLED` also sets `ended_at`, epoch + 1, no owner, deletes waits and cursors (and progress, unless the run
        had an owner) and wakes a waiting parent; `CANCELLING` keeps an owner, or else sets `wake_at` = now, and sets
        stalls to 0.
        Pending signals are dropped as with `End`.
        Each run that becomes `CANCELLED` is announced, as in `apply`.
        The reason is kept verbatim on each run. Raises `NotFoundError` for an unknown run. If anything changed, an
        audit row records who did it.

        This and the other acts below accept an `act`: an id that a caller uses for one act only. If that act was done
        already, the answer is the same (here without `runs`) and nothing is done.
        """
        ...

    async def pause(self, run_id: RunId, *, by: str, reason: str, act: str = "") -> bool:
        """Pause a run for a person (`model.holds.may_be_held`): `hold` is stored.

        Pending and waiting runs become paused at once, with `wake_at` None and their waits kept. A running one keeps
        its owner, which learns of the hold from a hint (`MAIL`), from the answer to its next commit, and from `renew`;
        when the owner loses or releases the run, it becomes paused. A paused run stays paused. For any other status:
        False. Audit row. A cancel clears the hold.
        """
        ...

    async def resume(self, run_id: RunId, *, by: str, even_if_held: bool = True, act: str = "") -> bool:
        """A paused run becomes pending (compensating if it has a `cause`), `wake_at` = now (a planned run: not before
        `debounced_until`), stalls 0, `hold` cleared, failure cleared unless it has a cause. A running run with a `hold`
        loses the hold and stays running. For any other status, or for a `hold` unless `even_if_held`: False. Audit row.
        """
        ...

    async def resume_rollback(
        self, run_id: RunId, *, by: str, act: str = "", undone: Location | None = None, reason: str = ""
    ) -> bool:
        """`compensation_failed` becomes compensating, `wake_at` = now, `retried_at` as by `retry`. With `undone`, the
        step at that location counts as undone: an undo entry of it is appended, as the next of the run.

        For any other status, and for a location without a step that is to be undone: False. Audit row, with the verb
        "mark_undone" if there is a location.
        """
        ...

    async def retry(self, run_id: RunId, *, by: str, act: str = "") -> bool:
        """A failed run becomes pending: `ended_at`, failure, cause, undo_floor and a deadline that has passed are
        cleared, `wake_at` = now, stalls 0. The failed entries that the failure `concerns` are deleted, by their spelled
        path. `retried_at` = now, or the time of the run's last attempt if that is later. A failed child at one of these
        entries is retried in the same way. For any other status, or if another active run has its key: False. Audit
        row.
        """
        ...

    async def amend(self, amendment: Amendment) -> Amended:
        """Repair a run as planned. Raises `NotFoundError` for an unknown run.

        Repeating the run's last applied amendment answers APPLIED and changes nothing. STALE unless status, epoch and
        revision are the expected ones, the status is one of `AMENDABLE`, and no dropped child has continued as a run
        that is not dropped with it. KEY_TAKEN if the run has ended and another active run has its key.
        Order of effects: names are appended; entries at `forgotten`, `ended_cursors` and `ended_progress` are
        deleted; attempts and entries are added (entries continue the run's seq without a gap, and their locations must
        be free, else `ValueError`); signals are consumed (pending ones, else `ValueError`); each dropped child gets its
        new location, and if it is active and not detached its successor takes its key (`replaced_by`) and it is
        cancelled as by `cancel` with compensation; `retries` are retried as by `retry`; the waits are replaced as by
        `apply`; open records with an `end_state` are closed as by a trim at the locations of the added entries, and
        where their location now has neither an entry nor a wait.
        The run becomes pending: epoch and revision + 1, `wake_at` = now, `retried_at` as by `retry` (with a `wake_at`
        of the amendment: that one, and `retried_at` stays), stalls 0, `amendment` set; `ended_at`, failure, cause,
        hold, undo_floor and a deadline that has passed are cleared; version and input change if they are given.
        `last_seq` never goes back. A run that had ended takes over the signals held for its key. Audit row.
        """
        ...

    async def fork(self, fork: Fork) -> Created | None:
        """Create a run with the given names, entries and cursors, as `create` does without a claimant.

        None, and nothing is written, unless the source has the expected epoch and revision. The new run names its
        source; `retried_at` = now, revision is 1 and `last_seq` that of the last entry. A taken id or key answers as in
        `create`, and then nothing is written. Each of the two runs gets an audit row. Raises `NotFoundError` for an
        unknown source.
        """
        ...

    async def rescue(self, *, stalls_max: int) -> list[RunId]:
        """Free every owned run whose owner has no live lease by the store's clock; a missing worker row counts as dead.

        A freed run has no owner, `wake_at` = now and stalls + 1; running becomes pending. At `stalls_max` stalls the
        run is paused instead, with a `PoisonError` failure record whose path is the latest recorded place. A run with a
        `hold` is paused without a failure. Rows of workers whose lease has expired are removed, and what they had taken
        from the outbox is due. A run that another transaction has locked may be left for the next call. Returns the
        freed runs.
        """
        ...

    async def relinquish(self, incarnation: Incarnation, keep: Collection[RunId]) -> list[RunId]:
        """Free the runs that the incarnation owns, except `keep`, as `rescue` does, without counting a stall.

        For a worker that lost an acknowledgement: it may own runs that it does not know of.
        """
        ...
