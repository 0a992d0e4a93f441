"""Repairs: amendments of histories, and forks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepwell.ids import RunId
from stepwell.model.amendments import AMENDABLE, REWOUND, Amended, Amendment, Dropped, Fork
from stepwell.model.entries import Entry
from stepwell.model.locations import former
from stepwell.model.runs import Created, Run
from stepwell.model.states import RunStatus
from tests.differential import parts
from tests.differential.runs import an_announce, is_crowded, new_run
from tests.differential.world import Operation, World

_PARTS = (
    "forgotten",
    "ended_cursors",
    "ended_progress",
    "attempts",
    "entries",
    "waits",
    "children",
    "names",
    "consumed",
)


def amend(world: World) -> Operation | None:
    """Repair a run without an owner; sometimes a run in another state than expected, or with invalid entries."""
    at_rest = [run for run in world.runs() if run.status in AMENDABLE]
    with_children = [run for run in at_rest if world.state["runs"][run.run_id]["children"]]
    run = world.chance.choice(with_children) if with_children and world.likely(0.5) else None
    run = run or (world.chance.choice(at_rest) if at_rest and world.likely(0.9) else world.a_run())
    if run is None:
        return None
    amendment = _amendment(world, run)
    if world.likely(0.15):
        amendment = _wrong(world, amendment)

    def facts(answer: Amended) -> Iterator[str]:
        was = world.before["runs"].get(amendment.run_id)
        if answer is Amended.APPLIED and was is not None and was["run"].amendment == amendment.amendment_id:
            yield "applied before"
            return
        yield answer.value
        if answer is Amended.APPLIED:
            yield from (part for part in _PARTS if getattr(amendment, part))
            yield from _effects(world, amendment, run)

    return Operation(
        "runs.amend", (amendment,), lambda at: at.opened.store.runs.amend(at.numbers.to_own(amendment)), facts
    )


def _amendment(world: World, run: Run) -> Amendment:
    state, likely = world.state["runs"][run.run_id], world.likely
    history = state["history"]
    forgotten = world.some([entry.location for entry in history.entries])
    children = [world.state["runs"][child]["run"] for child in state["children"]]
    return Amendment(
        world.next_id("am"),
        run.run_id,
        run.status,
        run.epoch,
        run.revision,
        world.chance.choice(["rewind", "skip", "redrive"]),
        "ann",
        world.chance.choice(["", "weil’s 'so' ist"]),
        forgotten=forgotten,
        ended_cursors=world.some([one.location for one in history.cursors]),
        ended_progress=world.some([one.location for one in history.progress]),
        attempts=(parts.an_attempt(world, parts.a_place(world)),) if likely(0.3) else (),
        entries=_entries(world, run, forgotten) if likely(0.4) else (),
        waits=world.some(history.waits) if likely(0.7) else parts.waits(world, run),
        children=tuple(_dropped(world, child) for child in world.some(children, 0.6)),
        retries=world.some([child.run_id for child in children], 0.4),
        version=world.chance.choice([None, None, 1, 2]),
        input=world.chance.choice([None, None, b"", b"edited"]),
        announce=an_announce(world),
        names=parts.NAMES if not history.names else (),
        consumed=world.some([signal.number for signal in state["signals"]], 0.3),
    )


def _entries(world: World, run: Run, forgotten: tuple[Any, ...]) -> tuple[Entry, ...]:
    taken = set(parts.recorded(world, run.run_id)) - set(forgotten)
    at = parts.a_place(world)
    return () if at in taken else (parts.an_entry(world, run.last_seq + 1, at),)


def _dropped(world: World, child: Run) -> Dropped:
    assert child.parent is not None
    successor = world.chance.choice([None, RunId("somebody else")])
    return Dropped(child.run_id, former(child.parent.location, world.chance.randint(1, 300)), successor)


def _wrong(world: World, amendment: Amendment) -> Amendment:
    """One thing wrong at a time."""
    recorded = [at for at in parts.recorded(world, amendment.run_id) if at not in amendment.forgotten]
    taken = parts.an_entry(world, parts.last_seq(world, amendment.run_id) + 1, (recorded or [parts.a_place(world)])[0])
    gap = taken._replace(seq=taken.seq + 1)
    return world.chance.choice(
        [
            amendment._replace(run_id=RunId("nobody")),
            amendment._replace(epoch=amendment.epoch + world.chance.choice([-1, 1])),
            amendment._replace(revision=amendment.revision + world.chance.choice([-1, 1])),
            amendment._replace(status=world.chance.choice(list(RunStatus))),
            amendment._replace(entries=(gap,)),
            amendment._replace(entries=(taken,)),
        ]
    )


def _effects(world: World, amendment: Amendment, run: Run) -> Iterator[str]:
    yield f"from {run.status.value}"
    if world.closed_with_runs():
        yield "record closed"
    now = world.row(run.run_id)
    assert now is not None
    if now.version != run.version:
        yield "another version"
    if now.input != run.input:
        yield "another input"
    for dropped in amendment.children:
        child = world.row(dropped.run_id)
        if child is not None and child.reason == REWOUND:
            yield "child cancelled"
        if child is not None and dropped.successor is not None and child.replaced_by == dropped.successor:
            yield "key of a child freed"
    if any(world.before["runs"][one]["run"].status is RunStatus.FAILED for one in amendment.retries):
        yield "child retried"


def fork(world: World) -> Operation | None:
    """Start a run with a part of the history of another run."""
    source = world.a_run()
    if source is None or is_crowded(world):
        return None
    history = world.state["runs"][source.run_id]["history"]
    kept = world.some(history.entries)
    new = new_run(world)._replace(parent=None, on_conflict="raise", delay=new_run(world).delay)
    fork = Fork(
        new,
        source.run_id if world.likely(0.95) else RunId("nobody"),
        source.epoch + (world.likely(0.1) and 1),
        source.revision,
        history.names,
        tuple(entry._replace(seq=seq) for seq, entry in enumerate(kept, 1)),
        world.some(history.cursors),
        "ann",
        "why",
    )

    def facts(answer: Created | None) -> Iterator[str]:
        if answer is None:
            yield "stale"
        else:
            yield "forked" if fork.new.run_id not in world.before["runs"] else "forked before"

    return Operation("runs.fork", (fork,), lambda at: at.opened.store.runs.fork(fork), facts)
