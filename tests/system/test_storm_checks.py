"""The checks of the storm find what they are there for: each is shown a story that breaks its promise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from stepwell import Engine
from stepwell.addresses import open_store
from stepwell.clock import Instant
from stepwell.environment import system_environment
from stepwell.model.entries import Attempt
from stepwell.model.locations import format_path
from tests.system import storm_workflows
from tests.system.evidence import Evidence, Observed, collect
from tests.system.fleet import LEDGER
from tests.system.ledger import Line, read_ledger
from tests.system.repeats import NOT_OURS, check_repeats, check_zombies
from tests.system.storm import recorded
from tests.system.storm_checks import check_effects, check_results, check_values, violations
from tests.system.storm_workflows import EFFECTS, MAKE_EFFECTS, Job, tally, use_ledger

FIRST, SECOND, THIRD = 101, 102, 103  # process ids


class Story:
    """A ledger that is told line by line."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def tell(self, kind: str, by: int = 1, **facts: Any) -> None:
        self.lines.append(Line(kind, float(len(self.lines)), by, facts))

    def clear(self, pid: int, incarnation: str, path: str = "work#0", decided: float | None = None) -> None:
        """A worker decides to begin a body; it may come to note that only later."""
        decided = float(len(self.lines)) if decided is None else decided
        self.tell("cleared", pid, run="r", path=path, attempt=1, incarnation=incarnation, decided=decided)

    def begin(self, pid: int, value: str, path: str = "work#0") -> None:
        self.tell("begin", pid, run="r", path=path, attempt=1, key=f"r:{path}", value=value, given="")

    def end(self, value: str) -> None:
        self.tell("end", value=value)

    def execute(self, pid: int, incarnation: str, value: str) -> None:
        """All of one body."""
        self.clear(pid, incarnation)
        self.begin(pid, value)
        self.end(value)

    def pause(self, pid: int, incarnation: str, taken: dict[str, list[str]]) -> None:
        """A process is stopped past its lease, and continued."""
        self.tell("stopped", pid=pid)
        self.tell("continued", pid=pid, incarnations=[incarnation], taken=taken)

    def evidence(self, *recorded: str) -> Evidence:
        evidence = Evidence(self.lines, {}, [], Observed())
        evidence.recorded = set(recorded)
        return evidence


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_body_may_run_again_if_its_process_was_killed_in_it(story: Story) -> None:
    story.clear(FIRST, "one")
    story.begin(FIRST, "v1")
    story.tell("killed", pid=FIRST, held={"r": []})
    story.execute(SECOND, "two", "v2")

    assert list(check_repeats(story.evidence("v2"))) == []


def test_a_body_that_runs_again_for_no_reason_is_found(story: Story) -> None:
    story.execute(FIRST, "one", "v1")
    story.execute(SECOND, "two", "v2")

    (found,) = check_repeats(story.evidence("v2"))
    first, *told = found.splitlines()
    assert first == f"run r: work#0 attempt 1 of {FIRST} ran again in {SECOND} for no reason"
    assert [line.split()[3] for line in told] == ["cleared", "begin", "cleared", "begin"]


def test_a_body_may_run_again_if_the_machine_kept_its_process_from_running(story: Story) -> None:
    story.execute(FIRST, "one", "v1")
    story.tell("stalled", FIRST, seconds=0.9)
    story.execute(SECOND, "two", "v2")
    assert (
        len(list(check_repeats(story.evidence("v2")))) == 1
    )  # it goes on, so it would have said that its lease was lost

    story.tell("drained", FIRST)
    assert list(check_repeats(story.evidence("v2"))) == []


@pytest.mark.parametrize(("stopped", "lost"), [(THIRD, "r"), (THIRD, "another"), (None, "r")])
def test_a_body_may_run_again_if_another_process_was_stopped_with_the_lock(
    story: Story, stopped: int | None, lost: str
) -> None:
    story.clear(FIRST, "one")
    story.begin(FIRST, "v1")
    if stopped is not None:
        story.pause(stopped, "three", {})
    story.execute(SECOND, "two", "v2")
    story.tell("warned", FIRST, level="WARNING", text=f"run {lost} {NOT_OURS}: its work is lost")
    story.tell("drained", FIRST)

    is_explained = stopped is not None and lost == "r"
    assert (list(check_repeats(story.evidence("v2"))) == []) is is_explained


@pytest.mark.parametrize("is_before", [True, False])
def test_a_stall_before_the_body_or_after_the_other_explains_nothing(story: Story, is_before: bool) -> None:
    if is_before:
        story.tell("stalled", FIRST, seconds=0.9)
    story.execute(FIRST, "one", "v1")
    story.execute(SECOND, "two", "v2")
    if not is_before:
        story.tell("stalled", FIRST, seconds=0.9)
    story.tell("drained", FIRST)

    assert len(list(check_repeats(story.evidence("v2")))) == 1


def test_a_body_that_runs_again_although_it_was_recorded_is_found_whatever_happened_to_its_process(
    story: Story,
) -> None:
    story.execute(FIRST, "one", "v1")
    story.tell("killed", pid=FIRST, held={"r": []})
    story.execute(SECOND, "two", "v2")

    assert list(check_repeats(story.evidence("v1"))) == [
        f"run r: work#0 attempt 1 of {FIRST} was recorded, and ran again in {SECOND}"
    ]


def test_a_worker_that_is_stopped_between_its_decision_and_the_body_breaks_no_promise(story: Story) -> None:
    story.clear(FIRST, "one")
    story.pause(FIRST, "one", {"r": []})
    story.execute(SECOND, "two", "v2")
    story.begin(FIRST, "v1")
    story.end("v1")

    evidence = story.evidence("v2")
    assert [*check_zombies(evidence), *check_repeats(evidence)] == []


def test_a_worker_that_is_stopped_before_it_has_noted_its_decision_breaks_no_promise(story: Story) -> None:
    story.tell("started", key="k", run="r")
    story.pause(FIRST, "one", {"r": []})
    story.execute(SECOND, "two", "v2")
    story.clear(FIRST, "one", decided=0.5)
    story.begin(FIRST, "v1")
    story.end("v1")

    evidence = story.evidence("v2")
    assert [*check_zombies(evidence), *check_repeats(evidence)] == []


def test_a_body_that_begins_under_a_lease_that_is_over_is_found(story: Story) -> None:
    story.pause(FIRST, "one", {})
    story.execute(FIRST, "one", "v1")

    assert list(check_zombies(story.evidence())) == [
        f"run r: work#0 of {FIRST} began 1.000 s after a stop that was longer than the lease"
    ]


def test_a_body_under_a_new_lease_is_fine(story: Story) -> None:
    story.execute(FIRST, "one", "v1")
    story.pause(FIRST, "one", {})
    story.execute(FIRST, "two", "v2")

    assert list(check_zombies(story.evidence("v2"))) == []


@pytest.mark.parametrize("known", [[], ["work#0"]], ids=["committed afterwards", "committed before"])
def test_what_a_stopped_worker_commits_of_a_run_that_is_another_s_is_found(story: Story, known: list[str]) -> None:
    story.execute(FIRST, "one", "v1")
    story.pause(FIRST, "one", {"r": known})

    found = list(check_zombies(story.evidence("v1")))

    wrong = [f"run r: work#0 of {FIRST} was recorded after a stop, and the run was another's by then"]
    assert found == ([] if known else wrong)


@contextmanager
def noting(folder: Path) -> Iterator[None]:
    """Bodies in this process note what they do."""
    use_ledger(folder / LEDGER)
    yield
    storm_workflows._ledger = None


@pytest_asyncio.fixture
async def tallied(tmp_path: Path) -> Evidence:
    """A run with transactional steps, and everything that there is to know of it."""
    store = open_store(f"sqlite:///{tmp_path / 'runs.db'}", system_environment())
    async with Engine(store, workflows=[tally]) as engine:
        await engine.transact(lambda tx: tx.execute(MAKE_EFFECTS))
        with noting(tmp_path):
            await (await engine.start(tally, Job(size=2))).result()
        evidence = await collect(engine, store, read_ledger(tmp_path / LEDGER), Observed())
        rows = await engine.transact(lambda tx: tx.execute(f"select run, value from {EFFECTS}"))
        evidence.effects = [(run, value) for run, value in rows]
    return evidence


async def test_a_run_that_nothing_happened_to_breaks_no_promise(tallied: Evidence) -> None:
    # There is no sink here, so nobody was told of it.
    assert {name: found for name, found in violations(tallied).items() if found and name != "bad events"} == {}
    assert len(tallied.effects) == 2


async def test_a_row_too_many_and_a_row_too_few_are_found(tallied: Evidence) -> None:
    (run, first), (_, second) = tallied.effects
    tallied.effects = [(run, first), (run, first)]

    assert sorted(check_effects(tallied)) == sorted(
        [f"run {run}: {first} has 2 rows and 1 results", f"run {run}: {second} has 0 rows and 1 results"]
    )


async def test_an_acknowledged_result_that_is_not_stored_is_found(tallied: Evidence) -> None:
    [run] = tallied.runs
    tallied.lines.append(Line("result", 99.0, 1, {"run": run, "value": ["another"]}))
    tallied.lines.append(Line("result", 99.0, 1, {"run": "lost", "value": []}))

    assert [problem.partition(":")[0] for problem in check_results(tallied)] == [f"run {run}", "run lost"]


async def test_a_recorded_value_that_no_body_gave_is_found(tallied: Evidence) -> None:
    tallied.executions.pop()

    [problem] = check_values(tallied)

    assert "no body at work#3 gave" in problem


async def test_a_recorded_beginning_is_no_outcome_and_a_recorded_failure_is_one(tallied: Evidence) -> None:
    [found] = tallied.runs.values()
    history, now = found.detail.history, Instant(1)
    [first, second, *_] = history.entries
    begun, failed = Attempt(first.location, 1, now, None, now), Attempt(second.location, 1, now, b"{}", now)
    history = history._replace(entries=(), attempts=(begun, failed))

    assert recorded(found.detail._replace(history=history)) == {f"{format_path(second.location, history.names)}@1"}
