"""Which ended runs may be deleted: whole trees of runs, each past the time for which it is kept."""

from __future__ import annotations

from collections.abc import Iterable
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

    A generation that goes before the end of its chain takes only older generations and the runs below them with it.
    """

    def __init__(self, seed: RunFacts, *, is_early: bool = False) -> None:
        self.seed = seed
        self.is_early = is_early
        self.members: dict[RunId, RunFacts] = {}
        self.successor: RunFacts | None = None  # of the seed, if it stays
        self._ids = {seed.run_id}  # asked for
        self._parents: set[RunId] = set()
        self._new: list[RunFacts] = []
        self._generations = {seed.run_id}  # of its own chain; their parent and successors do not belong to it
        self._take(seed)

    def wants(self) -> tuple[set[RunId], set[RunId]]:
        """The ids that it asks for next, and the runs whose children it asks for. Each is asked for once."""
        new, self._new = self._new, []
        ids = {other for one in new for other in self._named_by(one) if other is not None} - self._ids
        parents = {one.run_id for one in new if one.has_children} - self._parents
        self._ids |= ids
        self._parents |= parents
        return ids, parents

    def _named_by(self, run: RunFacts) -> tuple[RunId | None, ...]:
        if not self.is_early:
            return run.parent, run.previous, run.successor
        if run.run_id == self.seed.run_id:
            return run.previous, run.successor
        return (run.previous,) if run.run_id in self._generations else (run.previous, run.successor)

    def take(self, run: RunFacts) -> None:
        """Add a run if it belongs here."""
        if run.run_id in self._ids or (run.parent is not None and run.parent in self._parents):
            self._take(run)

    def _take(self, run: RunFacts) -> None:
        if run.run_id in self.members:
            return
        if self.is_early and run.run_id == self.seed.successor:
            self.successor = run
            return
        if self.is_early and run.successor is not None and run.successor in self._generations:
            self._generations.add(run.run_id)
        self.members[run.run_id] = run
        self._new.append(run)

    def judge(self, keeps: Keeps, now: Instant, *, is_erasure: bool = False) -> str:
        """Why it is kept, as far as it is known; empty if nothing keeps it.

        A tree is kept from an erasure only if one of its runs is active, or if it is too large.
        """
        if len(self.members) > TREE_MAX:
            return "large"
        if self.successor is not None and self.successor.ended_at is None:
            return "newest"  # generation that has ended, of an active chain
        reasons = (why_kept(one, keeps, now) for one in self.members.values())
        return next((reason for reason in reasons if reason and (reason == "active" or not is_erasure)), "")

    def tree(self) -> Tree:
        """What is deleted."""
        runs = tuple(Ended(one.run_id, one.ended_at) for one in self.members.values() if one.ended_at is not None)
        stays = self.successor
        return Tree(runs, () if stays is None or stays.ended_at is None else (Ended(stays.run_id, stays.ended_at),))


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
