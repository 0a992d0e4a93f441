"""Which events go to which sinks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stepwell.errors import DuplicateNameError, InvalidOptionError
from stepwell.model.commits import Commit
from stepwell.model.messages import MESSAGES, TO_RUNS
from stepwell.model.outbox import ANNOUNCED, LIFECYCLE, Announce
from stepwell.sinks.base import Sink, wants
from stepwell.sinks.runs import RunSink


class Routes:
    """The sinks of an engine. The engine that commits an event decides, at the commit, which sinks get it.

    `runs` is the sink of messages to other runs, which only it gets.
    """

    def __init__(self, sinks: Iterable[Sink] = (), *, lifecycle: bool = False) -> None:
        self.runs = RunSink()
        self._sinks: dict[str, Sink] = {}
        self._known: dict[str, tuple[str, ...]] = {}
        for sink in sinks:
            _check(sink)
            if sink.name == TO_RUNS:
                raise InvalidOptionError(f"a sink is named {TO_RUNS!r}", why="stepwell uses this name", fix="rename it")
            if sink.name in self._sinks:
                raise DuplicateNameError(
                    f"two sinks are named {sink.name!r}",
                    why="the events of a sink are stored under its name",
                    fix='give each sink its own name: name="..."',
                )
            self._sinks[sink.name] = sink
        ends = {status: self.sinks_of(LIFECYCLE + status.value) for status in ANNOUNCED} if lifecycle else {}
        self.announce = Announce(ends) if any(ends.values()) else None
        """The sinks to notify of runs that end; None if there are none."""

    def __iter__(self) -> Iterator[Sink]:
        return iter(self._sinks.values())

    @property
    def all(self) -> tuple[Sink, ...]:
        """Every sink that a worker serves."""
        return (self.runs, *self)

    def sinks_of(self, name: str) -> tuple[str, ...]:
        """The names of the sinks that want events of this name."""
        found = self._known.get(name)
        if found is None:
            is_message = name.startswith(MESSAGES)
            found = (TO_RUNS,) if is_message else tuple(sink.name for sink in self if wants(sink, name))
            if len(self._known) < 10_000:
                self._known[name] = found
        return found

    def address(self, commit: Commit) -> Commit:
        """The commit with the sinks of its events, and the sinks to notify of the runs that it ends."""
        emits = tuple(emit._replace(sinks=self.sinks_of(emit.name)) for emit in commit.emits)
        return commit._replace(emits=emits, announce=self.announce)


def _check(sink: Sink) -> None:
    missing = [name for name in ("name", "events", "retry", "timeout", "send") if not hasattr(sink, name)]
    if missing or isinstance(sink, type):
        raise InvalidOptionError(
            f"{sink!r:.120} is not a sink",
            why=f"it has no {missing[0]}" if missing else "it is a class, not an instance",
            fix="use handler(function) or Webhook(url, secret=...)",
        )
