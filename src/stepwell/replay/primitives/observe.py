"""Read the mailbox without taking anything out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeVar, overload

from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.headers import pack, unpack
from stepwell.replay.observations import Observations
from stepwell.replay.primitives.receive import Message, copy_messages, fits, read_messages
from stepwell.replay.scopes import Scope
from stepwell.replay.signals import Signal, wanted

T = TypeVar("T")

_Show = Literal["latest", "all", "has"]


@dataclass(frozen=True, slots=True)
class Absent:
    """The answer if there is no such signal. It is false, and it is not None."""

    name: str

    def __bool__(self) -> Literal[False]:
        return False


class Observed:
    """The mailbox of a run, for reading only: `ctx.signals`.

    A look consumes nothing, and is recorded, so a replay sees the same. The commit that records the next step (or other
    finished work) in the same scope consumes the signals that were seen, and all pending signals of the same names.
    Until then they stay: they move to the successor with `continue_as_new`, or are unread at the end of the run.
    Sleeping, waiting, receiving, a retry and a failure consume nothing. A look that finds no signal does not consume
    signals that arrive later.

    While a branch has seen a signal, no other branch sees or receives it. A branch that waits releases it: another
    branch may then see and use it, so look again after a wait. Messages that must be answered (`engine.ask`) are not
    shown here; receive them.
    """

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    @overload
    def latest(self, signal: Signal[T], /) -> Message[T] | Absent: ...
    @overload
    def latest(self, signal: str, /) -> Message[Any] | Absent: ...
    def latest(self, signal: str | Signal[Any], /) -> Message[Any] | Absent:
        """The newest pending signal of a name, or an `Absent`, which is false."""
        found, messages = _look(self._scope, "latest", (signal,))
        return messages[0] if found else Absent(signal.name if isinstance(signal, Signal) else signal)

    @overload
    def all(self, signal: Signal[T], /) -> list[Message[T]]: ...
    @overload
    def all(self, signal: str | None = None, /) -> list[Message[Any]]: ...
    def all(self, signal: str | Signal[Any] | None = None, /) -> list[Message[Any]]:
        """The pending signals of a name, or of every name, in the order of their arrival."""
        _, messages = _look(self._scope, "all", () if signal is None else (signal,))
        return messages

    def has(self, signal: str | Signal[Any], /) -> bool:
        """Whether there is a pending signal of a name."""
        found, _ = _look(self._scope, "has", (signal,))
        return found


def _look(scope: Scope, show: _Show, signals: tuple[str | Signal[Any], ...]) -> tuple[bool, list[Message[Any]]]:
    """Whether there is a signal, and the messages to return."""
    turn, takes = scope.turn, wanted(signals)
    location, entry = scope.place(f"{show} {takes.names[0] if takes.names else 'signals'}", EntryKind.OBSERVE)
    if entry is None:
        pending = turn.mailbox.look(takes.names, scope.location)
        seen = [signal for signal in pending if fits(scope, location, signal, takes)]
        shown = {"latest": seen[-1:], "all": seen, "has": []}[show]
        value = pack([[signal.number, signal.name] for signal in seen], copy_messages(scope, location, shown))
        entry = turn.journal.record(location, EntryKind.OBSERVE, EntryStatus.DONE, value, turn.now)
    scope.note_result(entry)
    found, value = unpack(entry.value)
    if turn.mailbox.observations is None:
        turn.mailbox.observations = Observations(turn.mailbox, turn.journal)
    turn.mailbox.observations.note(scope.location, {number: name for number, name in found})
    return bool(found), read_messages(scope, location, value, takes)
