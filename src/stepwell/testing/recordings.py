"""The runs of a test after its end: as trees, as timelines, as path coverage, and for a crash sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwell.engine.views import entry_views, run_view
from stepwell.testing.pages import Timeline, timeline
from stepwell.testing.paths import known_operations, reached_names
from stepwell.testing.sweeps import sweep
from stepwell.testing.trees import tree

if TYPE_CHECKING:
    from stepwell.testing.base import KitBase

_RUNS_MAX = 20


def trees_of(kit: KitBase) -> str:
    """Every run of a test, oldest first, as `stepwell show` prints them."""
    world = kit.world
    runs = world.list_runs()
    shown = [tree([world.ask(world.engine.runs.detail(run.run_id))]) for run in runs[:_RUNS_MAX]]
    if len(runs) > _RUNS_MAX:
        shown.append(f"… and {len(runs) - _RUNS_MAX} more runs")
    return "\n\n".join(shown)


def timelines_of(kit: KitBase) -> list[Timeline]:
    """When each entry of the runs of a test was recorded."""
    world = kit.world
    details = [world.ask(world.engine.runs.detail(run.run_id)) for run in world.list_runs()[:_RUNS_MAX]]
    return [timeline(run_view(detail.run), entry_views(detail)) for detail in details]


def reached_by(kit: KitBase) -> dict[str, Any]:
    """The operations of the workflows of a test, and which of them its runs reached, as plain data."""
    world = kit.world
    reached: dict[str, set[str]] = {}
    for run in world.list_runs():
        detail = world.ask(world.engine.runs.detail(run.run_id))
        reached.setdefault(run.definition, set()).update(reached_names(detail))
    for one in world.begun:
        reached.setdefault(world.find(one.run_id).definition, set()).update(one.path.split("/"))
    return {
        "known": {each.definition: known_operations(each) for each in world.workflows},
        "reached": {definition: sorted(names) for definition, names in reached.items()},
    }


def sweep_again(kit: KitBase) -> None:
    """Repeat what the test did to each ended run, with each kind of crash at each of its commits."""
    for start in kit.started:
        if start.workflow is None or not start.has_ended():
            continue
        sweep(
            kit,
            start.workflow,
            start.input,
            script=start.acts,
            same_result=True,
            at_most_once=(),
            effects=None,
            before_each=None,
            is_checked=True,
            options=start.options,
        )
