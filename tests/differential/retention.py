"""Operations of retention: whole trees of ended runs are deleted, and what nothing needs any more."""

from __future__ import annotations

from collections.abc import Iterator

from stepwell.clock import Instant, Span
from stepwell.ids import RunId
from stepwell.model.retention import Ended, RunFacts, Swept, Tree
from stepwell.model.runs import Run
from stepwell.stores.base.retention import Part
from tests.differential.world import Handle, Operation, World

_REASON = 'asked by "ü"'


def list_ended(world: World) -> Operation:
    """Runs that have ended, page by page."""
    before = Instant(world.now - world.chance.choice([-1, 0, 1_000_000, 60_000_000]))
    limit = world.chance.choice([1, 3, 100])
    last = world.a_run(lambda run: run.ended_at is not None) if world.likely(0.4) else None
    after = None if last is None or last.ended_at is None else Ended(last.run_id, last.ended_at)

    def facts(found: list[RunFacts]) -> Iterator[str]:
        yield "found" if found else "nothing"
        yield from ("needed" for one in found if one.is_needed)
        yield from ("with children" for one in found if one.has_children)

    return Operation(
        "retention.list_ended",
        (before, limit, after),
        lambda at: at.opened.store.retention.list_ended(before=before, limit=limit, after=after),
        facts,
    )


def list_relatives(world: World) -> Operation:
    """Runs by their ids and by their parents. Their order is not promised."""
    named = [run.run_id for run in world.some(world.runs(), 0.2)] + [RunId("nobody")]
    parents = [run.run_id for run in world.some(world.runs(), 0.3)]

    async def call(at: Handle) -> list[RunFacts]:
        return sorted(await at.opened.store.retention.list_relatives(named, parents))

    return Operation(
        "retention.list_relatives", (named, parents), call, lambda found: ["found" if found else "nothing"]
    )


def prune(world: World) -> Operation | None:
    """Delete trees, some of which have changed or are not complete; sometimes an erasure."""
    seeds = [run for run in world.some(world.runs(), 0.25) if run.ended_at is not None]
    seeds = seeds[: world.chance.choice([1, 2, 3])]
    if not seeds:
        return None
    is_erasure = world.likely(0.3)
    taken: set[RunId] = set()
    trees: list[Tree] = []
    for seed in seeds:
        whole = _whole(world, seed)
        if not taken & {run.run_id for run in whole}:
            taken |= {run.run_id for run in whole}
            trees.append(_tree(world, whole))

    def facts(pruned: list[bool]) -> Iterator[str]:
        before = set(world.before["runs"])
        gone = before - set(world.state["runs"])
        for tree, is_gone in zip(trees, pruned, strict=True):
            yield ("erased" if is_erasure else "pruned") if is_gone else "left"
            if is_gone and len(tree.runs) > 1:
                yield "several runs"
            if is_gone != ({one.run_id for one in tree.runs} <= gone):
                yield "not as answered"  # never: no campaign requires it, and the comparison would show it
        if len(world.before["records"]) > len(world.state["records"]):
            yield "with records"
        if len(world.before["dead"]) > len(world.state["dead"]):
            yield "with dead letters"

    return Operation(
        "retention.prune",
        (trees, is_erasure),
        lambda at: at.opened.store.retention.prune(trees, is_erasure=is_erasure, by="ann", reason=_REASON),
        facts,
    )


def _whole(world: World, seed: Run) -> list[Run]:
    """Every run that belongs to it."""
    found = {seed.run_id: seed}
    rest = [seed]
    while rest:
        one = rest.pop()
        parent = None if one.parent is None else one.parent.run_id
        previous = None if one.previous is None else one.previous.run_id
        near = [world.row(RunId(each)) for each in (parent, previous, one.successor) if each is not None]
        near += [run for run in world.runs() if run.parent is not None and run.parent.run_id == one.run_id]
        for other in near:
            if other is not None and other.run_id not in found:
                found[other.run_id] = other
                rest.append(other)
    return [found[run_id] for run_id in sorted(found)]


def _tree(world: World, whole: list[Run]) -> Tree:
    """A plan as a pass makes it; a run that has not ended is planned as if it had."""
    runs = [Ended(run.run_id, run.ended_at or world.now) for run in whole]
    if world.likely(0.1):
        runs[0] = Ended(runs[0].run_id, Instant(runs[0].ended_at - 1))  # it was retried since
    if world.likely(0.05):
        runs.append(Ended(RunId("nobody"), world.now))
    stays = world.a_run(lambda run: run.run_id not in {one.run_id for one in runs})
    if stays is None or not world.likely(0.15):
        return Tree(tuple(runs))
    return Tree(tuple(runs), (Ended(stays.run_id, stays.ended_at or world.now),))


def sweep(world: World) -> Operation:
    """Delete old events, or signals that were consumed; where it goes on is a number of the store."""
    part: Part = world.chance.choice(["events", "signals"])
    before = Instant(world.now - world.chance.choice([-1, 0, 1_000_000]))
    limit = world.chance.choice([1, 5, 1_000])

    async def call(at: Handle) -> tuple[int, bool]:
        deleted, after, is_over = 0, 0, False
        while not is_over:
            swept: Swept = await at.opened.store.retention.sweep(part, before=before, after=after, limit=limit)
            deleted += swept.deleted
            is_over = swept.after is None
            after = swept.after or 0
        return deleted, is_over

    return Operation(
        "retention.sweep", (part, before, limit), call, lambda answer: [part if answer[0] else f"no {part}"]
    )


def has_old_blobs(world: World) -> Operation:
    """Whether there are large payloads of before then."""
    before = Instant(world.now - world.chance.choice([-1, 0, 30_000_000]))
    return Operation(
        "retention.has_old_blobs",
        (before,),
        lambda at: at.opened.store.retention.has_old_blobs(before=before),
        lambda answer: ["found" if answer else "nothing"],
    )


def sweep_blobs(world: World) -> Operation:
    """Delete large payloads that nothing refers to."""
    before = Instant(world.now - world.chance.choice([-1, 0, 30_000_000]))
    slack = Span(world.chance.choice([0, 1_000_000]))
    return Operation(
        "retention.sweep_blobs",
        (before, slack),
        lambda at: at.opened.store.retention.sweep_blobs(before=before, slack=slack),
        lambda answer: ["deleted" if answer else "nothing"],
    )
