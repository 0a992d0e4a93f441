"""Reads for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.ids import RunId, SignalId
from stepwell.model.states import RunStatus
from stepwell.stores.base.filters import NUMBERS, Condition, Field, Order, Pattern, Relation, SortKey
from stepwell.stores.base.views import RunFilter
from tests.differential import attributes
from tests.differential.events import TOPICS
from tests.differential.world import FLOWS, KEYS, Handle, Operation, World


def _read(name: str, *given: Any, call: Callable[[Any], Any]) -> Operation:
    async def ask(at: Handle) -> Any:
        return await call(at.opened.store.views)

    return Operation(f"views.{name}", given, ask, lambda answer: ["asked", "found" if answer else "nothing"])


def a_run_id(world: World, having: str = "run") -> RunId:
    """The id of a run, mostly one with content of this kind."""
    run = world.a_run(lambda one: bool(world.state["runs"][one.run_id][having])) if world.likely(0.8) else None
    run = run or world.a_run()
    return RunId("nobody") if run is None or world.likely(0.05) else run.run_id


def a_limit(world: World) -> int:
    """A limit of a page."""
    return world.chance.choice([1, 3, 100])


def find(world: World) -> Operation:
    """By id or key."""
    target = world.a_target()
    return _read("find", target, call=lambda views: views.find(target))


def find_many(world: World) -> Operation:
    """By ids and keys."""
    targets = [world.a_target() for _ in range(world.chance.randint(0, 5))]
    return _read("find_many", targets, call=lambda views: views.find_many(targets))


def find_by_prefix(world: World) -> Operation:
    """By a prefix of the id."""
    prefix, limit = world.chance.choice(["r", "r00000", "R", "", "r%", "r_"]), a_limit(world)
    return _read("find_by_prefix", prefix, limit, call=lambda views: views.find_by_prefix(prefix, limit=limit))


def detail(world: World) -> Operation:
    """Everything about one run."""
    run_id = a_run_id(world)
    return _read("detail", run_id, call=lambda views: views.detail(run_id))


def list_published(world: World) -> Operation:
    """The published values of a run."""
    run_id = a_run_id(world, "published")
    return _read("list_published", run_id, call=lambda views: views.list_published(run_id))


def list_streams(world: World) -> Operation:
    """The streams of a run."""
    run_id = a_run_id(world, "streams")
    return _read("list_streams", run_id, call=lambda views: views.list_streams(run_id))


def read_stream(world: World) -> Operation:
    """A page of a stream."""
    run_id, stream = a_run_id(world, "streams"), world.chance.choice(["s", "T", "ä", "none"])
    after, limit = world.chance.choice([0, 0, 1, 3]), world.chance.choice([1, 2, 100])
    return _read(
        "read_stream",
        (run_id, stream, after, limit),
        call=lambda views: views.read_stream(run_id, stream, after=after, limit=limit),
    )


def list_progress(world: World) -> Operation:
    """The progress of long steps."""
    run_ids = [a_run_id(world) for _ in range(world.chance.randint(0, 4))]
    return _read("list_progress", run_ids, call=lambda views: views.list_progress(run_ids))


_PATTERNS: dict[Field, tuple[Pattern, ...]] = {
    Field.ID: (("r", ""), ("r0", "1"), ("", "1")),
    Field.KEY: (("k", ""), ("schlüssel 3",), ("", " ", "")),
    Field.WORKFLOW: (("", "flow"), ("Über", ""), ("flow",)),
    Field.AT: (("a",), ("", "/", "")),
    Field.TAG: (("vip=", ""), ("team=ä",), ("team", "x")),
    Field.WAITING: (("signal:", ""), ("timer:", ""), ("topic:", ""), ("child:",), ("signal:go",)),
    Field.ERROR: (("", "oops: no “ü”"), ("", "none", "")),
    Field.WORD: (("", "oops", ""), ("", "flow", ""), ("", "k1", "")),
    Field.INPUT: (("1",), ("2",)),
    Field.TITLE: (("", "titel", ""), ("", "", "")),
    Field.STARTED_BY: (("ann",), ("", "n"), ("Ü", "")),
}


def _a_condition(world: World) -> Condition:
    field = world.chance.choice(list(Field))
    if field is Field.ATTRIBUTE:
        return attributes.a_condition(world)
    if field not in NUMBERS:
        values = world.some(list(_PATTERNS[field]), 0.5)
    else:
        number = world.now if field is Field.CREATED else 2_000_000 if field is Field.TOOK else 2
        values = ((world.chance.choice(list(Relation)).value, str(number - world.chance.choice([0, 0, 1_000_000]))),)
    return Condition(field, values, world.likely(0.3), "n" if field is Field.INPUT else "")


def a_filter(world: World) -> RunFilter:
    """A filter of runs."""
    return RunFilter(
        statuses=world.some(list(RunStatus), world.chance.choice([0, 0.3])),
        workflow=world.chance.choice([None, None, "flow", "Über flow", "none"]),
        key=world.chance.choice([None, None, *KEYS]),
        parent=a_run_id(world) if world.likely(0.2) else None,
        conditions=tuple(_a_condition(world) for _ in range(world.chance.choice([0, 0, 1, 2]))),
        order=Order(
            world.chance.choice([SortKey.ID, *SortKey]),
            world.likely(0.7),
            world.chance.choice(attributes.NAMES) if world.likely(0.2) else "",
        ),
    )


def list_runs(world: World) -> Operation:
    """Some runs, page by page."""
    where = a_filter(world)
    limit, before = a_limit(world), a_run_id(world) if world.likely(0.3) else None
    return _read(
        "list_runs", (where, limit, before), call=lambda views: views.list_runs(where, limit=limit, before=before)
    )


def count_runs(world: World) -> Operation:
    """The number of some runs."""
    where, limit = a_filter(world), a_limit(world)
    return _read("count_runs", (where, limit), call=lambda views: views.count_runs(where, limit=limit))


def list_attribute_kinds(world: World) -> Operation:
    """The types of an attribute."""
    name = world.chance.choice([*attributes.NAMES, "none"])
    return _read("list_attribute_kinds", name, call=lambda views: views.list_attribute_kinds(name))


def list_workers(_: World) -> Operation:
    """The registered workers."""
    return _read("list_workers", call=lambda views: views.list_workers())


def list_held(world: World) -> Operation:
    """Signals without a run."""
    held = [one.key for one in world.state["held"]]
    limit, key = a_limit(world), world.chance.choice([None, None, *KEYS, *held])
    return _read("list_held", limit, key, call=lambda views: views.list_held(limit=limit, key=key))


def list_unread(world: World) -> Operation:
    """Signals that no run will read."""
    left = [one.run_id for one in world.state["unread"]]
    limit, run_id = a_limit(world), world.chance.choice([None, a_run_id(world), *left])
    return _read("list_unread", limit, run_id, call=lambda views: views.list_unread(limit=limit, run_id=run_id))


def find_question(world: World) -> Operation:
    """The state of a signal that asked."""
    signal_id = world.chance.choice([SignalId("none"), *world.signals])
    return _read("find_question", signal_id, call=lambda views: views.find_question(signal_id))


def list_events(world: World) -> Operation:
    """The events that topics keep."""
    limit, topic = a_limit(world), world.chance.choice([None, *TOPICS])
    return _read("list_events", limit, topic, call=lambda views: views.list_events(limit=limit, topic=topic))


def list_audit(world: World) -> Operation:
    """The acts on a run."""
    run_id = a_run_id(world, "audit")
    return _read("list_audit", run_id, call=lambda views: views.list_audit(run_id))


def list_definitions(_: World) -> Operation:
    """The definitions of runs and workers."""

    async def call(views: Any) -> list[str]:
        return sorted(await views.list_definitions())  # in no promised order

    return _read("list_definitions", call=call)


def tally_runs(_: World) -> Operation:
    """Runs, counted by definition and status."""
    return _read("tally_runs", call=lambda views: views.tally_runs())


def count_unfinished(_: World) -> Operation:
    """Counts of unfinished runs."""

    async def call(views: Any) -> Any:
        found = await views.count_unfinished()
        return sorted(found.runs.items()), found.due, found.due_since

    return _read("count_unfinished", call=call)


def next_wake(world: World) -> Operation:
    """When the next run is due."""
    flows = world.chance.choice([FLOWS, FLOWS[:1], ("none@1",), ()])
    return _read("next_wake", flows, call=lambda views: views.next_wake(flows))


def has_stranded(_: World) -> Operation:
    """Whether there are runs to rescue."""
    return _read("has_stranded", call=lambda views: views.has_stranded())


def upcoming_work(world: World) -> Operation:
    """What an idle worker needs to know."""
    flows = world.chance.choice([FLOWS, FLOWS[:1], ()])
    return _read("upcoming_work", flows, call=lambda views: views.upcoming_work(flows))


def orphans(_: World) -> Operation:
    """Runs that nothing will wake."""

    async def call(views: Any) -> list[RunId]:
        return sorted(await views.orphans())  # in no promised order

    return _read("orphans", call=call)
