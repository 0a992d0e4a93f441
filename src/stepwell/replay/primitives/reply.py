"""Answer a message whose sender waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.codec.base import Place, Row
from stepwell.errors import AskRefused, InvalidOptionError, ReplyOwedError, ReplyTwiceError
from stepwell.model.entries import Entry
from stepwell.model.failures import encode_failure, record_failure
from stepwell.model.locations import Location, is_below
from stepwell.model.messages import ANSWERED, ASKED_BY_RUN, SignalMessage, encode_message, message_name
from stepwell.model.outbox import Emit, derived_event_id
from stepwell.model.signals import Reply, ReplyStatus
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.headers import pack
from stepwell.replay.operations import Operation
from stepwell.replay.recorded_values import settle_value
from stepwell.replay.scopes import Scope
from stepwell.replay.signals import encode_payload
from stepwell.replay.turn import Turn


class Asked:
    """A message that must be answered, once, by the run that has received it."""

    __slots__ = (
        "_ask_id",
        "_hint",
        "_index",
        "_is_answered",
        "_location",
        "_name",
        "_number",
        "_recorded",
        "owes",
        "scope",
    )

    def __init__(
        self, scope: Scope, location: Location, index: int | None, name: str, number: int, ask_id: str, hint: Any
    ) -> None:
        self.scope = scope
        self.owes = scope.location  # the scope of the code that must answer
        self._location = location  # of the operation that received it
        self._index = index  # among the messages that the operation received
        self._name = name
        self._number = number
        self._ask_id = ask_id
        self._hint = hint
        self._is_answered = False
        self._recorded = self._find()
        scope.turn.owed.append(self)

    def __deepcopy__(self, _: dict[int, Any]) -> Asked:
        """Itself: an answer to a copy is an answer to the message."""
        return self

    def _find(self) -> Entry | None:
        """The recorded reply. If the body of a race or loop gave it, a replay does not run that body again, and marks
        the reply as passed.
        """
        scope, journal = self.scope, self.scope.turn.journal
        if not journal.unvisited:
            return None
        location = scope.find_companion(self._location, "reply", number=self._index)
        entry = None if location is None else journal.entries.get(location)
        if entry is None or entry.kind is not EntryKind.REPLY:
            return None
        if entry.location not in journal.visited:
            journal.replies[entry.location] = entry.seq
        return entry

    @property
    def has_reply(self) -> bool:
        """Whether a reply is recorded."""
        return self._recorded is not None

    @property
    def _is_from_failed_code(self) -> bool:
        """Whether the recorded reply may be from code that an operator has retried since. That code may take another
        path now, and what it answers there has no effect: the sender has the recorded reply.
        """
        entry, run = self._recorded, self.scope.turn.run
        return entry is not None and run.retried_at is not None and entry.at <= run.retried_at

    @property
    def path(self) -> str:
        """Where it was received."""
        return self.scope.turn.journal.names.text(self._location)

    def pass_to(self, scope: Location, *, within: Location) -> None:
        """The code `within` a location has returned: if it received the message, the surrounding code must answer."""
        if is_below(self.owes, within):
            self.owes = scope

    def give_up(self, *, within: Location, is_told: bool = False) -> None:
        """The code `within` a location has lost or failed: if it received the message, refuse it."""
        turn = self.scope.turn
        if is_below(self.owes, within):
            reason = f"the code that received it at {self.path} failed or lost before it replied"
            if not is_told and self._recorded is None:
                send_reply(turn, self._ask_id, Reply(self._number, ReplyStatus.REFUSED, refusal(self._name, reason)))
            turn.owed.remove(self)
            self._is_answered = True

    def reply(self, value: Any) -> Operation[None]:
        """Answer with a value."""
        return self._answer(ReplyStatus.GIVEN, lambda: self._encode(value))

    def refuse(self, reason: str) -> Operation[None]:
        """Answer with a refusal."""
        if not reason.strip():
            raise InvalidOptionError("a refusal has no reason", fix='write: await message.refuse("already shipped")')
        return self._answer(ReplyStatus.REFUSED, lambda: refusal(self._name, reason))

    def _encode(self, value: Any) -> bytes:
        place = Place(self.scope.turn.run.workflow, self.path, "the reply", row=reply_row(self._ask_id, self._name))
        stored, _ = settle_value(self.scope.turn, value, self._hint, place)
        return stored

    def _answer(self, status: ReplyStatus, encode: Callable[[], bytes]) -> Operation[None]:
        scope, turn = self.scope, self.scope.turn
        entry, journal = self._recorded, turn.journal
        is_passed = entry is not None and entry.location in journal.visited
        if self._is_answered or (is_passed and not self._is_from_failed_code):
            raise turn.diverge(
                ReplyTwiceError(
                    f"the code answers the message received at {self.path} twice",
                    where=self.path,
                    why="a sender gets one reply, and this sender has it",
                    fix="call reply or refuse once on every path through the code",
                )
            )
        if entry is None:
            location, entry = scope.place_companion(self._location, "reply", EntryKind.REPLY, number=self._index)
        else:
            scope.check_open()
            location = entry.location
            if not is_passed:
                del journal.replies[location]
                journal.unvisited -= 1
            journal.visited[location] = EntryKind.REPLY
        self._is_answered = True
        turn.owed.remove(self)
        return Operation(turn, location, lambda: self._run(location, entry, status, encode))

    async def _run(
        self, location: Location, entry: Entry | None, status: ReplyStatus, encode: Callable[[], bytes]
    ) -> None:
        turn = self.scope.turn
        if entry is None:
            await turn.order.reach_end()
            send_reply(turn, self._ask_id, Reply(self._number, status, encode()))
            word = "refused" if status is ReplyStatus.REFUSED else "given"
            entry = turn.journal.record(location, EntryKind.REPLY, EntryStatus.DONE, pack([word], b""), turn.now)
        else:
            await turn.order.reach(entry)
        self.scope.note_result(entry)


def send_reply(turn: Turn, ask_id: str, reply: Reply) -> None:
    """Reply with the next commit. If a run has asked, its commit wakes it, too."""
    turn.journal.reply(reply)
    asking = ask_id.removeprefix(ASKED_BY_RUN)
    if asking != ask_id:
        stored = encode_payload(turn.codec, ANSWERED, None, target=asking)
        message = SignalMessage(asking, ANSWERED, stored, if_missing="drop")
        event_id = derived_event_id(turn.run.run_id, f"~answer {ask_id}")
        turn.journal.emit(Emit(event_id, message_name(message), "", encode_message(message), turn.now))


def reply_row(ask_id: str, name: str) -> Row:
    """The row to which a reply is bound: sender and run both know it."""
    return Row(ask_id, name, "reply")


def refusal(name: str, reason: str) -> bytes:
    """A refusal as the sender gets it."""
    return encode_failure(record_failure(AskRefused(reason, where=f"signal {name}")))


def check_answered(scope: Scope) -> None:
    """Reject a receive before the last message is answered. Messages that other branches must answer do not count."""
    turn = scope.turn
    for asked in turn.owed:
        if is_below(scope.location, asked.owes) and not asked.has_reply:
            raise turn.diverge(
                ReplyOwedError(
                    f"the code receives the next message before it has answered the one received at {asked.path}",
                    where=asked.path,
                    why="its sender waits for a reply",
                    fix="write `await message.reply(value)` or `await message.refuse(reason)` before the next receive",
                )
            )
