"""Long steps: what they keep is durable, fenced, there again when they go on, and gone when they are done."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sim.checks.shadow import Shadow
from stepwell.model.commits import Commit, End
from stepwell.model.entries import Attempt, Progress
from stepwell.model.failures import decode_failure
from stepwell.model.states import KEEPS_CURSORS, EntryStatus
from stepwell.replay.bodies import Body
from stepwell.replay.step_context import StepContext

if TYPE_CHECKING:
    from sim.checker import Checker
    from sim.world import World


class LongSteps:
    """What the bodies of long steps did, outside of all that is durable."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._turned: Counter[tuple[str, str, int]] = Counter()

    def turned(self, info: StepContext, page: int) -> None:
        """A page was worked off."""
        self._world.stats["pages"] += 1
        self._turned[info.run_id, info.path, page] += 1

    def kept(self, info: StepContext, page: int) -> None:
        """A checkpoint has returned: it must be durable."""
        self._world.stats["checkpoints kept"] += 1
        if b"j%d" % page not in self._world.checker.durable[info.run_id, info.path]:
            self._world.violate("I48", info.run_id, f"the checkpoint of page {page} of {info.path} is not durable")

    def check_end(self) -> None:
        """When nothing goes wrong, every page is worked off once: what was kept is not done again."""
        if not self._world.mix.is_calm or self._world.stats["poisonings"]:
            return
        for (run_id, path, page), count in self._turned.items():
            if count > 1 and not self._world.checker.shadow(run_id).retries:
                self._world.violate("I48", run_id, f"page {page} of {path} was worked off {count} times")


def integrate(checker: Checker, shadow: Shadow, commit: Commit) -> bool:
    """One applied commit; whether one of its bodies is further than before."""
    is_further = False
    for progress in commit.progress:
        path, known = shadow.path(progress.location), shadow.progress.get(progress.location)
        done = shadow.entries.get(progress.location)
        if done is not None and done.status is EntryStatus.DONE:
            checker.violate("I48", shadow.run_id, f"{path} is done, and kept how far it is")
        if known is not None and progress.turns < known.turns:
            checker.violate("I48", shadow.run_id, f"the turns of {path} went back")
        is_further |= progress.state != (None if known is None else known.state)
        shadow.progress[progress.location] = progress
        if progress.state is not None:
            checker.durable[shadow.run_id, path].add(progress.state)
        checker.kinds["progress"] += 1
    for location in commit.ended_progress:
        shadow.progress.pop(location, None)
    for entry in commit.entries:
        if entry.location in shadow.progress and entry.status is EntryStatus.DONE:
            checker.violate("I48", shadow.run_id, f"{shadow.path(entry.location)} is done, and its progress is left")
    for low, high in commit.trims:
        if any(low <= location < high for location in shadow.progress):
            checker.violate("I48", shadow.run_id, "progress was left in a range that is forgotten")
    if isinstance(commit.move, End) and commit.move.status not in KEEPS_CURSORS and shadow.progress:
        checker.violate("I48", shadow.run_id, f"{commit.move.status}, and progress is left")
    return is_further


def check_failure(checker: Checker, shadow: Shadow, attempt: Attempt) -> None:
    """A long step fails only where its program says so; giving its slot back is no failure."""
    path = shadow.path(attempt.location)
    node = checker.node_at(path)
    if node.get("kind", "").startswith("long") and attempt.failure is not None:
        failure = decode_failure(attempt.failure)
        if failure.type != "Torn":
            checker.violate("I10", shadow.run_id, f"{path} failed with {failure.summary}")


def check_state(checker: Checker, body: Body) -> None:
    """A body that starts has what is durable of it, and nothing else."""
    shadow = checker.shadow(body.info.run_id)
    durable: Progress | None = shadow.progress.get(body.location)
    given = None if body.progress is None else body.progress.state
    if given != (None if durable is None else durable.state):
        checker.violate("I48", shadow.run_id, f"{body.info.path} goes on from {given!r}, and {durable!r} is durable")


def compare(checker: Checker, run_id: str, progress: Any) -> None:
    """The store has what was committed."""
    shadow = checker.shadow(run_id)
    if tuple(progress) != tuple(sorted(shadow.progress.values())):
        checker.violate("I48", run_id, f"{len(progress)} steps have progress, not as it was committed")
