"""The checker: sees every transition of the real store, keeps its own record, and names what was violated."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from sim.checks import pauses, progress, receipts, transactions
from sim.checks.amendments import check_amend
from sim.checks.attributes import check_descriptions
from sim.checks.bodies import check_body
from sim.checks.commits import check_apply, check_row
from sim.checks.events import Events
from sim.checks.live import Live
from sim.checks.moves import check_cancel, check_leases, check_rows
from sim.checks.outbox import METHODS, Outbox
from sim.checks.records import Records
from sim.checks.run_messages import RunMessages
from sim.checks.shadow import Shadow
from sim.checks.signals import Signals
from sim.checks.starts import check_claims, check_start_row
from sim.coroutines import at_once
from sim.faults import READS
from sim.rows import Rows
from stepwell.clock import Instant
from stepwell.ids import RunId
from stepwell.model.commits import Park, Verdict
from stepwell.model.events import Publication
from stepwell.model.runs import Run
from stepwell.model.signals import Signal
from stepwell.model.states import RunStatus
from stepwell.replay.bodies import Body
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import Detail

if TYPE_CHECKING:
    from sim.checks.timers import Timers
    from sim.process import Process

Lost = set[tuple[str, int]]


class Violation(NamedTuple):
    """One broken promise."""

    invariant: str
    run_id: str
    text: str
    at: float = 0.0


class Checker:
    """Watches one seed."""

    def __init__(self, inspector: Store, rows: Rows, nodes: dict[str, Any], stalls_max: int, time: Any) -> None:
        self.inspector = inspector
        self.rows = rows
        self.nodes = nodes
        self.stalls_max = stalls_max
        self._time = time
        self.violations: list[Violation] = []
        self.stats: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.rows_now: dict[str, Run] = {}
        self.pending_before: dict[str, set[int]] = {}
        self.shadows: dict[str, Shadow] = {}
        self.leases: dict[str, int] = {}
        self.incarnations: dict[str, Any] = {}
        self.owners: set[str] = set()  # incarnations that ever owned a run
        self.children: dict[tuple[str, bytes], str] = {}
        self.lost: defaultdict[Any, Lost] = defaultdict(set)
        self.cancelling: defaultdict[Any, Lost] = defaultdict(set)  # told of a cancel
        self.held: defaultdict[Any, Lost] = defaultdict(set)  # told of a pause
        self.marks: dict[str, set[str]] = {}  # undos that a person has done, by run
        self.poisonings: Counter[str] = Counter()  # of their workers by runs, since a person had a look
        self.debounced: dict[str, int] = {}  # when a planned run was called for last
        self.durable: defaultdict[tuple[str, str], set[bytes]] = defaultdict(set)  # states that long steps kept
        self.recorded: Counter[str] = Counter()  # results of transactional steps, by node
        self.signals = Signals(self)
        self.events = Events(self)
        self.outbox = Outbox(self)
        self.run_messages = RunMessages(self)
        self.marks_of_runs: Any = set  # whoever makes the world knows what its runs send
        self.live = Live(self)
        self.records = Records(self)
        self.timers: Timers | None = None  # whoever makes the world knows when they must be on time

    def violate(self, invariant: str, run_id: str, text: str) -> None:
        """Note a broken promise."""
        if len(self.violations) < 20:
            self.violations.append(Violation(invariant, run_id, text, self._time()))

    def shadow(self, run_id: str) -> Shadow:
        """The checker's record of a run."""
        found = self.shadows.get(run_id)
        if found is None:
            found = self.shadows[run_id] = Shadow(run_id)
        return found

    def node_at(self, path: str) -> dict[str, Any]:
        """The node that stands at a path. All that share a name are of one kind."""
        found: dict[str, Any] = self.nodes.get(path.rpartition("/")[2].partition("#")[0], {})
        return found

    # --- what happens ---

    def before(self, method: str, args: tuple[Any, ...]) -> None:
        """A transition is about to happen."""
        if method == "apply":
            ending = [commit.run_id for commit in args[0] if getattr(commit.move, "successor", None) is not None]
            self.pending_before = {run_id: {s.number for s in self.pending(run_id)} for run_id in ending}
        self.events.before(method, args if method != "perform" else ([args[0]],))

    def after(self, process: Process, method: str, args: tuple[Any, ...], answer: Any) -> None:
        """A call has been performed, whatever its caller will hear of it."""
        if method in READS:
            self._after_read(method, args, answer)
            return
        if method in METHODS:
            self.outbox.after(method, args, answer, self.inspector.now())
            return
        before, now = self.rows_now, self.inspector.now()
        self.rows_now = after = self.rows.read()
        check_rows(self, method, args, before, after, now)
        check_descriptions(self, method, args, answer, before, after)
        match method:
            case "apply":
                check_apply(self, args[0], answer, before, after, now)
                self.events.applied(args[0], answer, after)
                self.live.applied(args[0], answer)
                for applied in answer:
                    self._saw_claims(applied.claimed, before)
            case "perform":
                applied = [] if answer.applied is None else [answer.applied]
                commits = [answer.commit or args[0]][: len(applied)]
                check_apply(self, commits, applied, before, after, now)
                self.events.applied(commits, applied, after)
                self.live.applied(commits, applied)
                transactions.check_perform(self, args, answer, is_unchanged=before == after)
            case "cancel":
                check_cancel(self, answer.runs, after)
            case "deliver":
                self.signals.delivered(args[0], answer[0])
                self.outbox.delivered(self.run_messages.delivered(args[0], answer[0]))
                self._saw_claims(answer[1], before)
            case "deliver_or_create":
                self.signals.delivered([args[0]], [answer[1]])
                self._saw_claims(answer[2], before)
            case "publish":
                self.events.publishing(args[0], answer[0], before)
                are_new = [one.publication is Publication.PUBLISHED for one in answer[0]]
                self.outbox.delivered(self.run_messages.published(args[0], are_new))
                self._saw_claims(answer[1], before)
            case "change":
                for changed in answer:
                    self._saw_claims(changed.claimed, before)
            case "claim":
                check_claims(self, answer, args[0], before, now)
                self._saw_claims(answer, before)
            case "create":
                claims = [item.claimed for item in answer if item.claimed is not None]
                check_claims(self, claims, args[1] if len(args) > 1 else None, before, now)
                self._saw_claims(claims, before)
            case "debounce" if not answer.is_stale and after[answer.run_id].debounced_until is not None:
                self.debounced[answer.run_id] = now
            case "retry" if answer:
                self._check_retries(before, after)
            case "amend":
                self._check_retries(before, after, amended=args[0].run_id)
                check_amend(self, args[0], answer, before, after, now)
            case "resume_rollback" if answer:
                self._check_retries(before, after, amended=args[0])
                self._marked(args[0])
                self._retried(args[0])
            case "resume" if answer and args[0] in after and before[args[0]].status is RunStatus.PAUSED:
                # A run, not a workflow; one that was still owned went on as it was.
                self.shadow(args[0]).stalls = 0
                self.poisonings[args[0]] = 0
            case "register" | "renew" | "retire":
                check_leases(self, method, args, answer, now, process)
            case _:
                pass
        self.records.after(method, args, answer, before, after, now)
        self.outbox.ended(before, after)
        for row in after.values():
            if row is not before.get(row.run_id):
                self._check_changed(before.get(row.run_id), row, now, _given_up(method, args))
        self.events.after(method, after)
        for orphan in at_once(self.inspector.views.orphans()):
            self.violate("I15", orphan, f"nothing will ever make it go on (after {method})")

    def _check_retries(self, before: dict[str, Run], after: dict[str, Run], amended: str = "") -> None:
        """A run was retried, or the children of one that was repaired; failed children of theirs are likewise."""
        for row in after.values():
            was = before[row.run_id].status
            if was is RunStatus.FAILED and row.status is not was and row.run_id != amended:
                self._retried(row.run_id)

    def _check_changed(self, was: Run | None, row: Run, now: Instant, given_up: set[RunId]) -> None:
        """A run is not as it was."""
        check_row(self, row)
        check_start_row(self, row, now)
        pauses.check_hold(self, was, row)
        if was is None or row.status is not RunStatus.CANCELLED or was.status is row.status:
            return
        if was.owner is None or row.run_id in given_up:
            self.shadow(row.run_id).progress.clear()

    def heard(self, process: Process, method: str, args: tuple[Any, ...], answer: Any) -> None:
        """A process hears what became of its call."""
        if method in ("apply", "perform"):
            commits, answers = (args[0], answer) if method == "apply" else ([args[0]], [answer.applied])
            for commit, applied in zip(commits, answers, strict=True):
                if applied is None:
                    continue  # its body raised
                if applied.verdict is Verdict.FENCED:
                    self.lost[process].add((commit.run_id, commit.fence.epoch))
                elif applied.cancelling:
                    self.cancelling[process].add((commit.run_id, commit.fence.epoch))
                else:
                    pauses.heard_applied(self, process, commit, applied)

    def body(self, process: Process, body: Body, execution: Any) -> None:
        """A worker starts a body."""
        check_body(self, process, body, execution, self.inspector.now())

    # --- inside ---

    def _after_read(self, method: str, args: tuple[Any, ...], answer: Any) -> None:
        if method == "load":
            for run_id, history in zip(args[0], answer, strict=True):
                self.compare(run_id, history.entries)
                progress.compare(self, run_id, history.progress)
        elif method == "inbox":
            self.signals.seen(answer.signals)
        elif method == "due":
            self.records.seen_due(args[0], answer)

    def _saw_claims(self, claims: Any, before: dict[str, Run]) -> None:
        pauses.check_claimed(self, claims, before)
        for claimed in claims:
            self.signals.seen(claimed.inbox.signals)

    def _marked(self, run_id: str) -> None:
        """An effect that a person marked as undone is recorded as undone; nothing else is."""
        shadow, detail = self.shadow(run_id), self.detail(run_id)
        assert detail is not None
        for entry in detail.history.entries:
            if entry.seq > shadow.last_seq:
                if entry.location not in shadow.undoable or entry.location in shadow.ever:
                    self.violate("I30", run_id, f"{shadow.path(entry.location)} was marked, and is not left to undo")
                shadow.add(entry)
                self.marks.setdefault(run_id, set()).add(shadow.path(entry.location))
        acts = [one for one in at_once(self.inspector.views.list_audit(RunId(run_id))) if one.verb == "mark_undone"]
        if len(acts) != len(self.marks.get(run_id, ())):
            self.violate("I30", run_id, f"{len(acts)} effects were marked as undone, and not as many are recorded so")

    def is_marked(self, run_id: str, path: str) -> bool:
        """Whether the undo at a path, or around it, is one that a person has done."""
        return any(f"{path}/".startswith(f"{mark}/") for mark in self.marks.get(run_id, ()))

    def _retried(self, run_id: str) -> None:
        """The failed entries that are gone may be recorded again; nothing else may be gone."""
        shadow = self.shadow(run_id)
        shadow.retries += 1
        shadow.forgive(self.inspector.now())
        receipts.begin_anew(shadow)
        self.events.revived(run_id)
        self.signals.retried(run_id)
        detail = self.detail(run_id)
        kept = {entry.location for entry in detail.history.entries} if detail is not None else set()
        for location, entry in tuple(shadow.entries.items()):
            if location not in kept:
                if entry.status.name != "FAILED":
                    self.violate("I3", run_id, f"a retry removed {shadow.path(location)}, which was done")
                shadow.forget(location)
        self.compare(run_id, detail.history.entries if detail is not None else ())

    def compare(self, run_id: str, entries: Any) -> None:
        """The store's history is what was committed, byte for byte."""
        shadow = self.shadow(run_id)
        if len(entries) != len(shadow.entries):
            found = {entry.location for entry in entries}
            gone = [shadow.path(at) for at in shadow.entries if at not in found]
            self.violate("I8", run_id, f"{len(entries)} entries instead of {len(shadow.entries)}; gone: {gone[:3]}")
        for entry in entries:
            known = shadow.entries.get(entry.location)
            if known is not None and known != entry:
                self.violate("I3", run_id, f"the entry at {shadow.path(entry.location)} is not what was committed")

    def detail(self, run_id: str) -> Detail | None:
        """Everything about a run."""
        return at_once(self.inspector.views.detail(RunId(run_id)))

    def pending(self, run_id: str) -> tuple[Signal, ...]:
        """A run's mailbox."""
        detail = self.detail(run_id)
        return detail.signals if detail is not None else ()


def _given_up(method: str, args: tuple[Any, ...]) -> set[RunId]:
    """Runs that their owner parks in this very call, in which another one may cancel them."""
    return {commit.run_id for commit in args[0] if isinstance(commit.move, Park)} if method == "apply" else set()
