"""Idempotency keys, and the audit."""

from __future__ import annotations

from stepwell.clock import Instant
from stepwell.model.ledger import NewAct, Reservation
from tests.differential.world import Operation, World

_SCOPES = ("start by ann", "Über")
_KEYS = ("k1", "schlüssel 2")
_LINES_MAX = 12


def reserve(world: World) -> Operation:
    """Reserve a key, for a moment or longer; sometimes for another request."""
    until = Instant(world.now + world.chance.choice([0, 1_000_000, 60_000_000]))
    scope, key = world.chance.choice(_SCOPES), world.chance.choice(_KEYS)
    wanted = Reservation(scope, key, world.chance.choice("fg"), world.next_id("q"), until)
    return Operation(
        "ledger.reserve",
        wanted,
        lambda at: at.opened.store.ledger.reserve(wanted),
        lambda found: ["new" if found.is_new else "known"],
    )


def settle(world: World) -> Operation:
    """Settle a key that may be reserved."""
    scope, key, answer = world.chance.choice(_SCOPES), world.chance.choice(_KEYS), world.next_id("a")
    return Operation(
        "ledger.settle", (scope, key, answer), lambda at: at.opened.store.ledger.settle(scope, key, answer)
    )


def note(world: World) -> Operation | None:
    """Append a line; a few are enough, then they are repeated."""
    known = [line.request_id for line in world.state["acts"]]
    is_full = len(known) >= _LINES_MAX
    request_id = world.chance.choice(known) if known and (is_full or world.likely(0.2)) else world.next_id("q")
    line = NewAct(request_id, "ann", "start", world.chance.choice(["", 'it\'s "x"\n– \\ 🙂', "a\x00b"]), "asked")
    return Operation(
        "ledger.note",
        line,
        lambda at: at.opened.store.ledger.note(line),
        lambda found: ["repeated" if request_id in known else "appended"],
    )


def list_acts(world: World) -> Operation:
    """The latest lines, or lines below a number."""
    limit, below = world.chance.choice([1, 3, 100]), world.chance.choice([2, 5, 1 << 40])
    return Operation(
        "ledger.list_acts",
        (limit, below),
        lambda at: at.opened.store.ledger.list_acts(limit=limit, below=below),
        lambda found: ["found" if found else "nothing"],
    )


def head(world: World) -> Operation:
    """The last line."""
    return Operation(
        "ledger.head",
        (),
        lambda at: at.opened.store.ledger.head(),
        lambda found: ["found" if found.number else "nothing"],
    )
