"""A place that old histories still contain and the code no longer visits."""

from __future__ import annotations

from stepwell.errors import InvalidOptionError
from stepwell.model.locations import check_name, gate_name, named
from stepwell.model.states import EntryKind
from stepwell.nearest import nearest
from stepwell.replay import divergence
from stepwell.replay.scopes import Scope


def declare_removed(scope: Scope, name: str, kind: str) -> None:
    """Accept that the code does not visit recorded entries of this name and kind, or anything below them.

    This includes numbered uses of the name.
    """
    words = {each.word: each for each in EntryKind}
    if kind not in words:
        near = nearest(kind, words)
        raise InvalidOptionError(
            f"{kind!r} is not a kind of operation",
            fix=f"did you mean {near[0]!r}?" if near else f"use {', '.join(words)}",
        )
    check_name(name)
    scope.check_open()
    turn, journal = scope.turn, scope.turn.journal
    if words[kind] is EntryKind.VERSION:
        gate = journal.names.find(gate_name(name))
        if gate is not None:
            journal.skip_below(named(scope.location, gate))
    number = journal.names.find(name)
    if number is None:
        return
    location = named(scope.location, number)
    entry = journal.entries.get(location)
    if words[kind] is EntryKind.VERSION and (entry is None or entry.kind is not EntryKind.VERSION):
        return  # an operation that has the same name
    if entry is not None and entry.kind is not words[kind]:
        raise turn.diverge(divergence.kind_changed(journal.names.text(location), entry.kind, words[kind]))
    uses = [location, *journal.later_uses(scope.location, location)]
    for at in uses:
        journal.skip_below(at)
    removed = tuple(uses)
    journal.waits = {at: wait for at, wait in journal.waits.items() if not at.startswith(removed)}
    journal.ahead.intersection_update(journal.waits)
    journal.awaited.intersection_update(journal.waits)
