"""Signals that a run has not read when it completes, published as events of the topics with their names."""

from __future__ import annotations

from stepwell.codec.addressed import rebind_signal
from stepwell.codec.base import ANY, Place, Row
from stepwell.codec.published import encode_event
from stepwell.errors import StepwellError, StoreError
from stepwell.model.events import RETENTION
from stepwell.model.messages import PublishMessage, encode_message, message_name
from stepwell.model.outbox import Emit, derived_event_id
from stepwell.model.signals import RESERVED, Signal
from stepwell.replay.primitives.receive import is_meant
from stepwell.replay.turn import Turn


def publish_unread(turn: Turn) -> int:
    """Publish them with the next commit, which takes them out of the mailbox. Returns the greatest number that was
    looked at.

    A question stays in the mailbox, because no event can answer it, and so does what cannot be decoded or published.
    """
    mailbox = turn.mailbox
    for signal in tuple(mailbox.signals):
        if signal.ask_id is not None or signal.name.startswith(RESERVED):
            continue
        try:
            emit = _event_of(turn, signal)
        except StoreError:
            raise
        except StepwellError:
            continue
        mailbox.drop_signal(signal)
        turn.journal.consume(signal.number)
        turn.journal.emit(emit)
    return mailbox.seen


def _event_of(turn: Turn, signal: Signal) -> Emit:
    run, codec = turn.run, turn.codec
    event_id = derived_event_id(run.run_id, "~unread", signal.number)
    place = Place(run.workflow, "", "the signal", row=Row(run.run_id, "", f"unread {signal.number}"))
    stored = rebind_signal(
        codec, signal.payload, name=signal.name, targets=lambda target: is_meant(target, run), to=place
    )
    value = codec.decode(stored, ANY, place=place)
    message = PublishMessage(
        signal.name, encode_event(codec, value, ANY, topic=signal.name, event_id=event_id), "one", RETENTION
    )
    return Emit(event_id, message_name(message), "", encode_message(message), turn.now)
