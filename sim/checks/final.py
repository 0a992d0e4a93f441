"""The end of a seed: what must hold of everything that happened."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sim.checker import Checker
from sim.checks import progress
from sim.checks.replays import check_model, check_replay
from sim.checks.signals import mark_of
from sim.checks.starts import check_debounced
from sim.coroutines import at_once
from stepwell.model.messages import ASK
from stepwell.model.records import AFTER_END
from stepwell.model.signals import Delivery
from stepwell.model.states import TERMINAL, RunStatus

if TYPE_CHECKING:
    from sim.world import World


def check_end(world: World) -> None:
    """Everything that can only be said when all has ended."""
    checker = world.checker
    assert checker.rows.read_all() == checker.rows_now, "the checker has not seen every change"
    for run_id in checker.rows_now:
        detail = checker.detail(run_id)
        assert detail is not None
        checker.compare(run_id, detail.history.entries)
        progress.compare(checker, run_id, detail.history.progress)
        if detail.run.workflow != ASK:  # a run of stepwell's own, whose code is not here
            check_model(world, detail.run)
            check_replay(world, detail)
        checker.live.check_end(world, detail)
    _check_promises(world)
    check_debounced(world)
    _check_signals(world)
    checker.events.end()
    checker.run_messages.end()
    _check_bodies(world)
    world.leaves.check_end()
    checker.outbox.finish()
    world.progress.check_end()
    _check_lost_errors(world)
    workers = at_once(checker.inspector.views.list_workers())
    now = checker.inspector.now()
    live = [w for w in workers if w.lease_until > now and checker.incarnations.get(w.incarnation) in world.closed]
    if live:
        checker.violate("I43", "", f"{len(live)} workers left in order, and hold leases")


def _check_promises(world: World) -> None:
    checker, rows = world.checker, world.checker.rows_now
    for order in world.clients.orders:
        for run_id in order.told:
            if run_id not in rows:
                checker.violate("I14", run_id, "an acknowledged start is gone")
    for run_id, compensate in world.clients.cancels_told.items():
        row = rows[run_id]
        while row.successor is not None:
            row = rows[row.successor]
        if row.status is not RunStatus.CANCELLED:
            checker.violate("I13", run_id, f"its cancel was acknowledged, and it is {row.status}")
        left = checker.shadow(row.run_id).left_to_undo()
        if compensate and left:
            path = checker.shadow(row.run_id).path(left[0].location)
            checker.violate("I30", run_id, f"cancelled with compensation, and {path} was not undone")
    for row in rows.values():
        if row.status in TERMINAL and row.ended_at is None:
            checker.violate("I12", row.run_id, f"{row.status} without an end")


def _check_signals(world: World) -> None:
    """Every acknowledged signal was consumed once, or is still there to be seen."""
    checker: Checker = world.checker
    kept: Counter[str] = Counter()
    for run_id in checker.rows_now:
        pending = checker.pending(run_id)
        checker.signals.seen(pending)
        kept.update(checker.signals.numbers[signal.number] for signal in pending)
    for held in at_once(checker.inspector.views.list_held(limit=1000)):
        checker.signals.seen((held.signal,))
        kept[checker.signals.numbers[held.signal.number]] += 1
    letters = at_once(checker.inspector.views.list_unread(limit=10_000))
    after_end = Counter(mark_of(one.signal.payload) for one in letters if one.reason == AFTER_END)
    refused = {letter.signal.number for letter in letters if letter.reason}
    for number, run_id in checker.signals.refused.items():
        kept[checker.signals.numbers[number]] += 1
        if number not in refused:
            checker.violate(
                "I21", run_id, f"signal {checker.signals.numbers[number]} did not fit, and nobody can see it"
            )
    for mark, answer in world.clients.signals_told.items():
        if answer in (Delivery.DELIVERED, Delivery.HELD):
            # With a dedup key it is one per run: sent again after the run has ended, it is another one.
            count, stores = kept[mark] + len(checker.signals.used[mark]), checker.signals.stores[mark]
            if not 1 <= count <= stores:
                checker.violate(
                    "I21", world.clients.marks[mark], f"signal {mark} ({answer}) is there {count} times of {stores}"
                )
    checker.records.end(world, kept + after_end)


def _check_bodies(world: World) -> None:
    """When nothing goes wrong, every attempt runs its body exactly once."""
    counts = Counter((one.run_id, one.path, one.attempt) for one in world.ledger.executions)
    world.stats["bodies repeated"] += sum(count - 1 for count in counts.values())
    if not world.mix.is_calm or world.stats["poisonings"]:
        return
    for (run_id, path, attempt), count in counts.items():
        # A retried race begins anew, with the branches that had lost.
        is_long = world.checker.node_at(path).get("kind", "").startswith("long")
        if count > 1 and not is_long and not world.checker.shadow(run_id).retries:
            world.checker.violate(
                "I1", run_id, f"attempt {attempt} of {path} ran {count} times, and nothing had failed"
            )


def _check_lost_errors(world: World) -> None:
    """No error vanishes in a callback or a task that nobody looks at."""
    for lane, message, error in world.problems:
        if lane is None or not lane.is_dead:
            where = "the world" if lane is None else lane.name
            world.checker.violate("I47", "", f"in {where}: {message}: {error!r}")
    for lane in world.loop.lanes:
        for task in lane.tasks:
            if task.done() and not task.cancelled() and task._log_traceback:
                world.checker.violate("I47", "", f"task {task.get_name()} of {lane.name} died: {task.exception()!r}")
