"""The life of runs: each method is one atomic transition."""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Sequence
from typing import Any, Protocol

from stepwell.clock import Span
from stepwell.ids import Incarnation, RunId
from stepwell.model.amendments import Amended, Amendment, Fork
from stepwell.model.cancels import Cancelled
from stepwell.model.commits import Applied, Commit
from stepwell.model.outbox import Announce
from stepwell.model.runs import Claimed, Created, Debounced, History, Inbox, NewRun
from stepwell.model.workers import Claimant


class RunStore(Protocol):
    """Transitions of runs."""

    def create(self, runs: Sequence[NewRun], claimant: Claimant | None = None) -> Coroutine[Any, Any, list[Created]]:
        """Start runs, in order, all in one transaction.

        For each: an active run with the key is returned instead (`is_new` false), else one that ended less than
        `dedup` ago (the latest; not one that was `continued` or replaced); `same_input` compares the stored input
        bytes. With `on_conflict` "raise" such a run raises `AlreadyExistsError` instead, and nothing of the call is
        stored. With "replace" an ended run does not answer, and an active one loses the key to the new run: its
        `replaced_by` is set and it is cancelled as by `cancel` with compensation, in the same transaction; a
        `compensation_failed` one raises `AlreadyExistsError`. Runs of the same call are never a conflict: the first
        answers. A taken `run_id` gives `is_new` true with nothing written if `own_id` (the call was repeated), else
        `is_duplicate_id`, and then nothing of the whole call is written: the others have `is_new` false.
        A new run is `pending` with `wake_at` = now + delay (at the latest its deadline), and takes over the signals
        held for its key, oldest first. If `claimant` is given, has a live lease, serves the definition and its limit
        allows, a new run without delay is claimed for it in the same transaction (as `claim` would: running, epoch 1,
        `started_at` set); not if a run of a higher priority that it serves is due, or if the runs of this call differ
        in priority.
        """
        ...

    async def debounce(self, new: NewRun, *, quiet: Span, max_wait: Span) -> Debounced:
        """Plan a run of a key that begins when nobody has called this for `quiet`, at the latest `max_wait` after the
        first call; or change the input and definition of the one that is planned (and its time, unless it is paused).

        The planned run is `pending` with `debounced_until`, and does not hold its key: other starts and signals do not
        see it. Its first claim clears that and takes the key; while another active run has it, the claim postpones it
        past `debounced_until`, and the end of that run makes it due. `is_stale` answers, with nothing written, if the
        planned run has another id than `new` (its id is given), or if the id given belongs to a run that has begun
        with another input.
        """
        ...

    async def claim(self, claimant: Claimant) -> list[Claimed]:
        """Own up to `limit` due runs (`wake_at` <= now) whose definition the claimant serves.

        Here and wherever else a transition may claim: a claimant does not serve what `HoldStore.pause` has paused.

        Those of the highest priority come first, and among equals those with the oldest `wake_at`. If that leaves room,
        waiting runs that will be due within `ahead` follow in the same order: their code goes on when they are due,
        which their owner sees to. No run begins ahead of its time.

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
        """Unconsumed signals by number, the outcomes of ended (not continued) children that stored waits name, and
        events not received yet by number.
        """
        ...

    def apply(self, commits: Sequence[Commit], claimant: Claimant | None = None) -> Coroutine[Any, Any, list[Applied]]:
        """Apply each commit whole or not at all; one fenced commit does not hinder the others.

        Commits of different runs are applied in any order.
        A commit is FENCED unless the run's owner and epoch equal the fence and its number is one above the last
        applied one of that epoch.
        Applying the last applied number of the same epoch again answers APPLIED and changes nothing, also after that
        commit gave
        the run up or ended it (as long as nobody claimed it since).
        While the run is `running` and its deadline has passed: `End(completed)` and `End(continued)` answer EXPIRED and
        nothing is written.
        While the run has a `hold`, every commit is applied as ever and answers `held` true; but Park, Release and Pause
        leave it `paused` with `wake_at` None and is_awake false, a rollback or an end clears the hold, and the
        successor of `continued` is created `paused` with the same hold.
        While the run is `cancelling`: a commit without a move is applied and answers `cancelling` true;
        `BeginRollback("cancelled")` and
        `End(cancelled)` are applied; `Release` is applied; any other move answers CANCELLING and nothing is written.
        An applied commit raises `revision`, sets `last_seq` to its last entry's seq (entries must continue the run's
        seq without a
        gap, else `ValueError`), and resets `stalls` if it carries entries, attempts, cursors, progress with another
        state than the stored one, or a move other than Release.
        Order of effects: names, entries, attempts (then `ended_attempts` are removed), cursors, then trims (so a commit
        may append and trim the same entry), consumed signals, refused ones and replies (the first one to a signal
        counts), received events, children, published, appends, waits, emitted events, progress (then `ended_progress`,
        the only way but a cancel in which it is removed), move.
        Published: replaces the value of that name unless the stored one has a later position.
        Appends: each gets the next offset of its stream, from 1. One that `begins` a part first withdraws what other
        parts of its source wrote to the stream: if there is any, a RESET with the first offset of them as its value is
        appended, and they are deleted. No offset is ever used again.
        Children: a taken id is left alone; if an active run of another parent holds the child's key, the child is
        created already `failed`
        (without the key) with an `AlreadyExistsError` failure record. Those new may be claimed for the claimant like
        in `create`.
        Received events leave the inbox. `ValueError` if the run has no such event there.
        Waits: a topic wait that was stored before, just so, stays open or not as it was. A new one is open; but if it
        is the receiver (`model.events.receiver`) of an event in the inbox, it is given that; else, unless it is
        since "wait", the oldest event that its topic keeps ("start": published not before the run was created), that
        it asks for, and that this run has not got before. A kept "one" event leaves the topic with that. An owner is
        told by a hint.
        Emitted events: one row in the outbox for each sink of each, in their order, due now unless the run owes that
        sink an earlier one. `announce`: each run that the commit brings to an end but `continued` (itself, trimmed or
        tied children that are cancelled at once, children that could not start) also owes
        `model.outbox.lifecycle_event`.
        Park: waiting (or compensating as before), unowned, `wake_at` as given, of a running run at the latest its
        deadline; but `wake_at` = now and `is_awake`
        true if a pending signal matches a
        signal wait, an event in the inbox has a receiver,
        or a waited child has ended. Signals do not wake a compensating run unless its waits name them.
        Release: unowned, `wake_at` = now; running becomes pending. Pause: paused, unowned, failure stored, waits kept.
        BeginRollback: compensating, cause, failure and undo_floor stored, waits deleted, still owned.
        End: status, `ended_at`, output and failure stored (a None failure keeps the stored one); waits
        deleted, cursors too unless the status `KEEPS_CURSORS`; unowned; pending signals are
        dropped if it was created with `discards` and `ENDS_FOR_GOOD`. A parent that is
        parked with a child wait on this run's location is woken (`wake_at` = now). `continued`: the successor is
        created in the same transaction with the
        same key, parent, `generation` + 1, `previous`; unconsumed signals and events move
        to it; it begins with the `names` and `entries` of the move (with any: `revision` 1, and their `last_seq`);
        `successor` is set; the parent is not woken.
        Any other end: "one" events in the inbox go back to their topics, as if they were published now, and are kept
        for what is left of their time (`RETENTION` if they had none); "all" events are dropped.
        End and BeginRollback also cancel, with compensation, the active children that are `tied`, and theirs.
        `compensation_failed` is not an end: no `ended_at`, nobody is woken, the key stays taken.
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

        What becomes of each is decided by `model.cancels.decide_cancel`.
        `CANCELLED` also sets `ended_at`, epoch + 1, no owner, deletes waits and cursors (and progress, unless somebody
        held the run) and wakes a waiting parent; `CANCELLING`
        keeps an owner, or else sets `wake_at` = now, and sets stalls to 0.
        Pending signals are dropped as with `End`.
        Each that is `CANCELLED` is announced, as in `apply`.
        The reason is kept verbatim on each. Raises `NotFoundError` for an unknown run. Writes an audit row, with who
        did it, if anything changed.

        This and the other acts below may name themselves, by an `act` that is used once. One that was done already
        is answered as if this had done it (here without `runs`), and nothing is done.
        """
        ...

    async def pause(self, run_id: RunId, *, by: str, reason: str, act: str = "") -> bool:
        """A person wants the run to stand still (`model.holds.may_be_held`): `hold` is stored.

        Pending and waiting become paused at once, `wake_at` None, waits kept. A running one keeps its owner, who is
        told by a hint (`MAIL`), by the answer of its next commit, and by `renew`; whatever takes the run from its owner
        leaves it paused. A paused one stays so. Anything else: False. Audit row. A cancel clears the hold.
        """
        ...

    async def resume(self, run_id: RunId, *, by: str, even_if_held: bool = True, act: str = "") -> bool:
        """A paused run becomes pending (compensating if it has a `cause`), `wake_at` = now (of a planned one, at the
        earliest `debounced_until`), stalls 0, `hold` cleared,
        failure cleared unless it has a cause. A running one that has a `hold` loses it and stays as it is.
        Anything else, or a `hold` unless `even_if_held`: False. Audit row."""
        ...

    async def resume_rollback(self, run_id: RunId, *, by: str, act: str = "") -> bool:
        """`compensation_failed` becomes compensating, `wake_at` = now, `retried_at` as by `retry`.

        Anything else: False. Audit row.
        """
        ...

    async def retry(self, run_id: RunId, *, by: str, act: str = "") -> bool:
        """A failed run becomes pending: `ended_at`, failure, cause, undo_floor and a deadline that has passed are
        cleared, `wake_at` = now, stalls 0, and the failed entries that the failure `concerns` are deleted, by their
        spelled path. `retried_at` = now, or the time of the run's last attempt if that is later. A failed child that
        stood at one of the entries is retried likewise. Anything else, or another active run with its key: False. Audit
        row.
        """
        ...

    async def amend(self, amendment: Amendment) -> Amended:
        """Repair a run as planned. Raises `NotFoundError` for an unknown run.

        Asking for the run's last applied amendment again answers APPLIED and changes nothing. STALE unless
        status, epoch and revision are the expected ones, the status is one of `AMENDABLE`, and no dropped child has
        continued as a run that is not dropped with it. KEY_TAKEN if the run has ended, and another active run has its
        key.
        Order of effects: names are appended; entries at `forgotten`, `ended_cursors` and `ended_progress` are
        deleted; attempts and entries are added (entries continue the run's seq without a gap, and stand where
        none is, else `ValueError`); signals are consumed (pending ones, else `ValueError`); each dropped child
        gets its new location, and if it is active and not detached its successor takes its key (`replaced_by`)
        and it is cancelled as by `cancel` with compensation; `retries` are retried as by `retry`; the waits are
        replaced as by `apply`.
        The run becomes pending: epoch and revision + 1, `wake_at` = now, `retried_at` as by `retry`, stalls 0,
        `amendment` set; `ended_at`, failure, cause, hold, undo_floor and a deadline that has passed are cleared;
        version and input change if they are given. `last_seq` never goes back. A run that had ended takes over the
        signals held for its key. Audit row.
        """
        ...

    async def fork(self, fork: Fork) -> Created | None:
        """Create a run with the names, entries and cursors given, as `create` does, claimed by nobody.

        None, and nothing is written, unless the source has the expected epoch and revision. The run names
        its source; `retried_at` = now, revision is 1 and `last_seq` that of the last entry. A taken id or key
        answers as in `create`, and then nothing is written. An audit row on each of the two. Raises
        `NotFoundError` for an unknown source.
        """
        ...

    async def rescue(self, *, stalls_max: int) -> list[RunId]:
        """Free every owned run whose owner has no live lease by the store's clock; a missing worker row counts as dead.

        Freed: no owner, `wake_at` = now, running becomes pending, stalls + 1. At `stalls_max` stalls the run is
        paused instead (as is one with a `hold`, without a failure), with a `PoisonError` failure
        record whose path is the latest recorded place. Workers' rows whose lease is over are removed, and what they
        had taken from the outbox is due. A run that is in the hands of a transaction may be left for the next time.
        Returns the freed runs.
        """
        ...

    async def relinquish(self, incarnation: Incarnation, keep: Collection[RunId]) -> list[RunId]:
        """Free the runs owned by the incarnation but for `keep`, as rescue does, without counting a stall.

        For a worker that lost an acknowledgement: it may own runs that it never heard of.
        """
        ...
