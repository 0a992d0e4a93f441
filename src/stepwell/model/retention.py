"""Which ended runs may be deleted: whole trees of runs, each past the time for which it is kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from stepwell.clock import Instant, Span
from stepwell.ids import RunId
from stepwell.model.states import TERMINAL, RunStatus

TREE_MAX: Final = 50_000  # runs of a tree that is deleted; a larger one is left, and reported


class RunFacts(NamedTuple):
    """What decides about the deletion of one run."""

    run_id: RunId
    workflow: str
    status: RunStatus
    ended_at: Instant | None
    dedup: Span  # how long after its end its key finds it
    parent: RunId | None
    previous: RunId | None
    successor: RunId | None
    has_children: bool
    is_needed: bool  # a sink is owed one of its events, it refused a signal that is kept, or it has an open record

    @property
    def is_alone(self) -> bool:
        """Whether no other run belongs to it."""
        return not (self.has_children or self.parent or self.previous or self.successor)


class Ended(NamedTuple):
    """A run, and when it ended. A run that was retried since has another end, or none."""

    run_id: RunId
    ended_at: Instant


class Tree(NamedTuple):
    """Runs that are deleted together, or not at all."""

    runs: tuple[Ended, ...]
    witnesses: tuple[Ended, ...] = ()  # runs that stay, and must not have been reopened


class Swept(NamedTuple):
    """What one look at a part of a table deleted."""

    deleted: int
    after: int | None  # where to go on; None at the end


class Keeps(Protocol):
    """How long runs are kept."""

    def span_of(self, workflow: str, status: RunStatus) -> Span | None:
        """For how long after its end a run is kept; None for ever. A continued run without a time of its own is kept as
        long as its chain.
        """
        ...


class Judged(NamedTuple):
    """What may be deleted now."""

    trees: tuple[Tree, ...]
    kept: Mapping[str, int]  # by reason: runs of trees that are left, although this run is past its time


def expires_at(run: RunFacts, keeps: Keeps) -> Instant | None:
    """When a run may be deleted, as far as it alone decides; None: never, or not before its chain."""
    span = None if run.ended_at is None else keeps.span_of(run.workflow, run.status)
    if span is None:
        return None
    assert run.ended_at is not None
    return Instant(run.ended_at + max(span, run.dedup))


def why_kept(run: RunFacts, keeps: Keeps, now: Instant) -> str:
    """Why a run keeps its tree; empty if it does not."""
    if run.ended_at is None or run.status not in TERMINAL:
        return "active"
    if run.is_needed:
        return "needed"
    if run.ended_at + run.dedup > now:
        return "dedup"
    if run.status is RunStatus.CONTINUED and keeps.span_of(run.workflow, run.status) is None:
        return ""
    expires = expires_at(run, keeps)
    return "" if expires is not None and expires <= now else "policy"


def ends_early(run: RunFacts, keeps: Keeps, now: Instant) -> bool:
    """Whether a run is a generation of a chain with a time of its own, and past it."""
    if run.status is not RunStatus.CONTINUED:
        return False
    expires = expires_at(run, keeps)
    return expires is not None and expires <= now


class Family:
    """The runs that belong together, as far as they are known: parents, children and generations of a chain.

    Of a generation that goes before its chain, only the runs below it belong to it.
    """

    def __init__(self, seed: RunFacts, *, is_early: bool) -> None:
        self.seed = seed
        self.is_early = is_early
        self.members: dict[RunId, RunFacts] = {seed.run_id: seed}
        self.witness: RunFacts | None = None
        self.reason = ""  # why it is kept

    def relatives(self) -> set[RunId]:
        """The ids that its members name and that are not known yet."""
        if self.is_early:
            wanted = {
                other
                for one in self.members.values()
                if one.run_id != self.seed.run_id
                for other in (one.previous, one.successor)
                if other is not None
            }
            known = set(self.members)
            if self.witness is None and self.seed.successor is not None:
                wanted.add(self.seed.successor)
            return wanted - known
        named = (other for one in self.members.values() for other in (one.parent, one.previous, one.successor))
        return {other for other in named if other is not None} - set(self.members)

    def add(self, run: RunFacts) -> bool:
        """Add a run; whether it is new."""
        if run.run_id in self.members:
            return False
        if self.is_early and run.run_id == self.seed.successor:
            is_new, self.witness = self.witness is None, run
            return is_new
        self.members[run.run_id] = run
        return True

    def judge(self, keeps: Keeps, now: Instant) -> str:
        """Why it is kept, as far as it is known; empty if nothing keeps it."""
        if len(self.members) > TREE_MAX:
            return "large"
        if self.is_early and self.witness is not None and self.witness.ended_at is None:
            return "newest"  # of an active chain
        for one in self.members.values():
            is_seed = self.is_early and one.run_id == self.seed.run_id
            reason = why_kept(one, keeps, now)
            if reason and not (is_seed and reason == "policy"):
                return reason
        return ""

    def tree(self) -> Tree:
        """What is deleted."""
        runs = tuple(Ended(one.run_id, one.ended_at) for one in self.members.values() if one.ended_at is not None)
        seen = self.witness
        witnesses = () if seen is None or seen.ended_at is None else (Ended(seen.run_id, seen.ended_at),)
        return Tree(runs, witnesses)


def may_begin(run: RunFacts, keeps: Keeps, now: Instant) -> bool:
    """Whether the deletion of a tree may begin with this run: it is past its own time."""
    expires = expires_at(run, keeps)
    return expires is not None and expires <= now and run.status in TERMINAL


def in_batches(trees: Iterable[Tree], runs_max: int) -> list[list[Tree]]:
    """Trees in batches of about this many runs; a larger tree is a batch of its own."""
    batches: list[list[Tree]] = []
    size = runs_max
    for tree in trees:
        if size + len(tree.runs) > runs_max:
            batches.append([])
            size = 0
        batches[-1].append(tree)
        size += len(tree.runs)
    return batches


def without_doubles(trees: Sequence[Tree], taken: Collection[RunId] = ()) -> list[Tree]:
    """The trees whose runs no earlier one has."""
    seen, found = set(taken), list[Tree]()
    for tree in trees:
        ids = {one.run_id for one in tree.runs}
        if not ids & seen:
            seen |= ids
            found.append(tree)
    return found
