"""What a suspended run waits for."""

from __future__ import annotations

from typing import Literal, NamedTuple

from stepwell.clock import Instant
from stepwell.model.locations import Location
from stepwell.model.states import WaitKind

# Which events of a topic a wait takes: events published after the wait was stored; also events that the topic has kept
# since the run was created; or every event that the topic keeps.
Since = Literal["wait", "start", "all"]


class Wait(NamedTuple):
    """One reason to wake. The token is new each time the wait is armed, so a stale wake-up can be recognised."""

    location: Location
    kind: WaitKind
    token: int
    due_at: Instant | None = None
    names: tuple[str, ...] = ()  # of signals, empty means any; of a topic, its one name
    where: tuple[str, ...] = ()  # of a topic: the facets that an event must have
    since: Since = "wait"  # of a topic
    limit_at: Instant | None = None  # the run fails if it still waits here then
