"""Commits, and their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stepwell.ids import Incarnation, RunId
from stepwell.model.cancels import PARENT_CLOSED
from stepwell.model.commits import Applied, BeginRollback, Commit, End, Move, Park, Pause, Release, Verdict
from stepwell.model.entries import Entry
from stepwell.model.live import ChunkKind
from stepwell.model.outbox import LIFECYCLE
from stepwell.model.runs import Run
from stepwell.model.states import ACTIVE, RunStatus, WaitKind
from stepwell.model.workers import Fence
from tests.differential import parts, records
from tests.differential.runs import an_announce, new_run
from tests.differential.world import Operation, World

_TRIMMED = "its parent no longer needs it"
_PARTS = (
    *("names", "entries", "attempts", "cursors", "ended_cursors", "trims", "progress", "ended_progress"),
    *("ended_attempts", "opened", "closed"),
    *("consumed", "refused", "received", "emits", "published", "appends"),
)


def apply(world: World) -> Operation | None:
    """Commit the work of owned runs; sometimes a commit that must be rejected."""
    owned = [run for run in world.runs() if run.owner is not None]
    if not owned:
        return None
    # Common commits take fast paths, alone or in batches.
    if world.likely(0.25):
        return _apply_plain(world, owned)
    is_lean = world.likely(0.35)
    count = world.chance.choice([1, 2, 4, 5] if is_lean else [1, 1, 1, 2, 3])
    drawn = world.chance.sample(owned, min(len(owned), count))
    # A store may take runs in any order: an end or trim cancels descendants before or after their commits.
    runs = [run for run in drawn if _ancestors(world, run).isdisjoint(one.run_id for one in drawn)]
    batch = [a_lean_commit(world, run) if is_lean else a_commit(world, run) for run in runs]
    # The same with events: what an ended run gives back may reach a run whose waits another commit changes.
    giving = [commit for commit in batch if _may_give_back(world, commit)]
    batch = giving[:1] or batch
    # The same with records: they are numbered in the order in which commits open them.
    batch[1:] = [commit._replace(opened=()) for commit in batch[1:]]
    if world.likely(0.15):
        # One error at a time: of two, each store may report another.
        batch[-1] = world.chance.choice(_WRONGS)(world, batch[-1])
    claimant = world.maybe_claimant()

    def facts(answer: list[Applied]) -> Iterator[str]:
        moves: list[type[Move | None]] = []
        for commit, applied in zip(batch, answer, strict=True):
            yield (word := note(world, commit, applied))
            if word == "applied":
                yield from _effects(world, commit, applied)
                moves.append(type(commit.move))
        if is_lean:
            yield from [f"{move.__name__} together" for move in (Park, End) if moves.count(move) > 1]

    return Operation(
        "runs.apply",
        (batch, claimant),
        lambda at: at.opened.store.runs.apply(at.numbers.to_own(batch), claimant),
        facts,
    )


def _apply_plain(world: World, owned: list[Run]) -> Operation | None:
    """A single step of a run: by its owner, or by a worker that owned it at its last step."""
    stepped = [run for run in world.runs() if run.run_id in world.stepped and run.status in ACTIVE]
    is_next = bool(stepped) and world.likely(0.7)
    run = world.chance.choice(stepped if is_next else owned)
    if not world.state["runs"][run.run_id]["history"].names:
        return None
    fence = world.stepped[run.run_id] if is_next else Fence(run.owner or Incarnation("nobody"), run.epoch)
    number = world.applied.get((run.run_id, fence.epoch), 0) + 1
    entry = parts.an_entry(world, run.last_seq + 1, parts.a_free_place(world, run.run_id))
    commit = Commit(run.run_id, fence, number, entries=(entry,))
    if world.likely(0.1):
        commit = world.chance.choice((_stale_epoch, _stranger, _wrong_number))(world, commit)

    def facts(answer: list[Applied]) -> Iterator[str]:
        yield (word := note(world, commit, answer[0]))
        if word == "applied":
            world.stepped[run.run_id] = commit.fence
            word = "applied, paused" if answer[0].held else "applied, cancelling" if answer[0].cancelling else word
        yield f"{'another' if is_next else 'a'} step alone: {word}"

    return Operation("runs.apply", ([commit], None), lambda at: at.opened.store.runs.apply([commit]), facts)


def _may_give_back(world: World, commit: Commit) -> bool:
    """Whether a commit may end a run that has events in its inbox: its own run, or one below it."""
    if not (commit.trims or isinstance(commit.move, (End, BeginRollback))):
        return False
    family = [commit.run_id]
    for run_id in family:
        family += [child for child in world.state["runs"][run_id]["children"] if child not in family]
    return any(world.state["runs"][run_id]["events"] for run_id in family)


def _ancestors(world: World, run: Run) -> set[RunId]:
    known, above = {one.run_id: one for one in world.runs()}, set[RunId]()
    while run.parent is not None and run.parent.run_id not in above:
        above.add(run.parent.run_id)
        run = known.get(run.parent.run_id, run)
    return above


def a_commit(world: World, run: Run) -> Commit:
    """The next commit of a run, as its worker could send it."""
    assert run.owner is not None
    state, likely = world.state["runs"][run.run_id], world.likely
    consumed = world.some([signal.number for signal in state["signals"]], 0.4)
    left = [signal.number for signal in state["signals"] if signal.number not in consumed]
    # Before the move, which may have a successor: ids grow in the order of creation.
    children = parts.children(world, run) if likely(0.3) else ()
    move = a_move(world, run) if likely(0.7 if run.status is RunStatus.COMPENSATING else 0.45) else None
    at = parts.a_place(world)
    asking = [signal.number for signal in state["signals"] if signal.ask_id or likely(0.2)]
    return Commit(
        run.run_id,
        Fence(run.owner, run.epoch),
        world.applied.get((run.run_id, run.epoch), 0) + 1,
        names=parts.NAMES if not state["history"].names else (),
        entries=parts.entries(world, run) if likely(0.6) else (),
        attempts=(parts.an_attempt(world, at),) if likely(0.2) else (),
        cursors=(parts.a_cursor(world, at),) if likely(0.2) else (),
        ended_cursors=(at,) if likely(0.08) else (),
        trims=parts.trims(world, at) if likely(0.15) else (),
        consumed=consumed,
        children=children,
        waits=parts.waits(world, run) if likely(0.85 if isinstance(move, Park) else 0.2) else None,
        move=move,
        refused=parts.refusals(world, left),
        replies=parts.replies(world, asking + world.asked.get(run.run_id, [])),
        received=world.some([event.number for event in state["events"]], 0.4),
        emits=parts.emits(world) if likely(0.35) else (),
        announce=an_announce(world),
        published=parts.published(world) if likely(0.2) else (),
        appends=parts.appends(world) if likely(0.3) else (),
        progress=parts.progress(world, at) if likely(0.2) else (),
        ended_progress=(at,) if likely(0.08) else (),
        opened=records.opened(world, at) if likely(0.3) else (),
        closed=records.closed(world, run) if likely(0.15) else (),
        ended_attempts=world.some([(one.location, one.number) for one in state["history"].attempts], 0.1),
    )


def a_lean_commit(world: World, run: Run) -> Commit:
    """The next common commit of a run: entries, a consumed signal, and a simple move."""
    full = a_commit(world, run)
    ends_well = End(RunStatus.COMPLETED, world.chance.choice([None, b"out"]))
    simple: list[Move] = [Park(parts.maybe_due(world)), ends_well, ends_well]
    move = world.chance.choice(simple)
    if run.status is not RunStatus.RUNNING:
        move = a_move(world, run)
    waits = parts.waits(world, run) if isinstance(move, Park) else None
    if waits is not None and world.likely(0.8):
        waits = tuple(wait for wait in waits if wait.kind not in (WaitKind.TOPIC, WaitKind.CHILD))
    return Commit(*full[:3], full.names, full.entries, consumed=full.consumed[:1], waits=waits, move=move)


def a_move(world: World, run: Run) -> Move:
    """A move that is possible, or that a cancel or deadline forbids."""
    due = None if world.likely(0.5) else parts.maybe_due(world)
    failure = parts.a_failure(world, run)
    # A run that fails because of its child, and is then retried, is a rare story.
    likelihood = 0.9 if parts.lost_places(world, run) else 0.3
    if run.status is RunStatus.RUNNING and parts.failed_places(world, run) and world.likely(likelihood):
        return End(RunStatus.FAILED, failure=failure)
    give_up: list[Move] = [Release(), Pause(failure)]
    if run.hold is not None and world.likely(0.3):
        return world.chance.choice(give_up)
    match run.status:
        case RunStatus.COMPENSATING:
            ends = [RunStatus.COMPENSATED, RunStatus.CANCELLED, RunStatus.FAILED, *[RunStatus.COMPENSATION_FAILED] * 2]
            end = End(world.chance.choice(ends), failure=world.chance.choice([None, failure]))
            return world.chance.choice([*give_up, Park(due), end, end, end])
        case RunStatus.CANCELLING:
            possible: list[Move] = [Release(), BeginRollback("cancelled", None, 0), End(RunStatus.CANCELLED)]
            return world.chance.choice([*possible, *possible, Park(due), Pause(failure), End(RunStatus.COMPLETED)])
        case _:
            undo = BeginRollback(
                world.chance.choice(["failed", "cancelled"]),
                world.chance.choice([None, failure]),
                world.chance.randint(0, 2),
            )
            failed = End(RunStatus.FAILED, failure=failure)
            heir = End(
                RunStatus.CONTINUED, b"left", successor=new_run(world, workflow=run.workflow, version=run.version)
            )
            ends_well = End(RunStatus.COMPLETED, world.chance.choice([None, b"", b"out"]))
            cancelled = End(RunStatus.CANCELLED, failure=world.chance.choice([None, failure]))
            parked: list[Move] = [Park(due)] * 6
            return world.chance.choice(
                [*parked, *give_up, undo, undo, failed, failed, heir, heir, ends_well, ends_well, cancelled]
            )


# --- commits that must be rejected --------------------------------------------------------------


def _stale_epoch(world: World, commit: Commit) -> Commit:
    return commit._replace(fence=commit.fence._replace(epoch=commit.fence.epoch + world.chance.choice([-1, 1])))


def _stranger(_: World, commit: Commit) -> Commit:
    return commit._replace(fence=commit.fence._replace(incarnation=Incarnation("ghost")))


def _wrong_number(world: World, commit: Commit) -> Commit:
    return commit._replace(number=commit.number + world.chance.choice([-2, 1, 2]))


def _unknown_run(_: World, commit: Commit) -> Commit:
    return commit._replace(run_id=RunId("nobody"))


def _gap(world: World, commit: Commit) -> Commit:
    entry = parts.an_entry(world, parts.last_seq(world, commit.run_id) + 2, parts.a_free_place(world, commit.run_id))
    return commit._replace(entries=(entry,))


def _second_entry(world: World, commit: Commit) -> Commit:
    """At a taken location, or twice at one location."""
    seq, recorded = parts.last_seq(world, commit.run_id) + 1, parts.recorded(world, commit.run_id)
    at = world.chance.choice(recorded) if recorded else parts.a_place(world)
    entries: Sequence[Entry] = [parts.an_entry(world, seq, at), parts.an_entry(world, seq + 1, at)]
    return commit._replace(entries=tuple(entries), trims=())


def _wrong_signal(world: World, commit: Commit) -> Commit:
    elsewhere = _numbers_elsewhere(world, commit.run_id, "signals")
    if world.likely(0.3):
        return commit._replace(refused=(parts.a_refusal(world, elsewhere),), replies=())
    return commit._replace(consumed=(elsewhere,), refused=())


def _wrong_event(world: World, commit: Commit) -> Commit:
    return commit._replace(received=(_numbers_elsewhere(world, commit.run_id, "events"),))


def _numbers_elsewhere(world: World, run_id: RunId, what: str) -> int:
    """A number of another run or of none, or of a signal that is no longer pending."""
    others = [entry for other, entry in world.state["runs"].items() if other != run_id]
    numbers = [one.number for entry in others for one in entry[what]]
    if what == "signals":
        row = world.state["runs"][run_id]["run"]
        pending = {one.number for one in world.state["runs"][run_id]["signals"]}
        numbers += [one.signal.number for one in world.state["unread"] if one.run_id == row.run_id]
        numbers = [number for number in numbers if number not in pending]
    return world.chance.choice(numbers) if numbers and world.likely(0.7) else 9_999


def _no_end(_: World, commit: Commit) -> Commit:
    return commit._replace(move=End(RunStatus.RUNNING))


def _no_successor(_: World, commit: Commit) -> Commit:
    return commit._replace(move=End(RunStatus.CONTINUED))


def _needless_successor(world: World, commit: Commit) -> Commit:
    return commit._replace(move=End(RunStatus.FAILED, successor=new_run(world)))


def _taken_successor(world: World, commit: Commit) -> Commit:
    return commit._replace(move=End(RunStatus.CONTINUED, successor=new_run(world, run_id=commit.run_id)), children=())


def _impossible_move(world: World, commit: Commit) -> Commit:
    row = world.row(commit.run_id)
    is_undoing = row is not None and row.status is RunStatus.COMPENSATING
    return commit._replace(move=End(RunStatus.COMPLETED if is_undoing else RunStatus.COMPENSATED))


_WRONGS: Sequence[Callable[[World, Commit], Commit]] = (
    _stale_epoch,
    _stranger,
    _wrong_number,
    _unknown_run,
    _gap,
    _second_entry,
    _wrong_signal,
    _wrong_event,
    _no_end,
    _no_successor,
    _needless_successor,
    _taken_successor,
    _impossible_move,
)


# --- results -----------------------------------------------------------------------


def note(world: World, commit: Commit, applied: Applied) -> str:
    """The result of a commit in a word; what its worker knows from then on is remembered."""
    if applied.verdict is not Verdict.APPLIED:
        return applied.verdict.value
    known = world.applied.get((commit.run_id, commit.fence.epoch), 0)
    world.applied[commit.run_id, commit.fence.epoch] = commit.number
    if commit.number <= known:
        return "applied before"
    asking = {one.number for one in world.before["runs"][commit.run_id]["signals"] if one.ask_id}
    world.asked.setdefault(commit.run_id, []).extend(number for number in commit.consumed if number in asking)
    return "applied"


def _effects(world: World, commit: Commit, applied: Applied) -> Iterator[str]:
    if applied.cancelling:
        yield "applied, cancel waiting"
    if applied.held:
        yield f"applied, paused: {type(commit.move).__name__}"
    yield from _move_facts(commit.move, applied)
    yield from _part_facts(commit)
    if world.closed_with_runs():
        yield "record closed with its run"
    yield from _family_facts(world, commit, applied)


def _move_facts(move: Move | None, applied: Applied) -> Iterator[str]:
    match move:
        case None:
            yield "no move"
        case Park():
            yield "Park, awake" if applied.is_awake else "Park"
        case End(status=status):
            yield f"End({status.value})"
        case BeginRollback(cause=cause):
            yield f"BeginRollback({cause})"
        case Release() | Pause():
            yield type(move).__name__


def _part_facts(commit: Commit) -> Iterator[str]:
    for name in _PARTS:
        if getattr(commit, name):
            yield name
    for wait in commit.waits or ():
        yield f"wait for a {wait.kind.value}"
        if wait.where:
            yield "wait with conditions"
        if wait.names and wait.kind.value == "topic":
            yield f"wait for events since {wait.since}"
    for reply in commit.replies:
        yield f"reply {reply.status.name.lower()}"
    for append in commit.appends:
        yield f"append {append.kind.name.lower()}"
        if append.begins:
            yield "append that begins a part"


def _family_facts(world: World, commit: Commit, applied: Applied) -> Iterator[str]:
    """Its effects on other runs."""
    for child in commit.children:
        if child.run_id in world.before["runs"]:
            yield "child with a known id"
            continue
        row: Any = world.row(child.run_id)
        yield "child with a taken key" if child.key is not None and row.key is None else "child"
        if child.parent is not None and child.parent.detached:
            yield "child, detached"
        if child.parent is not None and child.parent.tied:
            yield "child, tied"
    if applied.claimed:
        yield "child claimed"
    reasons = {run.reason for run in world.runs() if _is_cancelled_now(world, run, commit.run_id)}
    if _TRIMMED in reasons:
        yield "trimmed child cancelled"
    if PARENT_CLOSED in reasons:
        yield "tied child cancelled"
    owed_before = {one.number for one in world.before["owed"]}
    if any(one.name.startswith(LIFECYCLE) and one.number not in owed_before for one in world.state["owed"]):
        yield "announced"
    if _resets(world.state, commit.run_id) > _resets(world.before, commit.run_id):
        yield "append withdrew"


def _resets(state: dict[str, Any], run_id: RunId) -> int:
    streams = state["runs"][run_id]["streams"].values()
    return sum(chunk.kind is ChunkKind.RESET for chunks in streams for chunk in chunks)


def _is_cancelled_now(world: World, run: Run, parent: RunId) -> bool:
    """Whether a child of that run was not cancelled before the last operation, and is now."""
    before = world.before["runs"].get(run.run_id)
    is_new = before is None or not before["run"].reason
    return is_new and bool(run.reason) and run.parent is not None and run.parent.run_id == parent
