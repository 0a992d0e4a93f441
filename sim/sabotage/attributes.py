"""Switches that break how runs are described."""

from __future__ import annotations

from typing import Any

from sim.sabotage.patches import Patches, statement, switches
from stepwell.errors import InvalidOptionError
from stepwell.model.attributes import Description, combined
from stepwell.replay import context, driver
from stepwell.replay.primitives import child, describe
from stepwell.replay.scopes import Scope
from stepwell.replay.turn import Turn


def title_set_again() -> Patches:
    """A replay sets the title again that it had set."""
    original = describe.set_title

    def set_title(scope: Scope, title: str | None) -> None:
        before = scope.turn.journal.described
        original(scope, title)
        if scope.turn.journal.described is before:
            extras = scope.turn.journal.pending.extras
            extras.description = combined(extras.description, Description(title=title or ""))

    return [(context, "set_title", set_title)]


def attributes_forgotten() -> Patches:
    """What a commit says of its run is not stored."""
    return statement("attributes.set", "do update set value = excluded.value, shown = excluded.shown", "do nothing")


def refusals_forgotten() -> Patches:
    """A replay does not raise again what the code had caught."""
    original = describe._begin

    def begin(*args: Any) -> Any:
        try:
            return original(*args)
        except InvalidOptionError:
            return None

    return [(describe, "_begin", begin)]


def successors_not_described() -> Patches:
    """A run that continues another one begins with the attributes that were there at its predecessor's claim."""

    def described(turn: Turn) -> Description:
        return Description(turn.run.attributes, turn.run.title, turn.run.tags)

    return [(driver, "described", described)]


def starter_not_inherited() -> Patches:
    """Nobody knows who started a child."""
    original = child.new_child

    def new_child(*args: Any, **options: Any) -> Any:
        return original(*args, **options)._replace(started_by=None)

    return [(child, "new_child", new_child)]


DESCRIPTION_SWITCHES = switches(title_set_again, attributes_forgotten, refusals_forgotten, successors_not_described)
STARTER_SWITCHES = switches(starter_not_inherited)
