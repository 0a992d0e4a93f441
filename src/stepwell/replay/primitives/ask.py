"""Ask another run, and wait for its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from stepwell.clock import Duration, span
from stepwell.errors import AskRefused, Unanswered, WaitTimeout
from stepwell.ids import EventId
from stepwell.model.entries import Entry
from stepwell.model.locations import Location
from stepwell.model.messages import (
    ASK,
    ASKED_BY_RUN,
    Answer,
    Question,
    SignalMessage,
    encode_message,
    message_name,
)
from stepwell.model.outbox import Emit
from stepwell.model.runs import NewRun, normal_key
from stepwell.replay.primitives.child import ChildStart, Started, run_child
from stepwell.replay.scopes import Scope
from stepwell.replay.signals import Signal, encode_payload, name_of

_ASK: Final = Started(ASK, None)
_START: Final = ChildStart(version=1)


class Asking:
    """A question, with its options checked. A child of stepwell's own asks it: it lasts as long as the answer takes,
    and the asking run holds no worker meanwhile.
    """

    def __init__(self, target: str, signal: str | Signal[Any], payload: Any, timeout: Duration | None) -> None:
        self.target, self.signal, self.payload = normal_key(target), signal, payload
        self.question = Question(name_of(signal), None if timeout is None else span(timeout, what="timeout"))

    async def run(self, scope: Scope, location: Location, entry: Entry | None) -> Any:
        """The answer. Raises what `Context.ask` promises."""
        turn, question = scope.turn, self.question
        path = turn.journal.names.text(location)
        send: Callable[[NewRun], None] | None = None
        if entry is None:
            # First: it must fail at the same point of the code in a replay.
            stored = encode_payload(turn.codec, self.signal, self.payload, target=self.target)
            message = SignalMessage(self.target, question.name, stored, asks=True, if_missing="drop")

            def tell(child: NewRun) -> None:
                event_id = EventId(ASKED_BY_RUN + child.run_id)
                turn.journal.emit(Emit(event_id, message_name(message), path, encode_message(message), turn.now))

            send = tell
        found = await run_child(scope, location, entry, _ASK, question, _START, send)
        answer = msgspec.convert(found, Answer)
        match answer.kind:
            case "given":
                hint = self.signal.reply_hint if isinstance(self.signal, Signal) else Any
                place = turn.place(location, "the reply")
                return turn.codec.decode_external(msgspec.json.encode(answer.value), hint, place=place)
            case "refused":
                raise AskRefused(answer.reason, where=path, fix="ask for something that the run accepts")
            case "late":
                raise WaitTimeout(path)
            case _:
                raise Unanswered(f"{question.name!r} was not answered: {answer.reason}", where=path)
