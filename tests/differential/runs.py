"""Operations of runs except commits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepwell.clock import Instant, Span
from stepwell.ids import RunId
from stepwell.model.cancels import Cancelled
from stepwell.model.outbox import ANNOUNCED, Announce
from stepwell.model.runs import Claimed, Created, Debounced, NewRun, Run
from stepwell.model.states import ACTIVE, RunStatus, WaitKind
from tests.differential.world import FLOWS, KEYS, Operation, World

_ACTIVE_MAX = 6  # so that a snapshot after every operation stays cheap
_INPUTS = (b'{"n":1}', b'{"n":1}', b'j{"n":1}', b'j{"n":2}', b"")
_TAGS = ((), (), (("team", "ä"), ("vip", "")))


def is_crowded(world: World) -> bool:
    """Whether a small world has enough active runs."""
    return sum(run.status in ACTIVE for run in world.runs()) >= _ACTIVE_MAX


def new_run(world: World, **changes: Any) -> NewRun:
    """A run to start."""
    chance = world.chance
    workflow, _, version = chance.choice(FLOWS).rpartition("@")
    return NewRun(
        RunId(world.next_id("r")),
        workflow,
        int(version),
        chance.choice(_INPUTS),
        key=chance.choice([None, None, *KEYS]),
        delay=Span(chance.choice([0, 0, 0, 2_000_000])),
        dedup=Span(chance.choice([0, 0, 5_000_000])),
        own_id=world.likely(0.5),
        priority=chance.choice([0, 0, 0, 5, -5]),
        tags=chance.choice(_TAGS),
        deadline_at=Instant(world.now + chance.choice([-1, 1, 2_500_000])) if world.likely(0.2) else None,
        max_suspend=chance.choice([None, Span(7)]),
        on_conflict=chance.choice(["get", "get", "get", "raise", "replace"]),
        discards=world.likely(0.3),
        announce=an_announce(world),
    )._replace(**changes)


def an_announce(world: World) -> Announce | None:
    """The sinks to which ends are announced, if any."""
    if world.likely(0.5):
        return None
    statuses = ANNOUNCED if world.likely(0.7) else ANNOUNCED[:2]
    return Announce({status: world.chance.choice([("s",), ("s", "Ü")]) for status in statuses})


def create(world: World) -> Operation | None:
    """Start runs, new or known."""
    if is_crowded(world) and world.likely(0.7):
        return None
    # Common starts take fast paths, alone or in batches.
    is_lean = world.likely(0.35)
    changes: dict[str, Any] = {"key": None, "delay": Span(0), "priority": 0} if is_lean else {}
    runs = [new_run(world, **changes) for _ in range(world.chance.choice([1, 2, 3] if is_lean else [1, 1, 1, 2, 3]))]
    known = world.a_run()
    if known is not None and world.likely(0.1):
        runs.append(new_run(world, run_id=known.run_id))
    claimant = world.maybe_claimant()

    def facts(answer: list[Created]) -> Iterator[str]:
        for one in answer:
            yield from created_facts(one)
        if is_lean and len(answer) > 1 and all(one.is_new and not one.is_duplicate_id for one in answer):
            claims = sum(one.claimed is not None for one in answer)
            yield f"together, {'all' if claims == len(answer) else 'some' if claims else 'none'} claimed"

    return Operation("runs.create", (runs, claimant), lambda at: at.opened.store.runs.create(runs, claimant), facts)


def created_facts(one: Created) -> Iterator[str]:
    """The result of a start."""
    if one.is_duplicate_id:
        yield "duplicate id"
    elif one.is_new:
        yield "new"
    else:
        yield "known" if one.same_input else "known, other input"
    if one.claimed is not None:
        yield "claimed"
    if one.replaced is not None:
        yield "replaced"


def debounce(world: World) -> Operation | None:
    """Plan a run, or change the planned run."""
    key = world.chance.choice(KEYS)
    planned = [run for run in world.runs() if run.debounced_until is not None and run.key == key]
    new, known = new_run(world, key=key), world.a_run()
    if planned and world.likely(0.8):
        new = new._replace(run_id=planned[-1].run_id)
    elif known is not None and world.likely(0.2):
        new = new._replace(run_id=known.run_id)
    elif is_crowded(world):
        return None
    quiet, max_wait = Span(1_500_000), Span(world.chance.choice([1_000_000, 4_000_000]))

    def facts(answer: Debounced) -> list[str]:
        return ["stale" if answer.is_stale else "planned" if answer.is_new else "changed"]

    return Operation(
        "runs.debounce",
        (new, quiet, max_wait),
        lambda at: at.opened.store.runs.debounce(new, quiet=quiet, max_wait=max_wait),
        facts,
    )


def claim(world: World) -> Operation:
    """Claim runs that are due, or will be soon."""
    claimant = world.a_claimant()
    later = world.a_run(lambda run: run.wake_at is not None and run.wake_at > world.now)
    if later is not None and world.likely(0.3):
        assert later.wake_at is not None
        claimant = claimant._replace(limit=4, definitions=tuple(FLOWS), ahead=Span(later.wake_at - world.now))
    elif world.likely(0.3):
        claimant = claimant._replace(ahead=Span(world.chance.choice((1, 5_000, 1_000_000, 60_000_000))))
    return Operation(
        "runs.claim",
        (claimant,),
        lambda at: at.opened.store.runs.claim(claimant),
        lambda answer: _claimed(world, answer),
    )


def _claimed(world: World, answer: list[Claimed]) -> Iterator[str]:
    if not answer:
        yield "nothing"
    for one in answer:
        yield one.run.status.value
        entry = world.before["runs"][one.run.run_id]
        if entry["run"].debounced_until is not None:
            yield "debounced run began"
        if one.inbox.signals or one.inbox.events or one.inbox.children:
            yield "with mail"
        if (due := entry["run"].wake_at) is not None and due > world.now:
            yield "ahead of its time"


def load(world: World) -> Operation:
    """Read histories."""
    runs = [run.run_id for run in world.runs() if world.likely(0.3)] + ([RunId("nobody")] if world.likely(0.2) else [])
    return Operation("runs.load", (runs,), lambda at: at.opened.store.runs.load(runs))


def inbox(world: World) -> Operation:
    """Read the inbox of a run."""
    run = world.a_run(lambda one: _waits_for(world, one, WaitKind.CHILD)) if world.likely(0.8) else None
    run = run or world.a_run()
    run_id = RunId("nobody") if run is None else run.run_id

    def facts(answer: Any) -> Iterator[str]:
        yield "done"
        yield from (part for part in answer._fields if getattr(answer, part))

    return Operation("runs.inbox", (run_id,), lambda at: at.opened.store.runs.inbox(run_id), facts)


def _waits_for(world: World, run: Run, kind: WaitKind) -> bool:
    return any(wait.kind is kind for wait in world.state["runs"][run.run_id]["history"].waits)


def cancel(world: World) -> Operation:
    """Cancel a run and its descendants."""
    run = world.a_run(lambda one: one.status in ACTIVE) if world.likely(0.8) else world.a_run()
    run_id = RunId("nobody") if run is None or world.likely(0.05) else run.run_id
    compensate, reason, announce = (
        world.likely(0.5),
        world.chance.choice(["", 'it\'s "why"\n– \\ 🙂']),
        an_announce(world),
    )

    act = world.chance.choice(["", *(f"act {number}" for number in range(20))])

    def facts(answer: Cancelled) -> Iterator[str]:
        if not answer.changed:
            yield "too late"
        elif not answer.runs:
            yield "done before"
        for one in answer.runs:
            row = world.row(one)
            assert row is not None
            yield f"{row.status.value} {'with' if compensate else 'without'} compensation"
        if len(answer.runs) > 1:
            yield "descendants"
        if world.closed_with_runs():
            yield "record closed"

    return Operation(
        "runs.cancel",
        (run_id, compensate, reason, announce, act),
        lambda at: at.opened.store.runs.cancel(
            run_id, compensate=compensate, reason=reason, by="ann", announce=announce, act=act
        ),
        facts,
    )


def pause(world: World) -> Operation | None:
    """Pause a run."""
    owned = world.a_run(lambda one: one.owner is not None) if world.likely(0.4) else None
    run = owned or world.a_run(lambda one: one.status in ACTIVE) or world.a_run()
    if run is None:
        return None
    word = "told" if run.owner is not None else "paused"
    return Operation(
        "runs.pause",
        (run.run_id,),
        lambda at: at.opened.store.runs.pause(run.run_id, by="ann", reason="Ü"),
        lambda answer: [word if answer else "not possible"],
    )


def resume(world: World) -> Operation | None:
    """Resume a paused run, or remove the hold of an owned one."""
    held = world.a_run(lambda one: one.hold is not None and one.owner is not None) if world.likely(0.3) else None
    run = held or _stopped(world, RunStatus.PAUSED)
    if run is None:
        return None
    word = "withdrawn" if run.owner is not None else "resumed" if run.cause is None else "resumed undoing"
    even_if_held = world.likely(0.9)

    def facts(answer: bool) -> Iterator[str]:
        yield word if answer else "left to a person" if run.hold is not None else "not paused"

    return Operation(
        "runs.resume",
        (run.run_id, even_if_held),
        lambda at: at.opened.store.runs.resume(run.run_id, by="ann", even_if_held=even_if_held),
        facts,
    )


def resume_rollback(world: World) -> Operation | None:
    """Resume an incomplete rollback."""
    run = _stopped(world, RunStatus.COMPENSATION_FAILED)
    if run is None:
        return None
    return Operation(
        "runs.resume_rollback",
        (run.run_id,),
        lambda at: at.opened.store.runs.resume_rollback(run.run_id, by="ann"),
        lambda answer: ["resumed" if answer else "not stuck"],
    )


def retry(world: World) -> Operation | None:
    """Retry a failed run."""
    failed = [run for run in world.runs() if run.status is RunStatus.FAILED]
    parents = {run.parent.run_id for run in failed if run.parent is not None}
    with_children = [run for run in failed if run.run_id in parents]
    run = world.chance.choice(with_children) if with_children else _stopped(world, RunStatus.FAILED)
    if run is None:
        return None

    def facts(answer: bool) -> Iterator[str]:
        yield "retried" if answer else "not failed, or its key is taken"
        if not answer:
            return
        before, after = (state["runs"][run.run_id]["history"].entries for state in (world.before, world.state))
        if len(after) < len(before):
            yield "failed entries forgotten"
        failed = {one for one, entry in world.before["runs"].items() if entry["run"].status is RunStatus.FAILED}
        children = [one for one in world.runs() if one.parent is not None and one.parent.run_id == run.run_id]
        if any(child.run_id in failed and child.status is RunStatus.PENDING for child in children):
            yield "failed child retried"

    return Operation("runs.retry", (run.run_id,), lambda at: at.opened.store.runs.retry(run.run_id, by="ann"), facts)


def _stopped(world: World, status: RunStatus) -> Run | None:
    """A run with this status, sometimes any other."""
    return world.a_run(lambda run: run.status is status) or (world.a_run() if world.likely(0.2) else None)


def rescue(world: World) -> Operation:
    """Free the runs of dead workers."""
    stalls_max = world.chance.choice([1, 2, 3, 100])

    async def call(at: Any) -> list[RunId]:
        return sorted(await at.opened.store.runs.rescue(stalls_max=stalls_max))  # in no promised order

    def facts(answer: list[RunId]) -> Iterator[str]:
        if not answer:
            yield "nothing"
        for one in answer:
            row = world.row(one)
            assert row is not None
            yield (
                "paused"
                if row.failure is None and row.hold is not None
                else ("poisoned" if row.status is RunStatus.PAUSED else "freed")
            )

    return Operation("runs.rescue", (stalls_max,), call, facts)


def relinquish(world: World) -> Operation:
    """Free the runs that a worker does not know of."""
    worker = world.a_worker()
    keep = [run.run_id for run in world.runs() if world.likely(0.6)]

    async def call(at: Any) -> list[RunId]:
        return sorted(await at.opened.store.runs.relinquish(worker, keep))  # in no promised order

    return Operation("runs.relinquish", (worker, keep), call, lambda answer: ["freed" if answer else "nothing"])
