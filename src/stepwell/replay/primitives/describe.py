"""Say what a run is about: attributes, a title and tags, which the run's next commit carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stepwell.errors import InvalidOptionError
from stepwell.model.attributes import Description, check_changes, merged, read_attributes, read_title
from stepwell.model.entries import Entry
from stepwell.model.failures import decode_failure, encode_failure, record_failure
from stepwell.model.locations import Location
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.model.tags import read_tags, with_tags, without_tags
from stepwell.replay.headers import pack
from stepwell.replay.scopes import Scope
from stepwell.replay.turn import Turn

_NAMED_MAX = 60  # characters of the names in a path
_NOT_IN_PATHS = str.maketrans("/#", "||")


def set_attributes(scope: Scope, given: Mapping[str, Any]) -> None:
    """Set attributes of the run, or remove those that are None."""
    changes = read_attributes(given, "ctx.set_attributes", may_remove=True)
    noted = _begin(scope, "set_attributes", [one.name for one in changes])
    if noted is None:
        return
    location, before = noted
    value = pack(["set_attributes", changes], b"")
    try:
        check_changes(before.attributes, changes, scope.turn.journal.names.text(location))
    except InvalidOptionError as error:
        scope.turn.journal.describe(location, encode_failure(record_failure(error)), scope.turn.now, None)
        raise
    scope.turn.journal.describe(location, value, scope.turn.now, Description(changes))


def set_title(scope: Scope, title: str | None) -> None:
    """Set the title of the run; None removes it."""
    text = read_title(title, "ctx.set_title") if title is not None else ""
    noted = _begin(scope, "set_title", ())
    if noted is not None:
        value = pack(["set_title", title and text], b"")
        scope.turn.journal.describe(noted[0], value, scope.turn.now, Description(title=text))


def add_tags(scope: Scope, names: Sequence[str], values: Mapping[str, str]) -> None:
    """Add tags to those of the run, or replace those with the same name."""
    added = read_tags({**dict.fromkeys(names, ""), **values}, "ctx.add_tags")
    noted = _begin(scope, "add_tags", [name for name, _ in added])
    if noted is None:
        return
    location, before = noted
    try:
        tags = with_tags(before.tags or (), added, scope.turn.journal.names.text(location))
    except InvalidOptionError as error:
        scope.turn.journal.describe(location, encode_failure(record_failure(error)), scope.turn.now, None)
        raise
    scope.turn.journal.describe(location, pack(["add_tags", added], b""), scope.turn.now, Description(tags=tags))


def remove_tags(scope: Scope, names: Sequence[str]) -> None:
    """Remove tags of these names, if the run has them."""
    removed = sorted(name for name, _ in read_tags(frozenset(names), "ctx.remove_tags"))
    noted = _begin(scope, "remove_tags", removed)
    if noted is not None:
        location, before = noted
        tags = without_tags(before.tags or (), removed)
        value = pack(["remove_tags", removed], b"")
        scope.turn.journal.describe(location, value, scope.turn.now, Description(tags=tags))


def described(turn: Turn) -> Description:
    """How the run is described now, also by what is not committed yet: everything, not only what has changed."""
    run, changed = turn.run, turn.journal.described
    if changed is None:
        return Description(run.attributes, run.title, run.tags)
    title = run.title if changed.title is None else changed.title
    tags = run.tags if changed.tags is None else changed.tags
    return Description(merged(run.attributes, changed.attributes), title, tags)


def _begin(scope: Scope, verb: str, names: Sequence[str]) -> tuple[Location, Description] | None:
    """The place of a change that is to be recorded, and how the run is described before it. None if the change is
    recorded already, or if the run was beyond this place before the call was added to the code.

    The names are a part of the place, so that a call that is added or removed does not move the others. A recorded
    refusal is raised again.
    """
    turn = scope.turn
    shown = ", ".join(names).translate(_NOT_IN_PATHS)
    if len(shown) > _NAMED_MAX:
        shown = f"{shown[:_NAMED_MAX]}… {len(names)}"
    location, entry = scope.place_note(f"{verb}({shown})", EntryKind.DESCRIBE)
    if entry is not None:
        if entry.status is EntryStatus.FAILED:
            raise _refusal(entry)
        return None
    if turn.order.is_passing and turn.journal.is_ahead_below(scope.location, turn.run.loose):
        return None
    return location, described(turn)


def _refusal(entry: Entry) -> InvalidOptionError:
    failure = decode_failure(entry.value)
    return InvalidOptionError(failure.message, where=failure.path, why=failure.why, fix=failure.fix)
