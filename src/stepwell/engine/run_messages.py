"""Delivers what runs send to each other."""

from __future__ import annotations

from typing import Any, assert_never

import msgspec

from stepwell.codec.published import event_place
from stepwell.engine.backend import Backend
from stepwell.engine.cancellations import cancel_run
from stepwell.engine.events import Events
from stepwell.engine.signals import Signals, new_signal
from stepwell.errors import MailboxFullError, RequestError, TopicFullError
from stepwell.ids import RunId, SignalId
from stepwell.model.messages import ASKED_BY_RUN, SENT, CancelMessage, Message, PublishMessage, SignalMessage
from stepwell.model.signals import Delivery, NewSignal
from stepwell.sinks.base import EmittedEvent
from stepwell.sinks.runs import undeliverable


class RunMessages:
    """Delivers messages from the outbox, each as often as the outbox sends it: a repetition changes nothing."""

    def __init__(self, backend: Backend, signals: Signals, events: Events) -> None:
        self._backend = backend
        self._signals = signals
        self._events = events

    async def deliver(self, event: EmittedEvent) -> None:
        """Deliver one message. Raises `Fatal` if no further attempt can. A full mailbox may have room later."""
        try:
            message = msgspec.convert(event.payload, Message)
            await self._act(message, event.id)
        except (MailboxFullError, TopicFullError):
            raise
        except (RequestError, msgspec.ValidationError) as error:
            raise undeliverable(error) from error

    async def _act(self, message: Any, message_id: str) -> None:
        sent: Message = message
        match sent:
            case SignalMessage():
                await self._signal(sent, message_id)
            case CancelMessage():
                await cancel_run(self._backend, sent.target, sent.reason, compensate=sent.compensate)
            case PublishMessage():
                await self._publish(sent, message_id)
            case _:
                assert_never(sent)

    async def _signal(self, sent: SignalMessage, message_id: str) -> None:
        hold = sent.if_missing == "hold"
        new = NewSignal(
            SignalId(message_id),
            sent.target,
            sent.name,
            sent.payload,
            sent.dedup_key,
            hold,
            sent.asks,
            self._backend.signals_max,
        )
        delivery = await self._signals.deliver(new)
        asking = message_id.removeprefix(ASKED_BY_RUN)
        if asking != message_id:
            await self._tell_asking(RunId(asking), sent.target, message_id)
        elif delivery is Delivery.MISSING and hold:
            raise await self._signals.missing(sent.target)

    async def _tell_asking(self, asking: RunId, target: str, question_id: str) -> None:
        """Tell the run that waits for an answer which run has the question, or that there is none."""
        question = await self._backend.retrying(lambda store: store.views.find_question(SignalId(question_id)))
        found: dict[str, str] = {}
        if question is not None and question.run_id is not None:
            found["run_id"] = question.run_id
        else:
            found["reason"] = (await self._signals.missing(target)).title
        sent = new_signal(self._backend, asking, SENT, found)
        await self._signals.deliver(sent._replace(signal_id=SignalId(f"{question_id}:sent")))

    async def _publish(self, sent: PublishMessage, message_id: str) -> None:
        place = event_place(sent.topic, message_id)
        value = self._backend.codec.decode(sent.payload, Any, place=place)
        retain = None if sent.retain is None else f"{sent.retain}us"
        await self._events.publish(sent.topic, value, deliver=sent.deliver, retain=retain, event_id=message_id)
