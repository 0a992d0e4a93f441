"""Workers, leases and fences."""

from __future__ import annotations

from typing import NamedTuple

from stepwell.clock import Instant, Span
from stepwell.ids import Incarnation, RunId


class Fence(NamedTuple):
    """The right to write to a run: valid while the run's row names both."""

    incarnation: Incarnation
    epoch: int


class NewWorker(NamedTuple):
    """A worker to register."""

    incarnation: Incarnation
    name: str
    lease: Span
    definitions: tuple[str, ...]  # "name@version" it can run


class Worker(NamedTuple):
    """A registered worker."""

    incarnation: Incarnation
    name: str
    started_at: Instant
    lease_until: Instant
    definitions: tuple[str, ...]


class Claimant(NamedTuple):
    """Who claims, up to how many runs, of which definitions, and how long before they are due."""

    incarnation: Incarnation
    limit: int
    definitions: tuple[str, ...]
    ahead: Span = Span(0)


class Renewed(NamedTuple):
    """A renewed lease, with hints on what the worker should look at now. They may be incomplete."""

    lease_until: Instant
    cancelling: tuple[RunId, ...] = ()
    held: tuple[RunId, ...] = ()  # runs to release between two steps: they, or their workflow, were paused
    owned: int = 0  # how many runs it owns
