"""Metrics of a worker for Prometheus."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.clock import SECOND, Span
from stepwell.model.commits import Commit
from stepwell.model.runs import NewRun, Run
from stepwell.replay.bodies import Body
from stepwell.telemetry.metrics import COUNTS, SECONDS, Counter, Gauge, Histogram, Metric
from stepwell.worker.metric_labels import RunLabels

_OF = ("workflow",)
_ENDS = frozenset({"completed", "failed", "compensated", "cancelled", "continued", "compensation_failed"})


class Metrics:
    """Counts what the worker of an engine does; `Engine.figures` returns the counts for Prometheus.

        engine = Engine("sqlite:///shop.db", workflows=[checkout], hooks=[Metrics()])

    Names of workflows are the only labels that an author chooses, so the number of time series depends only on them.
    With `labels=["attr.region", "tag.team"]`, the counters of runs also have these attributes and tags as labels, as
    the runs had them when they were claimed. At most 5 labels, each with at most 50 values; others count as `other`.
    """

    def __init__(self, labels: Sequence[str] = ()) -> None:
        self._labels = RunLabels(labels)
        of = (*_OF, *self._labels.names)
        self._began = Counter("stepwell_runs_started_total", "Runs that were executed for the first time.", of)
        self._ended = Counter("stepwell_runs_ended_total", "Runs that ended, by status.", (*of, "status"))
        self._paused = Counter("stepwell_runs_paused_total", "Runs that were paused and need a person.", of)
        self._lost = Counter("stepwell_runs_lost_total", "Claims that other workers took, or that were dropped.", of)
        self._bodies = Counter("stepwell_bodies_total", "Attempts at steps, by outcome.", (*_OF, "outcome"))
        self._retries = Counter("stepwell_retries_total", "Attempts at steps that were not the first.", _OF)
        words = "From what a run waited for until its code continues."
        self._late = Histogram("stepwell_resume_seconds", words, SECONDS)
        self._batches = Histogram("stepwell_commit_runs", "Runs whose commits were written together.", COUNTS)
        self._entries = Counter("stepwell_commit_entries_total", "Entries of histories that were written.")
        self._took = Histogram("stepwell_commit_seconds", "How long the store took to write a batch.", SECONDS)
        self._active = 0

    def read(self) -> list[Metric]:
        """Everything counted so far."""
        at_work = Gauge("stepwell_worker_runs", "Runs that are executed in this process now.", {(): self._active})
        counted = (self._began, self._ended, self._paused, self._lost, self._bodies, self._retries)
        return [*counted, at_work, self._late, self._batches, self._entries, self._took]

    # --- called by the worker ---

    def starting(self, new: NewRun) -> NewRun:
        """A run is about to be created. It is counted when it is executed."""
        return new

    def began(self, run: Run, *, is_fresh: bool) -> None:
        """A run is executed."""
        self._active += 1
        if is_fresh:
            self._began.add(run.workflow, *self._labels.of(run))

    def resumed(self, run: Run, late: Span) -> None:
        """Its code continues."""
        self._late.add(late / SECOND)

    def body(self, body: Body) -> None:
        """An attempt begins."""
        if body.attempt > 1:
            self._retries.add(body.run.workflow)

    def body_ended(self, body: Body, mark: None, outcome: str, error: BaseException | None) -> None:
        """An attempt ended."""
        labels = (body.run.workflow, outcome)
        values = self._bodies.values
        values[labels] = values.get(labels, 0) + 1  # as `add`, but faster: thousands of calls a second

    def left(self, run: Run, outcome: str) -> None:
        """A run is no longer executed here."""
        self._active -= 1
        if outcome in _ENDS:
            self._ended.add(run.workflow, *self._labels.of(run), outcome)
        elif outcome == "paused":
            self._paused.add(run.workflow, *self._labels.of(run))
        elif outcome == "lost":
            self._lost.add(run.workflow, *self._labels.of(run))

    def wrote(self, commits: Sequence[Commit], seconds: float) -> None:
        """A batch was written."""
        self._batches.add(len(commits))
        self._entries.add(count=sum([len(commit.entries) for commit in commits]))
        self._took.add(seconds)
