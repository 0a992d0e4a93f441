"""Signals: sent to a run, sent with a question, and delivered again if no run read them."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from typing import Any, Final

from stepwell.advice import Advice, Verb
from stepwell.clock import Duration, Span, span
from stepwell.codec.addressed import move_signal
from stepwell.codec.base import Place
from stepwell.engine.backend import Backend
from stepwell.engine.cancellations import cancel_run
from stepwell.engine.results import Answers
from stepwell.engine.views import SignalView, held_view, unread_view
from stepwell.errors import (
    AlreadyExistsError,
    AskRefused,
    InvalidOptionError,
    MailboxFullError,
    NotFoundError,
    RunEndedError,
)
from stepwell.ids import SignalId
from stepwell.model.failures import decode_failure
from stepwell.model.runs import check_text, normal_key
from stepwell.model.signals import RESERVED, Delivered, Delivery, IfMissing, NewSignal, Redelivery, ReplyStatus
from stepwell.model.states import TERMINAL, RunStatus
from stepwell.replay.primitives.reply import reply_row
from stepwell.replay.signals import Cancel, Signal, encode_payload, name_of
from stepwell.stores.base.views import HeldSignal

_LOG: Final = logging.getLogger("stepwell.engine")
_WARNED_AT: Final = 0.8  # of the limit


class Signals:
    """`engine.signals`: sends signals to a run, and lists signals that no run has read."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._answers = Answers(backend.opened)

    async def send(
        self,
        target: str,
        name: str | Signal[Any] | Cancel,
        payload: Any = None,
        *,
        dedup_key: str | None = None,
        if_missing: IfMissing = "raise",
    ) -> Delivery:
        """Send a signal to a run, by id or key; `Engine.signal` has the promises."""
        if if_missing not in ("raise", "hold", "drop"):
            raise InvalidOptionError(f"if_missing is {if_missing!r}", fix='"raise", "hold", "drop" or "start"')
        if isinstance(name, Cancel):
            return await self._send_cancel(target, name, if_missing)
        declared = await self._declared(target, name) if self._backend.registry.declares_signals else name
        signal = new_signal(self._backend, target, declared, payload, dedup_key=dedup_key, hold=if_missing == "hold")
        delivery = await self.deliver(signal)
        if delivery is Delivery.MISSING and if_missing != "drop":
            raise await self.missing(target)
        return delivery

    async def _send_cancel(self, target: str, cancel: Cancel, if_missing: IfMissing) -> Delivery:
        if if_missing == "hold":
            raise InvalidOptionError(
                "a Cancel cannot be held", why="it would cancel a run before its start", fix='"raise" or "drop"'
            )
        run = await self._backend.find(target)
        if run is None and if_missing == "drop":
            return Delivery.MISSING
        if await cancel_run(self._backend, target, cancel.reason, compensate=cancel.compensate):
            return Delivery.DELIVERED
        status = (await self._backend.get_last(target)).status
        if status is RunStatus.CANCELLED or status not in TERMINAL:
            return Delivery.DUPLICATE
        if if_missing == "raise":
            raise NotFoundError("active run", target, fix=f"it is {status.value}, and there is nothing to cancel")
        return Delivery.MISSING

    async def _declared(self, target: str, signal: str | Signal[Any]) -> str | Signal[Any]:
        """The signal as the target's workflow declares it, if that workflow is registered here and declares signals."""
        if not self._backend.registry.declares_signals:
            return signal
        name_of(signal)  # before any request to the store
        run = await self._backend.find(target)
        known = None if run is None else self._backend.registry.find(run.definition)
        return signal if known is None else known.mailbox.find(signal, known.name)

    async def missing(self, target: str) -> NotFoundError:
        """The error for a signal to a target that no active run has."""
        found = await self._backend.find(target)
        if found is not None:
            last = await self._backend.get_last(found.run_id)
            name = last.key or target
            fix = f'send it to the key with if_missing="hold" to keep it for the next run: signal({name!r}, …)'
            again = "start a run with a key, and send it to that key" if last.key is None else fix
            return RunEndedError(target, last.status.value, fix=again)
        fix = 'send it with if_missing="hold" to keep it for the next run'
        near = [name for name in await self._backend.near(target) if name != normal_key(target)]
        return NotFoundError("active run", target, near=near, fix=fix)

    async def deliver(self, signal: NewSignal) -> Delivery:
        """Deliver a signal that is encoded for its target."""
        (delivered,), claimed = await self._backend.retrying(
            lambda store: self._backend.with_offer(lambda offer: store.signals.deliver([signal], offer))
        )
        self._backend.adopt(claimed)
        check_room(signal, delivered)
        return delivered.delivery

    async def ask(
        self,
        target: str,
        name: str | Signal[Any],
        payload: Any = None,
        *,
        timeout: Duration | None = None,
        dedup_key: str | None = None,
    ) -> Any:
        """Send a signal that the run must answer, and wait for the answer; `Engine.ask` has the promises."""
        limit = None if timeout is None else span(timeout, what="timeout")
        declared = await self._declared(target, name)
        question = new_signal(self._backend, target, declared, payload, asks=True, dedup_key=dedup_key)
        if dedup_key is not None:
            question = question._replace(signal_id=await self._repeatable_id(target, question.name, dedup_key))
        delivery = await self.deliver(question)
        if delivery is Delivery.MISSING:
            raise await self.missing(target)
        return await self.await_answer(question, declared, limit)

    async def await_answer(self, question: NewSignal, declared: str | Signal[Any], limit: Span | None) -> Any:
        """The answer to a question that was delivered. Raises what `Engine.ask` promises."""
        answer = await self._answers.wait(question.signal_id, question.name, limit)
        if answer is None:
            raise AlreadyExistsError(
                f"a signal {question.name!r} with the dedup key {question.dedup_key!r} was sent to this run before",
                fix="ask with another dedup key",
            )
        if answer.status is ReplyStatus.REFUSED:
            failure = decode_failure(answer.value)
            raise AskRefused(failure.message, where=failure.path, fix="ask for something that the run accepts")
        hint = declared.reply_hint if isinstance(declared, Signal) else Any
        place = Place("", question.name, "the reply", row=reply_row(question.signal_id, question.name))
        return self._backend.codec.decode(answer.value, hint, place=place)

    async def _repeatable_id(self, target: str, name: str, dedup_key: str) -> SignalId:
        """The same id for the same question to the same run."""
        run = await self._backend.get_last(target)
        seed = f"{run.run_id}\x1f{name}\x1f{dedup_key}".encode()
        return SignalId(f"ask-{hashlib.blake2b(seed, digest_size=16).hexdigest()}")

    # --- signals that no run reads ---

    async def list_held(self, key: str | None = None, *, limit: int = 100) -> list[SignalView]:
        """Signals that are held for a key without an active run, oldest first. The next run of the key gets them."""
        of = None if key is None else normal_key(key)
        held = await self._backend.retrying(lambda store: store.views.list_held(limit=limit, key=of))
        return [held_view(one) for one in held]

    async def list_unread(self, target: str | None = None, *, limit: int = 100) -> list[SignalView]:
        """Signals that runs left unread when they ended, and signals that did not fit (`reason`), oldest first."""
        of = None if target is None else (await self._backend.get(target)).run_id
        unread = await self._backend.retrying(lambda store: store.views.list_unread(limit=limit, run_id=of))
        return [unread_view(one) for one in unread]

    async def find_undelivered(self, number: int) -> SignalView:
        """A held or unread signal by its number. Raises `NotFoundError`."""
        found = await self._backend.retrying(lambda store: store.overviews.find_undelivered(number))
        if found is None:
            raise NotFoundError("signal", str(number), fix=Advice(Verb.LIST_SIGNALS))
        return held_view(found) if isinstance(found, HeldSignal) else unread_view(found)

    async def redeliver(self, signals: SignalView | Sequence[SignalView], *, to: str | None = None) -> list[Delivery]:
        """Deliver held or unread signals, in this order: to another run, or to their original target.

        The result for a signal is MISSING if its target has no active run; the signal then stays where it is. It is
        also MISSING if the signal no longer exists.
        """
        views = [signals] if isinstance(signals, SignalView) else list(signals)
        letters = [self._redelivery(view, normal_key(to or view.target)) for view in views]
        delivered, claimed = await self._backend.retrying(
            lambda store: self._backend.with_offer(lambda offer: store.signals.redeliver(letters, offer))
        )
        self._backend.adopt(claimed)
        return [one.delivery for one in delivered]

    def _redelivery(self, view: SignalView, target: str) -> Redelivery:
        return Redelivery(
            view.number, target, move_signal(self._backend.codec, view.stored, name=view.name, target=target)
        )


def new_signal(
    backend: Backend,
    target: str,
    signal: str | Signal[Any],
    payload: Any,
    *,
    dedup_key: str | None = None,
    asks: bool = False,
    hold: bool = False,
) -> NewSignal:
    """A signal to a run, by id or key, with its payload checked and encoded. Raises `InvalidInputError`."""
    name, to = name_of(signal), normal_key(target)
    if dedup_key is not None:
        check_text(dedup_key, "dedup_key")
    stored = encode_payload(backend.codec, signal, payload, target=to)
    signal_id = SignalId(backend.environment.ids.uuid())
    limit = None if name.startswith(RESERVED) else backend.signals_max  # what runs tell each other is never refused
    return NewSignal(signal_id, to, name, stored, dedup_key, hold, asks, limit)


def check_room(signal: NewSignal, delivered: Delivered) -> None:
    """Warn of a mailbox that is nearly full. Raises `MailboxFullError` if it was full, and nothing was stored."""
    limit, count = signal.pending_max, delivered.pending
    if limit is None or count < limit * _WARNED_AT:
        return
    of = f"run {delivered.run_id}" if delivered.run_id else f"key {signal.target!r}"
    if delivered.delivery is Delivery.FULL:
        raise MailboxFullError(
            f"the mailbox of {of} is full, and the signal {signal.name!r} was not stored",
            where=of,
            why=f"{count:,} signals wait to be read already",
            fix=f"let the run read faster, or send later; to allow more: WorkerSettings(signals_max={2 * limit}), or "
            f"STEPWELL_SIGNALS_MAX",
        )
    if (count - 1) % max(1, limit // 20) == 0 or count == limit:  # not with every signal
        _LOG.warning("the mailbox of %s has %d unread signals; from %d on, further ones are refused", of, count, limit)
