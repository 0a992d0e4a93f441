"""The public API against the model: whatever is done, in whatever order, both must be the same afterwards."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from stepwell.errors import RunEndedError
from stepwell.testing import SyncKit, kit_options
from tests.model.desk import NOTE, REST, TIMEOUT, Job, ModelDesk, booked, desk

DEDUP = 86_400.0  # seconds
# A worker may claim a run a moment before it is due.
_ACTIVE = {"pending": "waiting", "running": "waiting"}
LEASE = 7_200.0  # long, because a renewal is work for the simulated workers, and days pass here
_KEYS = st.sampled_from(["a", "b", "c"])
# Not the very moment of a timer: who comes first then is nobody's promise.
_PASSING = st.sampled_from([1.0, 61.5, 599.5, 1_000.5, REST + 0.5, TIMEOUT + 0.5, 30_000.5, DEDUP + 3_700.5])


class DeskMachine(RuleBasedStateMachine):
    """Starts, signals, cancels, pauses, repairs, lets time pass, and kills workers."""

    runs: Bundle[str] = Bundle("runs")
    counts: ClassVar[Counter[str]] = Counter()  # what was done, over all stories

    def __init__(self, model: ModelDesk | None = None) -> None:
        super().__init__()
        booked.clear()
        self.counts["stories"] += 1
        self.model = model or ModelDesk()
        self.kit = SyncKit(kit_options(always_replay=False), name="the model")
        self.workers = self.kit.workers(2, lease=LEASE, sweep_every=LEASE / 2)
        self.kit.serve(desk)
        self.count = 0

    def teardown(self) -> None:
        """Both end; the kit complains of runs that diverged."""
        self.kit.close()

    def ask(self, work: Any) -> Any:
        """What the engine answers."""
        self.counts["calls"] += 1
        return self.kit.wait(work)

    @rule(target=runs, key=_KEYS, notes=st.integers(0, 3), is_refused=st.booleans())
    def start(self, key: str, notes: int, is_refused: bool) -> Any:
        self.count += 1
        job = Job(f"job{self.count}", notes, is_refused)
        expected = self.model.of_key(key, DEDUP)

        handle = self.ask(self.kit.engine.start(desk, job, key=key))

        assert handle.is_new == (expected is None)
        if expected is not None:
            assert handle.run_id == expected
            return multiple()
        self.model.start(handle.run_id, job, key)
        self.counts["runs"] += 1
        self.kit.settle()
        return handle.run_id

    @rule(run=runs, dedup=st.one_of(st.none(), st.sampled_from(["x", "y"])))
    def signal(self, run: str, dedup: str | None) -> None:
        self.count += 1
        payload, model = f"note{self.count}", self.model.runs[run]
        is_known = dedup is not None and dedup in model.known
        try:
            delivery = self.ask(self.kit.engine.signal(run, NOTE, payload, dedup_key=dedup)).value
        except RunEndedError:
            assert not model.is_active
            assert not is_known
            return
        assert (delivery == "duplicate") == is_known
        assert is_known or model.is_active
        if not is_known:
            model.known |= {dedup} if dedup is not None else set()
            self.model.note(run, payload)
        self.kit.settle()

    @rule(run=runs)
    def cancel(self, run: str) -> None:
        assert self.ask(self.kit.engine.cancel(run)) == self.model.cancel(run)
        self.kit.settle()

    @rule(run=runs)
    def pause(self, run: str) -> None:
        assert self.ask(self.kit.engine.holds.pause(run, by="ann")) == self.model.pause(run)
        self.kit.settle()

    @rule(run=runs)
    def resume(self, run: str) -> None:
        assert self.ask(self.kit.engine.holds.resume(run, by="ann")) == self.model.resume(run)
        self.kit.settle()

    @rule(seconds=_PASSING)
    def advance(self, seconds: float) -> None:
        self.kit.clock.advance(seconds=seconds)
        self.model.advance(seconds)

    @rule()
    def kill(self) -> None:
        """One of two workers dies; the other one takes over when the lease is over."""
        if len(self.workers) > 1:
            self.counts["workers killed"] += 1
            self.kit.kill(self.workers.pop())
            self.kit.clock.advance(seconds=2 * LEASE)
            self.model.advance(2 * LEASE)

    @invariant()
    def statuses_agree(self) -> None:
        views = self.ask(self.kit.engine.runs.list(limit=500))
        found = {view.run_id: _ACTIVE.get(view.status, view.status) for view in views}
        assert found == {run_id: run.shown for run_id, run in self.model.runs.items()}

    @invariant()
    def bookings_agree(self) -> None:
        assert sorted(booked) == sorted(run.job.name for run in self.model.runs.values() if run.is_booked)

    @invariant()
    def results_agree(self) -> None:
        for run_id, run in self.model.runs.items():
            if run.status == "completed":
                assert self.ask(self.kit.engine.result(run_id)) == run.notes
