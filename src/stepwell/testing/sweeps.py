"""Crash everywhere: one clean run finds the commits; then a worker dies at each of them, and nothing may differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from stepwell.engine.views import run_view
from stepwell.errors import StepwellError, StoreUnavailableError
from stepwell.replay.bodies import Body
from stepwell.replay.step_context import StepContext
from stepwell.replay.workflows import Workflow
from stepwell.testing.base import KitBase, as_sequence, effects_of
from stepwell.testing.differences import HistoryLine, describe_difference
from stepwell.testing.errors import CrashFound, Diverged, Stuck
from stepwell.testing.faults import matches
from stepwell.testing.nodes import Node
from stepwell.testing.scripts import Act
from stepwell.testing.trees import history_lines
from stepwell.testing.world import Moment, Point

if TYPE_CHECKING:
    from stepwell.testing.sync import SyncKit

Way = Literal["before", "after", "ack lost"]
WAYS: Final[tuple[Way, ...]] = ("before", "after", "ack lost")
Effects = Callable[[], Iterable[Any]]

_SHOWN_MAX = 10
_WORDS: dict[Way, str] = {
    "before": "the worker died before it",
    "after": "the worker died after it",
    "ack lost": "its acknowledgement was lost",
}


class InjectedCrash(NamedTuple):
    """What happens, and at which commit."""

    way: Way
    point: Point

    def __str__(self) -> str:
        return f"{self.point}, {_WORDS[self.way]}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one execution."""

    status: str
    output: Any
    failure: str
    paths: tuple[str, ...]  # recorded, sorted
    effects: Counter[str]
    began: Counter[str]  # bodies, by path
    guarded: frozenset[str]  # paths whose bodies read their idempotency key each time they ran
    history: tuple[HistoryLine, ...] = ()  # in the order of the commits
    problem: str = ""  # why it did not end


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference, and the crash that caused it."""

    crash: InjectedCrash | None  # None: without any crash
    how: str
    difference: str

    def __str__(self) -> str:
        return f"✕ {self.how}:\n{_indented(self.difference)}"


@dataclass(slots=True)
class CrashReport:
    """What a sweep found. `str(report)` begins with "38 points, 38 ok"."""

    workflow: str
    commits: list[Point] = field(default_factory=list)
    crashes: list[InjectedCrash] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def points(self) -> int:
        """How many crashes there were: three for each commit."""
        return len(self.crashes)

    @property
    def ok(self) -> int:
        """How many of them changed nothing."""
        return self.points - len({finding.crash for finding in self.findings if finding.crash is not None})

    def __str__(self) -> str:
        lines = [
            f"{self.points} points, {self.ok} ok",
            f"  {self.workflow}: {len(self.commits)} commits, each with a crash before, a crash after, and a lost ack",
        ]
        shown: dict[str, str] = {}  # each difference, and where it was found first
        for finding in self.findings[:_SHOWN_MAX]:
            first = shown.setdefault(finding.difference, finding.how)
            is_new = first == finding.how
            lines.append(_indented(str(finding) if is_new else f"✕ {finding.how}:\n  the same as: {first}"))
        if len(self.findings) > _SHOWN_MAX:
            lines.append(f"  … and {len(self.findings) - _SHOWN_MAX} more")
        return "\n".join(lines)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


class WatchedContext(StepContext):
    """A step's context that notes whether its idempotency key was read."""

    __slots__ = ("_note",)

    _note: Callable[[], None]

    @property
    def idempotency_key(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The key."""
        self._note()
        key: str = vars(StepContext)["idempotency_key"].__get__(self)
        return key


_SLOTS = ("run_id", "workflow", "path", "attempt", "is_final_attempt", "idempotency_key", "_link", "_emit", "_writer")


def _watched(context: StepContext, note: Callable[[], None]) -> WatchedContext:
    watched = object.__new__(WatchedContext)
    for slot in _SLOTS:
        vars(StepContext)[slot].__set__(watched, vars(StepContext)[slot].__get__(context))
    object.__setattr__(watched, "_note", note)
    return watched


class KeyReads:
    """Which bodies read their idempotency key."""

    def __init__(self) -> None:
        self._read: set[str] = set()
        self._ended_without: set[str] = set()

    def watch(self, body: Body, path: str) -> None:
        """A body is about to run."""
        if not body.takes_context:
            self._ended_without.add(path)
            return
        real, has_read = body.fn, False

        def note() -> None:
            nonlocal has_read
            has_read = True
            self._read.add(path)

        def end() -> None:
            if not has_read:
                self._ended_without.add(path)

        async def run(context: StepContext, *args: Any, **kwargs: Any) -> Any:
            try:
                return await real(_watched(context, note), *args, **kwargs)
            finally:
                end()

        def run_plain(context: StepContext, *args: Any, **kwargs: Any) -> Any:
            try:
                return real(_watched(context, note), *args, **kwargs)
            finally:
                end()

        body.fn = run if body.is_async else run_plain

    @property
    def guarded(self) -> frozenset[str]:
        """Paths whose bodies all read their key. A body that was killed before it could read it does not count."""
        return frozenset(self._read - self._ended_without)


class Trial:
    """One execution, from the start to the end of the run."""

    def __init__(self, kit: SyncKit, crash: InjectedCrash | None) -> None:
        self._kit = kit
        self._crash = crash
        self._keys = KeyReads()
        self.points: dict[int, Point] = {}
        self.has_crashed = False
        kit.world.on_point, kit.world.on_begin = self._meet, self._begin

    def run(
        self, workflow: Workflow[Any, Any], input: Any, script: Sequence[Act], options: dict[str, Any], effects: Effects
    ) -> Outcome:
        """Execute it, and give the result."""
        kit, problem = self._kit, ""
        before = Counter(map(repr, effects()))
        run = kit.start(workflow, input, **options)
        try:
            for act in script:
                run.until_waiting()
                act(kit, run)
            run.ended()
        except (Stuck, Diverged, StepwellError) as error:
            problem = str(error)
        details = run.details()
        view = run_view(details[-1].run)
        began = Counter(one.path for one in kit.world.begun)
        return Outcome(
            view.status,
            view.output,
            view.failure.summary if view.failure is not None else "",
            tuple(sorted(entry.path for entry in run.history())),
            Counter(map(repr, effects())) - before,
            began,
            self._keys.guarded,
            tuple(history_lines(details)),
            problem,
        )

    def _begin(self, node: Node, body: Body, path: str) -> None:
        self._keys.watch(body, path)

    def _meet(self, node: Node, moment: Moment, point: Point) -> None:
        self.points[point.number] = point
        crash = self._crash
        if crash is None or self.has_crashed or point.number != crash.point.number:
            return
        if moment != ("before" if crash.way == "before" else "after"):
            return
        self.has_crashed = True
        if crash.way == "ack lost":
            raise StoreUnavailableError("the acknowledgement was lost")
        self._kit.world.kill(node)


class Sweep:
    """All executions of one workflow, and the differences between them."""

    def __init__(
        self,
        make_kit: Callable[[bool], SyncKit],
        *,
        same_result: bool | Callable[[Any], Any],
        at_most_once: Sequence[str],
        effects: Effects | None,
        before_each: Callable[[], object] | None,
    ) -> None:
        self._make_kit = make_kit
        self._same_result = same_result
        self._at_most_once = at_most_once
        self._effects = effects or (lambda: ())
        self._before_each = before_each

    def run(
        self, workflow: Workflow[Any, Any], input: Any, script: Sequence[Act], options: dict[str, Any]
    ) -> CrashReport:
        """Find the commits, crash at each of them, and report."""
        report = CrashReport(workflow.name)

        def execute(crash: InjectedCrash | None, *, always_replay: bool = False) -> tuple[Outcome, Trial]:
            if self._before_each is not None:
                self._before_each()
            with self._make_kit(always_replay) as kit:
                trial = Trial(kit, crash)
                return trial.run(workflow, input, script, options, self._effects), trial

        clean, first = execute(None)
        if clean.problem:
            raise CrashFound(f"the run does not end even without a crash:\n{clean.problem}")
        self._check_promised(clean)
        report.commits = [first.points[number] for number in sorted(first.points)]
        again, _ = execute(None)
        self._compare(report, "without any crash, executed a second time", clean, again)
        replayed, _ = execute(None, always_replay=True)
        self._compare(report, "without any crash, but replayed at every commit", clean, replayed)
        for point in report.commits:
            for way in WAYS:
                crash = InjectedCrash(way, point)
                outcome, trial = execute(crash)
                report.crashes.append(crash)
                if trial.has_crashed:
                    self._compare(report, crash, clean, outcome)
                else:
                    found = _missed(crash, [trial.points[number] for number in sorted(trial.points)])
                    self._note(report, crash, [*found, *describe_difference(clean.history, outcome.history)])
        return report

    def _check_promised(self, clean: Outcome) -> None:
        for promised in self._at_most_once:
            if not any(matches(promised, path) for path in clean.began):
                ran = ", ".join(clean.began) or "none"
                raise CrashFound(f"at_most_once names {promised!r}, but no body ran at that path; bodies ran at: {ran}")

    def _compare(self, report: CrashReport, crash: InjectedCrash | str, clean: Outcome, outcome: Outcome) -> None:
        found = [f"the run did not end: {outcome.problem}"] if outcome.problem else []
        if self._same_result is not False and not outcome.problem:
            found += self._result_differences(clean, outcome)
        found += self._effect_differences(clean, outcome)
        for promised in self._at_most_once:
            for path, began in outcome.began.items():
                if matches(promised, path) and began > max(1, clean.began[path]) and path not in outcome.guarded:
                    found.append(
                        f"{path} was promised at most once, and its body began {began} times without reading its "
                        "idempotency key"
                    )
        self._note(report, crash, found)

    def _result_differences(self, clean: Outcome, outcome: Outcome) -> list[str]:
        found = []
        normal = self._same_result if callable(self._same_result) else (lambda value: value)
        for name, expected, actual in (
            ("status", clean.status, outcome.status),
            ("output", normal(clean.output), normal(outcome.output)),
            ("failure", clean.failure, outcome.failure),
        ):
            if expected != actual:
                found.append(f"another {name}: {actual!r} instead of {expected!r}")
        missing = sorted((Counter(clean.paths) - Counter(outcome.paths)).elements())
        added = sorted((Counter(outcome.paths) - Counter(clean.paths)).elements())
        if missing or added:
            words = [f"not {', '.join(missing)}"] * bool(missing) + [f"but {', '.join(added)}"] * bool(added)
            found.append(f"another path: {', '.join(words)}")
        return [*found, *describe_difference(clean.history, outcome.history)] if found else []

    def _effect_differences(self, clean: Outcome, outcome: Outcome) -> list[str]:
        found = []
        for effect in sorted(clean.effects.keys() | outcome.effects.keys()):
            expected, actual = clean.effects[effect], outcome.effects[effect]
            if actual > expected or (self._same_result is not False and actual < expected):
                found.append(f"the effect {effect} happened {_times(actual)} instead of {_times(expected)}")
        return found

    def _note(self, report: CrashReport, crash: InjectedCrash | str, found: list[str]) -> None:
        if found:
            injected = None if isinstance(crash, str) else crash
            report.findings.append(Finding(injected, str(crash), "\n".join(found)))


def _missed(crash: InjectedCrash, made: list[Point]) -> list[str]:
    """An execution ended before the commit at which it was to crash."""
    last = f"; its last commit was {made[-1]}" if made else ""
    return [f"this execution never made {crash.point}: the workflow does not do the same each time{last}"]


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def check(report: CrashReport) -> CrashReport:
    """The report, if it has no findings. Otherwise raises `CrashFound` with the whole report."""
    if report.findings:
        raise CrashFound(str(report))
    return report


def sweep(
    kit: KitBase,
    workflow: Workflow[Any, Any],
    input: Any,
    *,
    script: Sequence[Act],
    same_result: bool | Callable[[Any], Any],
    at_most_once: Sequence[str] | str,
    effects: Callable[[], Iterable[Any]] | Iterable[Any] | None,
    before_each: Callable[[], object] | None,
    is_checked: bool,
    options: dict[str, Any],
) -> CrashReport:
    """Crash everywhere. Each execution has a world of its own, with the options of the kit."""
    from stepwell.testing.sync import SyncKit

    kit.check_open()
    faults = kit.world.faults

    def make_kit(always_replay: bool) -> SyncKit:
        # Executions must not share a file, so each has a database in memory.
        world = replace(kit.options.world, always_replay=always_replay)
        made = SyncKit(replace(kit.options, folder=None, world=world), name=kit.name)
        made.world.faults = faults.copy()
        return made

    found = Sweep(
        make_kit,
        same_result=same_result,
        at_most_once=as_sequence(at_most_once),
        effects=effects_of(effects),
        before_each=before_each,
    ).run(workflow, input, script, options)
    return check(found) if is_checked else found
