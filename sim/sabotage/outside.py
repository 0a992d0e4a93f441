"""Switches that bring back the defects that users found: cases, sweeps and seeds must find them again."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from sim.cases import repairs
from sim.sabotage.patches import Patches, nothing, switches
from sim.sabotage.programs import odd_values_escape
from stepwell.clock import Instant
from stepwell.engine import repair_drafts
from stepwell.engine.changes import ChangeFlag
from stepwell.engine.lookups import SharedLookup
from stepwell.engine.results import Results
from stepwell.engine.run_messages import RunMessages
from stepwell.ids import RunId
from stepwell.model.commits import Move
from stepwell.model.entries import Entry
from stepwell.model.failures import is_closing
from stepwell.model.locations import Location
from stepwell.model.runs import Inbox, Ranges, Run
from stepwell.model.signals import Signal
from stepwell.model.states import RunStatus
from stepwell.replay import branches, compensations, driver, rollback, scopes
from stepwell.replay.bodies import Succeeded
from stepwell.replay.event_loop import TurnTask
from stepwell.replay.journal import Journal
from stepwell.replay.primitives import child, join, loop, map, race, reply, step, wait_any
from stepwell.replay.primitives.receive import fits
from stepwell.replay.scopes import Scope
from stepwell.replay.signals import SignalSelection
from stepwell.replay.step_options import qualified_name
from stepwell.replay.suspend import ContinueAsNew
from stepwell.replay.turn import Turn
from stepwell.replay.waits import Waits
from stepwell.stores.base import faults
from stepwell.stores.base.timeline import Anchor
from stepwell.stores.postgres import pool
from stepwell.stores.sqlite import caller_transactions
from stepwell.stores.sqlite.transitions import ends, moves, operators
from stepwell.worker import invocations
from stepwell.worker.claimer import Claimer
from stepwell.worker.code import Code
from stepwell.worker.execution import Execution
from stepwell.worker.executions import Executions
from stepwell.worker.registration import Registration
from stepwell.worker.supervisor import Supervisor


def compensations_by_name() -> Patches:
    """K1. The compensation of a step is the last one that was registered under its name."""
    known: dict[str, Callable[..., Any]] = {}
    describe, read = compensations.describe_call, compensations.read_call

    def describe_call(turn: Turn, location: Location, described: Any, *call: Any) -> bytes:
        compensation = described.options_.compensate
        known[qualified_name(compensation)] = compensation
        return describe(turn, location, described, *call)

    def read_call(turn: Turn, entry: Entry) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        compensation, given = read(turn, entry)
        return known.get(qualified_name(compensation), compensation), given

    return [(step, "describe_call", describe_call), (rollback, "read_call", read_call)]


def arguments_shared() -> Patches:
    """K2. A body gets the objects of the code, and what undoes it gets what the body has left of them."""
    store = step._store

    def _store(turn: Turn, location: Location, kind: Any, made: Any, body: Any, *rest: Any) -> Any:
        *others, undo = rest
        if undo is not None:
            undo = compensations.describe_call(turn, location, made, body.args, body.kwargs)
        stored: Any = store(*(turn, location, kind, made, body, *others, undo))
        return stored

    return [(step, "is_fixed", lambda args, kwargs: True), (step, "_store", _store)]


def branches_not_run_again() -> Patches:
    """K3. A replay passes over joins and maps: what they did to variables outside is lost."""
    return [
        (join, "is_plain", lambda branch: True),
        (join, "guard_of", lambda *_: None),
        (map, "is_plain", lambda function: True),
        (map, "guard_of", lambda *_: None),
    ]


def captures_not_compared() -> Patches:
    """K3. Nobody notices that the body of a race or loop changes variables outside, which a replay does not."""
    return [(loop, "guard_of", lambda *_: None), (race, "guard_of", lambda *_: None)]


def repairs_loosen_all() -> Patches:
    """K5. After a repair the code may leave out everything that was recorded before it."""

    def loosened(loose: Ranges, taken: Iterable[int], kept: Iterable[int]) -> Ranges:
        return (*loose, (0, max(kept, default=0)))

    return [(operators, "loosened", loosened), (repair_drafts, "loosened", loosened)]


def tasks_hash_by_address() -> Patches:
    """K6. Sets of tasks have another order in every process."""
    hashes = itertools.count(1)
    known: dict[int, int] = {}

    def by_address(self: TurnTask) -> int:
        # Like an address it is the task's own, says nothing about its order, and is another one in a replay.
        return known.setdefault(id(self), next(hashes) * 0x9E3779B97F4A7C15 % (1 << 61))

    return [(TurnTask, "__hash__", by_address)]


def reply_given_again() -> Patches:
    """K7. A replay does not find the reply of code that is not run again."""
    return [(reply.Asked, "_find", lambda self: None)]


def looks_use_at_the_end() -> Patches:
    """K8. What was only looked at is consumed when the code ends or continues as new."""
    original = driver._conclude

    def _conclude(turn: Turn, workflow: Any) -> Move:
        observations = turn.mailbox.observations
        if observations is not None and (turn.error is None or isinstance(turn.error, ContinueAsNew)):
            names = {name for seen in observations._seen.values() for name in seen.names}
            observations._consume([one for one in turn.mailbox.signals if one.name in names])
        return original(turn, workflow)

    return [(driver, "_conclude", _conclude)]


def rollback_without_mail() -> Patches:
    """K9. A compensation in the claim that failed sees an empty mailbox."""
    original = Code.begin_rollback

    def begin_rollback(self: Code, run: Run) -> None:
        self._left = self._came = None
        self.inbox = Inbox()
        original(self, run)

    return [(Code, "begin_rollback", begin_rollback)]


def trims_what_is_named() -> Patches:
    """K10. Trimming a loop removes the checkpoints and spawned runs that later code names."""
    return [(Journal, "trim_loop", lambda self, at, first, end: self.trim(first, end))]


def misfits_start_anew() -> Patches:
    """K11. A signal that does not fit starts the timers of its wait, and its limit, anew."""
    first = wait_any._first

    async def _first(scope: Scope, location: Location, awaited: Any, takes: Any) -> Any:
        while True:
            label, arrival = await first(scope, location, awaited, SignalSelection())
            if not isinstance(arrival, Signal) or fits(scope, location, arrival, takes):
                return label, arrival

    return [(wait_any, "_first", _first), (Waits, "take_repeated", lambda self, location: None)]


def rollback_under_the_deadline() -> Patches:
    """K12. The children of a compensation have the deadline of the run, which has passed."""
    original = child.new_child

    def new_child(scope: Scope, location: Location, *given: Any, detached: bool) -> Any:
        made = original(scope, location, *given, detached=detached)
        return made if detached else made._replace(deadline_at=scope.turn.run.deadline_at)

    return [(child, "new_child", new_child)]


def rollback_at_the_time_of_its_claim() -> Patches:
    """K13. The time in a compensation is the time at which its claim began."""

    class ClaimScope(Scope):
        def __init__(self, turn: Turn, location: Location, time: Instant, parent: Scope | None = None) -> None:
            super().__init__(turn, location, turn.now, parent)

    return [(rollback, "Scope", ClaimScope), (rollback, "_record_beginning", lambda scope: None)]


def defects_end_the_loop() -> Patches:
    """K14. What one run raises ends the loop of the worker that came to it, and nobody starts that again."""

    def break_off(self: Execution, error: BaseException) -> None:
        raise error

    return [
        (Execution, "break_off", break_off),
        (Code, "conclude", lambda self, turn: driver.conclude(turn, self.workflow)),
        (Supervisor, "_ended", lambda self, tended, task: task.cancelled() or task.exception()),
        *odd_values_escape(),  # one of the things that a run can raise
    ]


def generator_exit_hangs() -> Patches:
    """K15. A body that raises `GeneratorExit` is taken for one that is torn down, and never ends."""
    return [(invocations, "is_closing", lambda error: isinstance(error, GeneratorExit) or is_closing(error))]


def stop_iteration_hangs() -> Patches:
    """K15. What a plain function raises is set on a future, which does not take a `StopIteration`."""

    def begin(may_begin: Callable[[], bool], call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return Succeeded(call(*args, **kwargs))

    return [(invocations, "_begin", begin)]


def branches_raise_exceptions_only() -> Patches:
    """K16. A branch that is left by a `CancelledError` never ends."""

    def is_failure(error: BaseException, inner: Scope) -> bool:
        return isinstance(error, Exception)

    return [(branches, "is_failure", is_failure), (map, "is_failure", is_failure)]


def timeouts_count_the_queue() -> Patches:
    """K17. The time of a plain function begins when it is put into the queue for a thread."""
    original = invocations._Timer.__init__

    def counts_at_once(self: Any, body: Any) -> None:
        original(self, body)
        self.timeout = asyncio.timeout(self._seconds)

    return [(invocations._Timer, "__init__", counts_at_once), (invocations._Timer, "begin", nothing)]


def two_copies_accepted() -> Patches:
    """K4. Only the engine that has a file open refuses connections of another SQLite; other engines take them."""
    return [(caller_transactions, "is_open", lambda file: False)]


def chain_found_by_old_hints() -> Patches:
    """R1. Who moves on to the next run of a chain looks for it among those that a hint named before."""

    async def find(self: SharedLookup, target: str) -> Run | None:
        return dict(zip(self.targets, await self._store.views.find_many(self.targets), strict=True))[target]

    async def wait(self: Results, run_id: RunId, *, is_at_work: bool) -> Run:
        changed = ChangeFlag()
        while True:
            self._changes.listen(run_id, changed)
            try:
                lookup, changed.lookup = changed.lookup, None
                changed.clear()
                run = await self._look(run_id, lookup or self._store.views)
                if run is None or run.status is not RunStatus.CONTINUED or run.successor is None:
                    if run is not None and await self._is_settled(run):
                        return run
                    await changed.heard()
            finally:
                self._changes.unlisten(run_id, changed)
            if run is not None and run.successor is not None:
                run_id = run.successor

    return [(SharedLookup, "find", find), (Results, "_wait", wait)]


def clock_stands_still() -> Patches:
    """K18. Once the clock is set back, the time of the store stands still until it has caught up."""
    return [(Anchor, "at", lambda self, uptime: self.floor)]


def loops_not_watched() -> Patches:
    """K14. A loop of a worker that ends stays so, while another one renews the lease."""
    return [(Supervisor, "_ended", nothing)]


def rejections_are_final() -> Patches:
    """R2. What a store rejects is taken for a defect of the run, though the store will accept it soon."""
    *others, (kind, _) = faults._ERRORS
    return [(faults, "_ERRORS", (*others, (kind, faults.FINAL)))]


def lease_never_taken_anew() -> Patches:
    """A lease that a loop was taking anew when it ended is waited for for ever."""
    original = Registration.renew_once

    async def renew_once(self: Registration) -> bool:
        return self._resources.lease.is_granted and await original(self)

    return [(Registration, "renew_once", renew_once)]


def late_claims_begin_bodies() -> Patches:
    """A run whose claim or history is answered while its worker leaves begins a body, which is cut off."""
    original = Execution.begin

    def begin(self: Execution, *, is_leaving: bool = False) -> None:
        original(self)
        if is_leaving:
            self.leave()

    return [(Execution, "begin", begin)]


def late_reclaims_begin_bodies() -> Patches:
    """A parked run that is claimed again while its worker leaves begins a body, which is cut off."""
    original = Execution.reclaim
    return [(Execution, "reclaim", lambda self, claimed, *, is_leaving=False: original(self, claimed))]


def histories_not_awaited() -> Patches:
    """A worker that leaves does not wait for the histories that it has asked for."""
    return [(Executions, "is_empty", property(lambda self: not self._active))]


def timers_looked_at_late() -> Patches:
    """A worker that waits for the next timer of a parked run sleeps too long, unless a hint comes."""
    original = Claimer._wait
    return [(Claimer, "_wait", lambda self, seconds: original(self, seconds + 6.0))]


def waits_ignore_the_lease() -> Patches:
    """R3. A call to the server waits for a minute, however short the lease is."""
    return [(pool, "ANSWER_SECONDS_MAX", 60.0), (pool.ConnectionPool, "set_lease", nothing)]


def names_not_numbered() -> Patches:
    """The second use of a name gets the record of the first."""

    def nth(scope: Location, name: bytes, number: int) -> Location:
        return Location(scope + name)

    def enter(self: Scope, location: Location, kind: Any) -> Any:
        self.turn.journal.visited.pop(location, None)
        return original(self, location, kind)

    original = Scope._enter
    return [(scopes, "nth", nth), (Scope, "_enter", enter)]


def arguments_not_compared() -> Patches:
    """Nobody notices that a replay passes other arguments to a numbered use of a step."""
    return [(Scope, "_check_arguments", nothing)]


def watchers_not_woken() -> Patches:
    """The end of a run wakes only its parent."""
    return [(ends, "notify_watchers", nothing), (moves, "notify_watchers", nothing)]


def messages_named_anew() -> Patches:
    """A message that is sent again has another id."""
    original, count = RunMessages.deliver, itertools.count()

    async def deliver(self: RunMessages, event: Any) -> None:
        await original(self, replace(event, id=f"{event.id}-{next(count)}"))

    return [(RunMessages, "deliver", deliver)]


OUTSIDE_SWITCHES = switches(
    names_not_numbered,
    arguments_not_compared,
    watchers_not_woken,
    messages_named_anew,
    compensations_by_name,
    arguments_shared,
    branches_not_run_again,
    captures_not_compared,
    repairs_loosen_all,
    tasks_hash_by_address,
    reply_given_again,
    looks_use_at_the_end,
    rollback_without_mail,
    trims_what_is_named,
    misfits_start_anew,
    rollback_under_the_deadline,
    rollback_at_the_time_of_its_claim,
    defects_end_the_loop,
    generator_exit_hangs,
    branches_raise_exceptions_only,
    stop_iteration_hangs,
    timeouts_count_the_queue,
    two_copies_accepted,
    chain_found_by_old_hints,
    clock_stands_still,
    loops_not_watched,
    rejections_are_final,
    lease_never_taken_anew,
    late_claims_begin_bodies,
    late_reclaims_begin_bodies,
    histories_not_awaited,
    timers_looked_at_late,
)
OUTSIDE_POSTGRES_SWITCHES = {f"postgres-{name}": switch for name, switch in switches(waits_ignore_the_lease).items()}
# Which cases show each of them; all others are shown by random programs.
SHOWN_BY: dict[str, tuple[str, ...]] = {
    "names-not-numbered": ("names that are used again",),
    "arguments-not-compared": ("arguments that differ in a replay",),
    "watchers-not-woken": ("a run that tells others",),
    "messages-named-anew": ("a run that tells others",),
    "compensations-by-name": ("compensations that share a name",),
    "arguments-shared": ("a body that consumes its argument", "a body that adds to its argument"),
    "branches-not-run-again": ("branches that write outside",),
    "captures-not-compared": ("iterations that write outside", "a race that writes outside"),
    "two-copies-accepted": ("two copies of SQLite on one file",),
    "repairs-loosen-all": tuple(repairs.CASES),
    "tasks-hash-by-address": ("sets of tasks",),
    "reply-given-again": ("replies in branches",),
    "looks-use-at-the-end": ("a look before the run continues as new",),
    "rollback-without-mail": ("a compensation that reads the mailbox",),
    "trims-what-is-named": ("a checkpoint in a trimmed iteration", "runs spawned by trimmed iterations"),
    "misfits-start-anew": ("signals that do not fit, and a timer", "signals that do not fit, and a limit"),
    "rollback-under-the-deadline": ("a child of a compensation",),
    "rollback-at-the-time-of-its-claim": ("a compensation that tells the time",),
    "defects-end-the-loop": ("a value that nobody can look at",),
    "generator-exit-hangs": ("bodies that raise StopIteration",),
    "stop-iteration-hangs": ("StopIteration in a thread",),
    "branches-raise-exceptions-only": ("a branch that is cancelled", "items that are cancelled"),
    "timeouts-count-the-queue": ("timeouts in line for a thread",),
    "chain-found-by-old-hints": ("the result of a chain",),
    "postgres-waits-ignore-the-lease": ("half-open connections",),
}
# Every defect of the review that a simulation or sweep can show, and the switches that bring it back.
DEFECTS: dict[str, tuple[str, ...]] = {
    "K1": ("compensations-by-name",),
    "K2": ("arguments-shared",),
    "K3": ("branches-not-run-again", "captures-not-compared"),
    "K4": ("two-copies-accepted",),
    "K5": ("repairs-loosen-all",),
    "K6": ("tasks-hash-by-address",),
    "K7": ("reply-given-again",),
    "K8": ("looks-use-at-the-end",),
    "K9": ("rollback-without-mail",),
    "K10": ("trims-what-is-named",),
    "K11": ("misfits-start-anew",),
    "K12": ("rollback-under-the-deadline",),
    "K13": ("rollback-at-the-time-of-its-claim",),
    "K14": ("defects-end-the-loop", "loops-not-watched"),
    "K15": ("generator-exit-hangs", "stop-iteration-hangs"),
    "K16": ("branches-raise-exceptions-only",),
    "K17": ("timeouts-count-the-queue",),
    "K18": ("clock-stands-still",),
    "R1": ("chain-found-by-old-hints",),
    "R2": ("rejections-are-final",),
    "R3": ("postgres-waits-ignore-the-lease",),
}
