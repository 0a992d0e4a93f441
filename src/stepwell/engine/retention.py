"""Retention: how long ended runs are kept, and deleting those that are past their time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from stepwell.clock import DAY, SECOND, Duration, Instant, Span, span, to_datetime
from stepwell.engine.backend import Backend
from stepwell.engine.filters import fitted, parse_filter
from stepwell.engine.footprint import Footprint, footprint_of, upkeep_of
from stepwell.engine.records import PAGE as RECORDS_PAGE
from stepwell.engine.records import Document, Draft, NewLine, RecordKind, Records
from stepwell.engine.sharing import Shared
from stepwell.engine.system_runs import PREFIX
from stepwell.engine.trigger_records import digest
from stepwell.errors import InvalidOptionError
from stepwell.ids import RunId
from stepwell.model.holds import workflow_of
from stepwell.model.retention import (
    Ended,
    Family,
    RunFacts,
    Tree,
    ends_early,
    in_batches,
    may_begin,
)
from stepwell.model.states import TERMINAL, CareState, RunStatus
from stepwell.redaction import redact
from stepwell.stores.base.filters import Order
from stepwell.stores.base.retention import Part
from stepwell.stores.base.views import RunFilter

LEAST: Final = Span(3_600 * SECOND)  # that ended runs are kept
PAGE: Final = 500  # runs that one look reads
BATCH: Final = 200  # runs that one transaction deletes
EVERY: Final = Span(3_600 * SECOND)  # how often workers look for what is past its time
SHIFT: Final = Span(300 * SECOND)  # after this long without a sign, another worker goes on
AHEAD_MAX: Final = 20_000  # runs that a look ahead reads
_ACTIVE_MAX: Final = 100_000
_COUNTED_MAX: Final = 10_000_000
_BLOB_GRACE: Final = Span(DAY)
_BLOB_SLACK: Final = Span(12 * 3_600 * SECOND)  # twice as long as a process trusts that a blob is there
_MEASURED_SECONDS: Final = 60.0  # of a footprint that is still given to other callers
_PARTS: Final[tuple[Part, ...]] = ("events", "signals")
_OUTCOMES: Final = ("completed", "failed", "compensated", "cancelled", "continued")


@dataclass(frozen=True, slots=True, init=False)
class Retention:
    """How long ended runs are kept, by outcome. What is not given is kept for ever.

        App(workflows=[checkout], retention=Retention(completed="30d", failed="90d"))
        App(workflows=[checkout, poll], retention=Retention("30d", workflows={"poll": Retention("2d", continued="1d")}))

    `ended` is for every outcome that has no time of its own. A run is deleted only together with its parents, its
    children and the other generations of its chain, when all of them have ended and are past their times. It stays
    while it can be found by its key (`dedup` of its start), while a sink is owed one of its events, and while a signal
    that it refused or a record that it opened needs a person.

    Generations of a chain that goes on for ever have a time of their own with `continued`: they are deleted while the
    chain is active, except the newest one that has ended. `signals` is for how long a run that goes on remembers
    signals that it has read and that have no dedup key; `records` is how long closed records (of triggers, alerts, …)
    are kept.
    """

    outcomes: Mapping[RunStatus, Span]
    signals: Span
    records: Span
    workflows: Mapping[str, Retention]

    def __init__(
        self,
        ended: Duration | None = None,
        *,
        completed: Duration | None = None,
        failed: Duration | None = None,
        compensated: Duration | None = None,
        cancelled: Duration | None = None,
        continued: Duration | None = None,
        signals: Duration = "7d",
        records: Duration = "30d",
        workflows: Mapping[str, Retention] | None = None,
    ) -> None:
        given = dict(zip(_OUTCOMES, (completed, failed, compensated, cancelled, continued), strict=True))
        outcomes: dict[RunStatus, Span] = {}
        for name, duration in given.items():
            wanted = duration if duration is not None or name == "continued" else ended
            if wanted is not None:
                outcomes[RunStatus(name)] = _at_least(wanted, name if duration is not None else "ended")
        put = object.__setattr__
        put(self, "outcomes", outcomes)
        put(self, "signals", _at_least(signals, "signals"))
        put(self, "records", _at_least(records, "records"))
        put(self, "workflows", dict(workflows or {}))
        of: dict[str, Any] = dict(self.workflows)
        for name, other in of.items():
            if not isinstance(other, Retention) or other.workflows:
                raise InvalidOptionError(
                    f"the retention of {name!r} is {other!r:.60}", fix='workflows={"name": Retention("30d")}'
                )

    def span_of(self, workflow: str, status: RunStatus) -> Span | None:
        """For how long after its end a run of a workflow is kept; None for ever."""
        return self.workflows.get(workflow, self).outcomes.get(status)

    @property
    def seconds(self) -> dict[str, float]:
        """For how many seconds runs are kept, by outcome."""
        return {status.value: kept / SECOND for status, kept in self.outcomes.items()}

    @property
    def shortest(self) -> Span | None:
        """The shortest time of all; None if everything is kept."""
        spans = [*self.outcomes.values(), *(each for one in self.workflows.values() for each in one.outcomes.values())]
        return min(spans, default=None)


class Scoped(NamedTuple):
    """A retention, and the workflows to which it applies: one application must not delete the runs of another."""

    retention: Retention
    names: frozenset[str] | None = None  # None: every workflow

    def span_of(self, workflow: str, status: RunStatus) -> Span | None:
        """For how long after its end a run of a workflow is kept; None for ever."""
        is_meant = self.names is None or workflow in self.names or workflow in self.retention.workflows
        return self.retention.span_of(workflow, status) if is_meant or workflow.startswith(PREFIX) else None


def _at_least(duration: Duration, what: str) -> Span:
    found = span(duration, what=what)
    if found < LEAST:
        raise InvalidOptionError(
            f"{what} is {duration!r}",
            why="a run would be deleted before anybody could read its result or retry it",
            fix='keep it for an hour or longer, as "1h" or "30d"; None keeps it for ever',
        )
    return found


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What was deleted, or would be."""

    runs: int = 0
    trees: int = 0
    by_workflow: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)  # runs past their time whose tree is kept, by reason
    events: int = 0
    signals: int = 0
    records: int = 0
    blobs: int = 0
    is_dry: bool = False


@dataclass(frozen=True, slots=True)
class PruneAhead:
    """What would be deleted now. If there are more ended runs than were looked at, `is_whole` is false, and the numbers
    are at least these.
    """

    runs: int
    trees: int
    by_workflow: Mapping[str, int]
    kept: Mapping[str, int]  # runs past their time whose tree is kept, by reason
    seen: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class EraseReport:
    """What was erased, and which runs were not because a run of their tree is active or their tree is too large."""

    matched: int
    runs: int
    left: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PruneRound:
    """A round of the workers that delete: the one that is under way, or the last one."""

    is_running: bool
    worker: str
    began_at: datetime
    ended_at: datetime | None
    runs: int
    trees: int
    kept: Mapping[str, int]


class CareBody(msgspec.Struct, frozen=True):
    """What is stored of a round."""

    worker: str
    began_at: int
    until: int  # the next round, or when another worker goes on
    ended_at: int | None
    runs: int
    trees: int
    kept: dict[str, int]


@dataclass(frozen=True, slots=True)
class BackupNote:
    """The last backup that `stepwell backup` made of this database."""

    at: datetime
    target: str
    size: int


class BackupBody(msgspec.Struct, frozen=True):
    """What is stored of it."""

    at: int
    target: str
    size: int


class PrunePass:
    """One look at all ended runs, the longest ended first; it may stop after any step, and begin again.

    It deletes, unless it is dry. Each step is short, so that other work goes on between two.
    """

    def __init__(
        self,
        backend: Backend,
        retention: Retention,
        *,
        workflows: Iterable[str] | None = None,
        is_dry: bool = False,
        limit: int = PAGE,
    ) -> None:
        self._backend = backend
        self._retention = retention
        self._keeps = Scoped(retention, None if workflows is None else frozenset(workflows))
        self._is_dry = is_dry
        self._limit = limit
        self._after: Ended | None = None
        self._active: set[RunId] = set()  # runs that were found to keep their trees
        self._planned: set[RunId] = set()  # in a dry pass, because nothing is deleted
        self._trees: list[Tree] = []  # to delete
        self._parts = list(_PARTS)
        self._place = 0
        self._is_read = retention.shortest is None
        self.batch_max = BATCH  # runs that one transaction deletes
        self.is_over = False
        self.seen = 0  # runs that it looked at
        self.runs = self.trees = 0
        self.by_workflow: Counter[str] = Counter()
        self.kept: Counter[str] = Counter()
        self.swept: Counter[str] = Counter()
        self._workflows: dict[RunId, str] = {}

    async def step(self) -> None:
        """Do one short part of the work."""
        if self._trees:
            batch = next(iter(in_batches(self._trees, self.batch_max)))
            self._trees = self._trees[len(batch) :]
            await self._delete(batch)
        elif not self._is_read:
            await self._look()
        elif self._parts and not self._is_dry:
            await self._sweep(self._parts[0])
        else:
            self.is_over = True

    @property
    def is_read(self) -> bool:
        """Whether it has looked at all runs that ended long enough ago."""
        return self._is_read

    async def count_candidates(self) -> int:
        """How many ended runs there are. It looks at those of them that ended long enough ago."""
        ended = RunFilter(statuses=tuple(sorted(TERMINAL)))
        return await self._backend.retrying(lambda store: store.views.count_runs(ended, limit=_COUNTED_MAX))

    async def finish(self) -> PruneReport:
        """Do the rest, without a pause."""
        while not self.is_over:
            await self.step()
        return self.report()

    def report(self) -> PruneReport:
        """What was done until now."""
        counts = {name: self.swept[name] for name in ("events", "signals", "records", "blobs")}
        return PruneReport(
            self.runs, self.trees, dict(self.by_workflow), dict(self.kept), is_dry=self._is_dry, **counts
        )

    # --- runs ---

    async def _look(self) -> None:
        now = self._backend.store.now()
        shortest = self._retention.shortest
        assert shortest is not None
        before, after = Instant(now - shortest), self._after
        found = await self._backend.retrying(
            lambda store: store.retention.list_ended(before=before, limit=self._limit, after=after)
        )
        self.seen += len(found)
        if found:
            last = found[-1]
            assert last.ended_at is not None
            self._after = Ended(last.run_id, last.ended_at)
        self._is_read = len(found) < self._limit
        trees = await self._plan(found, now)
        if self._is_dry:
            for tree in trees:
                self._count(tree)
        else:
            self._trees = trees

    async def _plan(self, found: Sequence[RunFacts], now: Instant) -> list[Tree]:
        """The trees that may go and that have one of these runs."""
        families: list[Family] = []
        trees: list[Tree] = []
        taken = self._planned
        # The newest first: of a chain, it takes the older generations with it.
        for run in reversed(found):
            if not may_begin(run, self._keeps, now) or run.run_id in taken:
                continue
            family = Family(run, is_early=ends_early(run, self._keeps, now))
            if run.is_alone:
                self._settle(family, family.judge(self._keeps, now), trees, taken)
            elif not family.is_early and {run.parent, run.previous, run.successor} & self._active:
                self.kept["active"] += 1
            else:
                families.append(family)
        known = {run.run_id: run for run in found}
        await self._explore(families, known, now)
        for family in families:
            if family.seed.run_id not in taken:
                self._settle(family, family.judge(self._keeps, now), trees, taken)
        self._planned = taken if self._is_dry else set()
        return trees

    def _settle(self, family: Family, reason: str, trees: list[Tree], taken: set[RunId]) -> None:
        if reason:
            self.kept[reason] += 1
            return
        tree = family.tree()
        ids = {one.run_id for one in tree.runs}
        if ids & taken:
            return
        taken |= ids
        trees.append(tree)
        for one in family.members.values():
            self._workflows[one.run_id] = one.workflow

    async def _explore(
        self,
        families: Sequence[Family],
        known: Mapping[RunId, RunFacts],
        now: Instant,
        *,
        is_erasure: bool = False,
    ) -> None:
        """Find the members of families, level by level, as long as nothing is found that keeps them."""
        rest = list(families)
        while rest:
            ids, parents = set[RunId](), set[RunId]()
            growing: list[Family] = []
            for family in rest:
                if family.judge(self._keeps, now, is_erasure=is_erasure):
                    if len(self._active) < _ACTIVE_MAX:
                        self._active |= {one.run_id for one in family.members.values() if one.ended_at is None}
                    continue
                wanted, above = family.wants()
                if wanted or above:
                    ids |= wanted
                    parents |= above
                    growing.append(family)
            asked = [one for one in sorted(ids) if one not in known]
            facts = {one: known[one] for one in ids if one in known}
            if asked or parents:
                for one in await self._relatives(asked, sorted(parents)):
                    facts[one.run_id] = one
            for family in growing:
                for one in facts.values():
                    family.take(one)
            rest = growing

    async def _relatives(self, ids: list[RunId], parents: list[RunId]) -> list[RunFacts]:
        return await self._backend.retrying(lambda store: store.retention.list_relatives(ids, parents))

    async def _delete(self, trees: list[Tree]) -> None:
        pruned = await self._backend.retrying(lambda store: store.retention.prune(trees))
        for tree, is_pruned in zip(trees, pruned, strict=True):
            if is_pruned:
                self._count(tree)
            else:
                self.kept["changed"] += 1
                for one in tree.runs:
                    self._workflows.pop(one.run_id, None)

    def _count(self, tree: Tree) -> None:
        self.trees += 1
        self.runs += len(tree.runs)
        for one in tree.runs:
            self.by_workflow[self._workflows.pop(one.run_id, "")] += 1

    # --- the rest ---

    async def _sweep(self, part: Part) -> None:
        place = self._place
        before = Instant(self._backend.store.now() - self._retention.signals)
        swept = await self._backend.retrying(
            lambda store: store.retention.sweep(part, before=before, after=place, limit=self._limit)
        )
        self.swept[part] += swept.deleted
        if swept.after is None:
            self._parts.pop(0)
            self._place = 0
            if not self._parts:
                await self._sweep_records()
                await self._sweep_blobs()
        else:
            self._place = swept.after

    async def _sweep_records(self) -> None:
        for kind in RecordKind:
            deleted = self._limit
            while deleted == self._limit:
                deleted = await self._backend.retrying(
                    lambda store, kind=kind: store.records.prune(  # type: ignore[misc]
                        kind, older_than=self._retention.records, limit=self._limit
                    )
                )
                self.swept["records"] += deleted

    async def _sweep_blobs(self) -> None:
        before = Instant(self._backend.store.now() - _BLOB_GRACE)
        if await self._backend.retrying(lambda store: store.retention.has_old_blobs(before=before)):
            self.swept["blobs"] = await self._backend.retrying(
                lambda store: store.retention.sweep_blobs(before=before, slack=_BLOB_SLACK)
            )


class Retentions:
    """`engine.retention`: deletes ended runs that are past their time, and erases runs that a person names."""

    def __init__(self, backend: Backend, retention: Retention | None, workflows: Iterable[str] = ()) -> None:
        self._backend = backend
        self._records = Records(backend, RecordKind.CARE, CareBody)
        self._backups = Records(backend, RecordKind.CARE, BackupBody)
        self._workflows = frozenset(workflows)
        self._measured = Shared(backend.environment, self._measure, _MEASURED_SECONDS)
        self.policy = retention

    def begin(
        self, retention: Retention | None = None, *, workflows: Iterable[str] | None = None, dry_run: bool = False
    ) -> PrunePass:
        """A pass over all ended runs, in steps: for a caller that pauses between them or shows progress.

        A retention that is given here applies to these workflows, or to all; that of the app to its own workflows.
        Raises `InvalidOptionError` if neither this call nor the app says how long runs are kept.
        """
        if retention is not None:
            return PrunePass(self._backend, retention, workflows=workflows, is_dry=dry_run)
        if self.policy is None:
            raise InvalidOptionError(
                "nothing says how long ended runs are kept",
                why="without that they are kept for ever",
                fix='App(..., retention=Retention(completed="30d")), or: stepwell prune --older 30d',
            )
        names = self._workflows | set(map(workflow_of, self._backend.registry.definitions))
        return PrunePass(self._backend, self.policy, workflows=names, is_dry=dry_run)

    async def tidy(self) -> tuple[str, ...]:
        """Drop what no release uses any more, as far as this role may; returns what was dropped."""
        return await self._backend.environment.executor.call_blocking(upkeep_of(self._backend).tidy)

    async def look_ahead(self, retention: Retention | None = None, *, seen_max: int = AHEAD_MAX) -> PruneAhead:
        """What a round would delete now, by this retention or by that of the app. It deletes nothing, and looks at the
        runs that ended first, about `seen_max` of them. Raises `InvalidOptionError` like `begin`.
        """
        work = self.begin(retention, dry_run=True)
        while not work.is_over and (work.is_read or work.seen < seen_max):
            await work.step()
        found = work.report()
        return PruneAhead(found.runs, found.trees, found.by_workflow, found.kept, work.seen, work.is_over)

    def new_name(self) -> str:
        """A name for a worker that makes rounds."""
        return self._backend.environment.ids.uuid()

    def monotonic(self) -> float:
        """The clock that measures how long a step took."""
        return self._backend.environment.clock.monotonic()

    async def note_backup(self, target: str, size: int) -> None:
        """Note that this database was copied now, for `stepwell doctor`."""
        now = self._backend.store.now()

        def decide(it: Document[BackupBody] | None) -> Draft[BackupBody]:
            return Draft(state=CareState.RESTING, body=BackupBody(now, target, size), lines=(NewLine("copied"),))

        await self._backups.change("backup", decide)

    async def last_backup(self) -> BackupNote | None:
        """The last backup; None if none was noted here."""
        found = await self._backups.find("backup")
        body = None if found is None else found.content
        return None if body is None else BackupNote(to_datetime(Instant(body.at)), body.target, body.size)

    # --- rounds of workers ---

    async def begin_round(self, worker: str) -> Instant | None:
        """Begin a round, unless one was made lately or another worker makes it; then, when to ask again.

        The first change of the record wins. A worker that dies meanwhile is replaced after `SHIFT`.
        """
        now, until = self._backend.store.now(), Instant(0)

        def decide(it: Document[CareBody] | None) -> Draft[CareBody] | None:
            nonlocal until
            until = Instant(0 if it is None or it.content is None else it.content.until)
            if until > now:
                return None
            return _draft(CareState.RUNNING, CareBody(worker, now, now + SHIFT, None, 0, 0, {}), "began", worker)

        return None if await self._records.change(self._round_id, decide) else max(until, Instant(now + SECOND))

    async def note_round(self, worker: str, report: PruneReport, *, is_over: bool) -> bool:
        """Record how far a round is. False if another worker has it now."""
        now, is_mine = self._backend.store.now(), True

        def decide(it: Document[CareBody] | None) -> Draft[CareBody] | None:
            nonlocal is_mine
            body = None if it is None else it.content
            is_mine = body is not None and body.worker == worker and body.ended_at is None
            if body is None or not is_mine:
                return None
            state, ended_at = (CareState.RESTING, now) if is_over else (CareState.RUNNING, None)
            until = now + (EVERY if is_over else SHIFT)
            after = CareBody(worker, body.began_at, until, ended_at, report.runs, report.trees, dict(report.kept))
            return _draft(state, after, "ended" if is_over else "went on", worker)

        await self._records.change(self._round_id, decide)
        return is_mine

    async def rounds(self) -> list[PruneRound]:
        """The rounds of the workers, one for each policy: the one that is under way, or the last one."""
        found = await self._records.list(limit=RECORDS_PAGE)
        return [_round(one.content) for one in found if one.content is not None and one.record.record_id != "backup"]

    @property
    def _round_id(self) -> str:
        """Workers with the same policy share their rounds."""
        return f"retention {digest(repr(self.policy))}"

    async def prune(
        self, retention: Retention | None = None, *, workflows: Iterable[str] | None = None, dry_run: bool = False
    ) -> PruneReport:
        """Delete every tree of runs that is past its time, and events, signals, records and payloads that nothing needs
        any more. With `dry_run`, only count them. If it is interrupted, call it again.
        """
        return await self.begin(retention, workflows=workflows, dry_run=dry_run).finish()

    async def erase(self, where: str, *, by: str = "", reason: str = "", dry_run: bool = False) -> EraseReport:
        """Erase every run that matches a filter, with its parents, children and chain, whatever the retention says.

        Trees with an active run are left, and their runs are in `left`: cancel them, and erase again. What stays is a
        line for each run in the acts on its workflow: who erased it, when and why, without a value. Payloads that are
        stored by their hash are deleted by a later `prune`, a day after they were last used.
        """
        said = redact(reason)
        if not where.strip():
            raise InvalidOptionError("erase needs a filter", fix='erase("attr.customer:42")')
        now = self._backend.store.now()
        wanted = await fitted(parse_filter(where, now), self._backend.store.views)
        wanted = wanted._replace(order=Order())
        work = PrunePass(self._backend, Retention("1h"))
        erased, matched, left = set[RunId](), 0, list[str]()
        last: RunId | None = None
        while True:
            runs = await self._backend.retrying(
                lambda store, last=last: store.views.list_runs(wanted, limit=PAGE, before=last)  # type: ignore[misc]
            )
            ids = [run.run_id for run in runs if run.run_id not in erased]
            matched += len(ids)
            trees, blocked = await self._trees(work, ids, now)
            left += blocked
            for batch in in_batches(trees, BATCH):
                done = [True] * len(batch)
                if not dry_run:
                    done = await self._backend.retrying(
                        lambda store, batch=batch: store.retention.prune(  # type: ignore[misc]
                            batch, is_erasure=True, by=by, reason=said
                        )
                    )
                for tree, is_done in zip(batch, done, strict=True):
                    if is_done:
                        erased |= {one.run_id for one in tree.runs}
                    else:
                        left += [one.run_id for one in tree.runs if one.run_id in ids]
            if len(runs) < PAGE:
                return EraseReport(matched, len(erased), tuple(left))
            # In an order by id, the last need not exist any more.
            last = runs[-1].run_id

    async def footprint(
        self, retention: Retention | None = None, *, workflows: Iterable[str] | None = None
    ) -> Footprint:
        """Where the bytes of the database are, how fast it grows, and what pruning by this retention, or that of the
        app, would free. Reads the structure of all tables, which takes seconds for gigabytes; changes nothing.

        Without a retention it may be a minute old: callers at about the same time share one.
        """
        if retention is None:
            return await self._measured.get()
        return await self._measure(retention, workflows)

    async def _measure(self, retention: Retention | None = None, workflows: Iterable[str] | None = None) -> Footprint:
        backend, prunable = self._backend, None
        if retention is not None or self.policy is not None:
            prunable = (await self.begin(retention, workflows=workflows, dry_run=True).finish()).by_workflow
        measure = upkeep_of(backend).measure
        return footprint_of(await backend.environment.executor.call_blocking(measure), prunable)

    async def _trees(self, work: PrunePass, ids: Iterable[RunId], now: Instant) -> tuple[list[Tree], list[str]]:
        wanted = list(ids)
        facts = await work._relatives(wanted, [])
        families = [Family(one) for one in facts]
        await work._explore(families, {one.run_id: one for one in facts}, now, is_erasure=True)
        trees: list[Tree] = []
        left: list[str] = []
        taken: set[RunId] = set()
        for family in families:
            if family.seed.run_id in taken:
                continue
            if family.judge(Retention(), now, is_erasure=True):
                left.append(family.seed.run_id)
                continue
            tree = family.tree()
            taken |= {one.run_id for one in tree.runs}
            trees.append(tree)
        return trees, left


def _draft(state: CareState, body: CareBody, verb: str, by: str) -> Draft[CareBody]:
    return Draft(state=state, body=body, lines=(NewLine(verb, by),))


def _round(body: CareBody) -> PruneRound:
    ended = None if body.ended_at is None else to_datetime(Instant(body.ended_at))
    began = to_datetime(Instant(body.began_at))
    return PruneRound(ended is None, body.worker, began, ended, body.runs, body.trees, body.kept)
