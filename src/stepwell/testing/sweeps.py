"""Crash everywhere: one clean run finds the commits, then a worker dies at each of them, and nothing may differ."""

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
from stepwell.testing.errors import CrashFound, Diverged, Stuck
from stepwell.testing.faults import matches
from stepwell.testing.nodes import Node
from stepwell.testing.scripts import Act
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


class Strike(NamedTuple):
    """What happens, and at which commit."""

    way: Way
    point: Point

    def __str__(self) -> str:
        return f"{self.point}, {_WORDS[self.way]}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one execution."""

    status: str
    output: Any
    failure: str
    paths: tuple[str, ...]  # recorded, sorted
    effects: Counter[str]
    began: Counter[str]  # bodies, by path
    guarded: frozenset[str]  # paths whose bodies looked at their idempotency key each time they ran
    problem: str = ""  # why it did not come to an end


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference, and where the crash was that made it."""

    strike: Strike | None  # None: without any crash
    how: str
    difference: str

    def __str__(self) -> str:
        return f"✕ {self.how}:\n{_indented(self.difference)}"


@dataclass(slots=True)
class CrashReport:
    """What a sweep found: `str(report)` begins with "38 points, 38 ok"."""

    workflow: str
    commits: list[Point] = field(default_factory=list)
    struck: list[Strike] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def points(self) -> int:
        """How many crashes there were: three for each commit."""
        return len(self.struck)

    @property
    def ok(self) -> int:
        """How many of them changed nothing."""
        return self.points - len({finding.strike for finding in self.findings if finding.strike is not None})

    def __str__(self) -> str:
        lines = [
            f"{self.points} points, {self.ok} ok",
            f"  {self.workflow}: {len(self.commits)} commits, each struck before, after, and with its ack lost",
        ]
        lines += [_indented(str(finding)) for finding in self.findings[:_SHOWN_MAX]]
        if len(self.findings) > _SHOWN_MAX:
            lines.append(f"  … and {len(self.findings) - _SHOWN_MAX} more")
        return "\n".join(lines)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


class WatchedContext(StepContext):
    """A step's context that notes whether its idempotency key was looked at."""

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


class Keys:
    """Which bodies looked at their idempotency key."""

    def __init__(self) -> None:
        self._looked: set[str] = set()
        self._ended_blindly: set[str] = set()

    def watch(self, body: Body, path: str) -> None:
        """A body is about to run."""
        if not body.takes_context:
            self._ended_blindly.add(path)
            return
        real, has_looked = body.fn, False

        def note() -> None:
            nonlocal has_looked
            has_looked = True
            self._looked.add(path)

        def end() -> None:
            if not has_looked:
                self._ended_blindly.add(path)

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
        """Paths whose bodies all looked. One that was killed before it came to that does not count."""
        return frozenset(self._looked - self._ended_blindly)


class Play:
    """One execution, from the start to the end of the run."""

    def __init__(self, kit: SyncKit, strike: Strike | None) -> None:
        self._kit = kit
        self._strike = strike
        self._keys = Keys()
        self.points: dict[int, Point] = {}
        self.has_struck = False
        kit.world.on_point, kit.world.on_begin = self._meet, self._begin

    def run(
        self, workflow: Workflow[Any, Any], input: Any, script: Sequence[Act], options: dict[str, Any], effects: Effects
    ) -> Outcome:
        """Play it, and say what came of it."""
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
        view = run_view(run.details()[-1].run)
        began = Counter(one.path for one in kit.world.begun)
        return Outcome(
            view.status,
            view.output,
            view.failure.summary if view.failure is not None else "",
            tuple(sorted(entry.path for entry in run.history())),
            Counter(map(repr, effects())) - before,
            began,
            self._keys.guarded,
            problem,
        )

    def _begin(self, node: Node, body: Body, path: str) -> None:
        self._keys.watch(body, path)

    def _meet(self, node: Node, moment: Moment, point: Point) -> None:
        self.points[point.number] = point
        strike = self._strike
        if strike is None or self.has_struck or point.number != strike.point.number:
            return
        if moment != ("before" if strike.way == "before" else "after"):
            return
        self.has_struck = True
        if strike.way == "ack lost":
            raise StoreUnavailableError("the acknowledgement was lost on its way")
        self._kit.world.kill(node)


class Sweep:
    """All executions of one workflow, and what differed between them."""

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
        """Find the commits, strike each of them, and report."""
        report = CrashReport(workflow.name)

        def play(strike: Strike | None, *, always_replay: bool = False) -> tuple[Outcome, Play]:
            if self._before_each is not None:
                self._before_each()
            with self._make_kit(always_replay) as kit:
                played = Play(kit, strike)
                return played.run(workflow, input, script, options, self._effects), played

        clean, first = play(None)
        if clean.problem:
            raise CrashFound(f"the run does not come to an end even without a crash:\n{clean.problem}")
        self._check_promised(clean)
        report.commits = [first.points[number] for number in sorted(first.points)]
        again, _ = play(None)
        self._compare(report, "without any crash, for the second time", clean, again)
        replayed, _ = play(None, always_replay=True)
        self._compare(report, "without any crash, but replayed at every commit", clean, replayed)
        for point in report.commits:
            for way in WAYS:
                strike = Strike(way, point)
                outcome, played = play(strike)
                report.struck.append(strike)
                if not played.has_struck:
                    self._note(report, strike, ["it did not come to this commit: it does not do the same each time"])
                else:
                    self._compare(report, strike, clean, outcome)
        return report

    def _check_promised(self, clean: Outcome) -> None:
        for promised in self._at_most_once:
            if not any(matches(promised, path) for path in clean.began):
                ran = ", ".join(clean.began) or "none"
                raise CrashFound(f"at_most_once names {promised!r}, and no body of that path ran; these did: {ran}")

    def _compare(self, report: CrashReport, strike: Strike | str, clean: Outcome, outcome: Outcome) -> None:
        found = [f"the run came to no end: {outcome.problem}"] if outcome.problem else []
        if self._same_result is not False and not outcome.problem:
            found += self._result_differences(clean, outcome)
        found += self._effect_differences(clean, outcome)
        for promised in self._at_most_once:
            for path, began in outcome.began.items():
                if matches(promised, path) and began > max(1, clean.began[path]) and path not in outcome.guarded:
                    found.append(
                        f"{path} was promised at most once, and its body began {began} times without looking at its "
                        "idempotency key"
                    )
        self._note(report, strike, found)

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
        return found

    def _effect_differences(self, clean: Outcome, outcome: Outcome) -> list[str]:
        found = []
        for effect in sorted(clean.effects.keys() | outcome.effects.keys()):
            expected, actual = clean.effects[effect], outcome.effects[effect]
            if actual > expected or (self._same_result is not False and actual < expected):
                found.append(f"the effect {effect} happened {_times(actual)} instead of {_times(expected)}")
        return found

    def _note(self, report: CrashReport, strike: Strike | str, found: list[str]) -> None:
        if found:
            struck = None if isinstance(strike, str) else strike
            report.findings.append(Finding(struck, str(strike), "\n".join(found)))


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def check(report: CrashReport) -> CrashReport:
    """The report, if nothing was found. Raises `CrashFound` with all of it otherwise."""
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
    """Crash everywhere, each time in a world of its own that is made like the one of the kit."""
    from stepwell.testing.sync import SyncKit

    kit.check_open()
    faults = kit.world.faults

    def make_kit(always_replay: bool) -> SyncKit:
        # A file would be the same one each time: the database of each execution is its own, in memory.
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
