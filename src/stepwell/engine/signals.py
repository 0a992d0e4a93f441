"""What a caller may do with signals: send, ask, start with one, see what nobody reads, and deliver that again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from stepwell.clock import Duration, span
from stepwell.codec.addressed import move_signal
from stepwell.codec.base import Codec, Place
from stepwell.engine.handles import Handle
from stepwell.engine.views import SignalView, held_view, unread_view
from stepwell.environment import Environment
from stepwell.errors import AlreadyExistsError, AskRefused, InvalidOptionError, NotFoundError, RunEndedError
from stepwell.ids import RunId, SignalId
from stepwell.model.failures import decode_failure
from stepwell.model.runs import Claimed, Created, NewRun, Run, check_text, normal_key
from stepwell.model.signals import Delivery, IfMissing, NewSignal, Redelivery, ReplyStatus
from stepwell.model.states import TERMINAL, RunStatus
from stepwell.replay.primitives.reply import reply_row
from stepwell.replay.registry import Registry
from stepwell.replay.signals import Cancel, Request, Signal, encode_payload, name_of
from stepwell.replay.workflows import Workflow
from stepwell.stores.base.store import Store

if TYPE_CHECKING:
    from stepwell.engine.results import Answers
    from stepwell.model.workers import Claimant

T = TypeVar("T")
R = TypeVar("R")
In = TypeVar("In")
Out = TypeVar("Out")


class SignalVerbs:
    """The verbs of an engine that are about signals."""

    _environment: Environment
    _registry: Registry
    _codec: Codec
    _answers: Answers

    # --- what the rest of the engine lends ---

    if TYPE_CHECKING:

        @property
        def _store(self) -> Store: ...
        async def cancel(self, target: str, reason: str = "", *, compensate: bool = True, by: str = "") -> bool: ...
        async def _get(self, target: str) -> Run: ...
        async def _near(self, target: str) -> list[str]: ...
        async def _surely(self, ask: Callable[[bool], Coroutine[Any, Any, T]]) -> T: ...
        async def _claiming(self, ask: Callable[[Claimant | None], Coroutine[Any, Any, T]]) -> T: ...
        def _adopt(self, claimed: Iterable[Claimed]) -> None: ...
        async def _has_same_input(self, created: Created, new: NewRun) -> bool: ...
        def _run_id(self, given: str | None) -> RunId: ...
        def _encode_input(self, definition: Workflow[Any, Any], value: Any, run_id: RunId) -> bytes: ...

    # --- sending ---

    @overload
    async def signal(
        self,
        target: str,
        name: Signal[T],
        payload: T,
        *,
        dedup_key: str | None = None,
        if_missing: IfMissing = "raise",
    ) -> Delivery: ...
    @overload
    async def signal(
        self,
        target: str,
        name: str | Cancel,
        payload: Any = None,
        *,
        dedup_key: str | None = None,
        if_missing: IfMissing = "raise",
    ) -> Delivery: ...
    async def signal(
        self,
        target: str,
        name: str | Signal[Any] | Cancel,
        payload: Any = None,
        *,
        dedup_key: str | None = None,
        if_missing: IfMissing = "raise",
    ) -> Delivery:
        """Send a signal to a run (by id or key). It is durable when this returns, whether or not the run waits for it
        yet.

        With no active run: "raise" a `NotFoundError` (`RunEndedError` if the run is there and has ended), "hold" it for
        the next run of that key, or "drop" it. Nothing is held for the id of a run that has ended: that raises
        `RunEndedError`, too. A `dedup_key` that the run knows answers DUPLICATE, also after its end. The payload
        of a `Signal[...]` is checked first: `InvalidInputError` has all violations, and nothing is stored. A `Cancel`
        cancels the run.
        """
        if if_missing not in ("raise", "hold", "drop"):
            raise InvalidOptionError(f"if_missing is {if_missing!r}", fix='"raise", "hold" or "drop"')
        if isinstance(name, Cancel):
            return await self._send_cancel(target, name, if_missing)
        declared = await self._declared(target, name) if self._registry.declares_signals else name
        signal = self._new_signal(target, declared, payload, dedup_key=dedup_key, hold=if_missing == "hold")
        delivery = await self._deliver(signal)
        if delivery is Delivery.MISSING and if_missing != "drop":
            raise await self._missing(target)
        return delivery

    async def _send_cancel(self, target: str, cancel: Cancel, if_missing: IfMissing) -> Delivery:
        if if_missing == "hold":
            raise InvalidOptionError(
                "a Cancel cannot be held", why="it would end a run that nobody has started yet", fix='"raise" or "drop"'
            )
        run = await self._surely(lambda _: self._store.views.find(normal_key(target)))
        if run is None and if_missing == "drop":
            return Delivery.MISSING
        if await self.cancel(target, cancel.reason, compensate=cancel.compensate):
            return Delivery.DELIVERED
        status = (await self._last_of_chain(target)).status
        if status is RunStatus.CANCELLED or status not in TERMINAL:
            return Delivery.DUPLICATE
        if if_missing == "raise":
            raise NotFoundError("active run", target, fix=f"it is {status.value}, and there is nothing to cancel")
        return Delivery.MISSING

    async def _last_of_chain(self, target: str) -> Run:
        run = await self._get(target)
        while run.successor is not None:
            run = await self._get(run.successor)
        return run

    async def _declared(self, target: str, signal: str | Signal[Any]) -> str | Signal[Any]:
        """The signal as the target's workflow declares it, if that workflow is known here and declares its signals."""
        if not self._registry.declares_signals:
            return signal
        name_of(signal)  # before the store is asked for anything
        run = await self._surely(lambda _: self._store.views.find(normal_key(target)))
        known = None if run is None else self._registry.find(run.definition)
        return signal if known is None else known.mailbox.find(signal, known.name)

    async def _missing(self, target: str) -> NotFoundError:
        found = await self._surely(lambda _: self._store.views.find(normal_key(target)))
        if found is not None:
            last = await self._last_of_chain(found.run_id)
            name = last.key or target
            fix = f'send it to the key with if_missing="hold" to keep it for the next run: signal({name!r}, …)'
            again = "start a run with a key, and send it to that key" if last.key is None else fix
            return RunEndedError(target, last.status.value, fix=again)
        fix = 'send it with if_missing="hold" to keep it for a run to come'
        near = [name for name in await self._near(target) if name != normal_key(target)]
        return NotFoundError("active run", target, near=near, fix=fix)

    def _new_signal(
        self,
        target: str,
        signal: str | Signal[Any],
        payload: Any,
        *,
        dedup_key: str | None = None,
        asks: bool = False,
        hold: bool = False,
    ) -> NewSignal:
        name, to = name_of(signal), normal_key(target)
        if dedup_key is not None:
            check_text(dedup_key, "dedup_key")
        stored = encode_payload(self._codec, signal, payload, target=to)
        signal_id = SignalId(self._environment.ids.uuid())
        return NewSignal(signal_id, to, name, stored, dedup_key=dedup_key, asks=asks, hold=hold)

    async def _deliver(self, signal: NewSignal) -> Delivery:
        (delivered,), claimed = await self._surely(
            lambda _: self._claiming(lambda offer: self._store.signals.deliver([signal], offer))
        )
        self._adopt(claimed)
        return delivered.delivery

    # --- asking ---

    @overload
    async def ask(
        self,
        target: str,
        name: Request[T, R],
        payload: T,
        *,
        timeout: Duration | None = None,
        dedup_key: str | None = None,
    ) -> R: ...
    @overload
    async def ask(
        self, target: str, name: Signal[T], payload: T, *, timeout: Duration | None = None, dedup_key: str | None = None
    ) -> Any: ...
    @overload
    async def ask(
        self,
        target: str,
        name: str,
        payload: Any = None,
        *,
        timeout: Duration | None = None,
        dedup_key: str | None = None,
    ) -> Any: ...
    async def ask(
        self,
        target: str,
        name: str | Signal[Any],
        payload: Any = None,
        *,
        timeout: Duration | None = None,
        dedup_key: str | None = None,
    ) -> Any:
        """Send a signal that the run must answer, and wait for the answer.

        The question is durable before the wait begins, and the reply is durable before it is told. Raises `AskRefused`
        if the run refuses, `Unanswered` if it ends (or stands still) without a reply, and `ResultTimeout` when the
        answer has not come in time: the run may still answer then. Asked again with the same `dedup_key`, the question
        is not stored twice, and the one answer is told again.
        """
        limit = None if timeout is None else span(timeout, what="timeout")
        declared = await self._declared(target, name)
        question = self._new_signal(target, declared, payload, asks=True, dedup_key=dedup_key)
        if dedup_key is not None:
            question = question._replace(signal_id=await self._repeatable_id(target, question.name, dedup_key))
        delivery = await self._deliver(question)
        if delivery is Delivery.MISSING:
            raise await self._missing(target)
        answer = await self._answers.wait(question.signal_id, question.name, limit)
        if answer is None:
            raise AlreadyExistsError(
                f"a signal {question.name!r} with the dedup key {dedup_key!r} was sent to this run before",
                fix="ask with another dedup key",
            )
        if answer.status is ReplyStatus.REFUSED:
            failure = decode_failure(answer.value)
            raise AskRefused(failure.message, where=failure.path, fix="ask for something that the run accepts")
        hint = declared.reply_hint if isinstance(declared, Signal) else Any
        place = Place("", question.name, "the reply", row=reply_row(question.signal_id, question.name))
        return self._codec.decode(answer.value, hint, place=place)

    async def _repeatable_id(self, target: str, name: str, dedup_key: str) -> SignalId:
        """The same id for the same question to the same run."""
        run = await self._last_of_chain(target)
        seed = f"{run.run_id}\x1f{name}\x1f{dedup_key}".encode()
        return SignalId(f"ask-{hashlib.blake2b(seed, digest_size=16).hexdigest()}")

    # --- starting with a signal ---

    @overload
    async def signal_or_start(
        self, workflow: Workflow[None, Out], input: None, name: str | Signal[Any], payload: Any = None, *, key: str
    ) -> Handle[Out]: ...
    @overload
    async def signal_or_start(
        self, workflow: Workflow[In, Out], input: In, name: str | Signal[Any], payload: Any = None, *, key: str
    ) -> Handle[Out]: ...
    @overload
    async def signal_or_start(
        self, workflow: str, input: Any, name: str | Signal[Any], payload: Any = None, *, key: str
    ) -> Handle[Any]: ...
    async def signal_or_start(
        self,
        workflow: Workflow[Any, Any] | str,
        input: Any,
        name: str | Signal[Any],
        payload: Any = None,
        *,
        key: str,
    ) -> Handle[Any]:
        """Send a signal to the active run of a key, or start that run with the signal in its mailbox; one transaction.

        Of many callers at once one starts the run (`is_new`), and every signal is in it. A run of the key that has
        ended does not count: a new one is started.
        """
        definition = workflow if isinstance(workflow, Workflow) else self._registry.newest(workflow)
        run_id = self._run_id(None)
        stored = self._encode_input(definition, input, run_id)
        run = NewRun(run_id, definition.name, definition.version, stored, normal_key(key))._replace(
            discards=definition.discards
        )
        signal = self._new_signal(key, definition.mailbox.find(name, definition.name), payload)
        created, _, claimed = await self._surely(
            lambda _: self._claiming(lambda offer: self._store.signals.deliver_or_create(signal, run, offer))
        )
        self._adopt(claimed)
        return Handle(
            self,  # type: ignore[arg-type]  # it is a facade
            created.run_id,
            is_new=created.is_new,
            same_input=await self._has_same_input(created, run),
            output_hint=definition.output_hint,
        )

    # --- what nobody reads ---

    async def held_signals(self, key: str | None = None, *, limit: int = 100) -> list[SignalView]:
        """Signals that are held for a key without an active run, oldest first. The next run of the key gets them."""
        of = None if key is None else normal_key(key)
        held = await self._surely(lambda _: self._store.views.list_held(limit=limit, key=of))
        return [held_view(one) for one in held]

    async def unread_signals(self, target: str | None = None, *, limit: int = 100) -> list[SignalView]:
        """Signals that runs left unread when they ended, and those that did not fit (`reason`), oldest first."""
        of = None if target is None else (await self._get(target)).run_id
        unread = await self._surely(lambda _: self._store.views.list_unread(limit=limit, run_id=of))
        return [unread_view(one) for one in unread]

    async def redeliver(self, signals: SignalView | Sequence[SignalView], *, to: str | None = None) -> list[Delivery]:
        """Deliver held or unread signals by hand, in this order: to another run, or where they were sent to.

        MISSING for one whose target has no active run, which stays where it is; and for one that is not there any more.
        """
        views = [signals] if isinstance(signals, SignalView) else list(signals)
        letters = [self._redelivery(view, normal_key(to or view.target)) for view in views]
        delivered, claimed = await self._surely(
            lambda _: self._claiming(lambda offer: self._store.signals.redeliver(letters, offer))
        )
        self._adopt(claimed)
        return [one.delivery for one in delivered]

    def _redelivery(self, view: SignalView, target: str) -> Redelivery:
        return Redelivery(view.number, target, move_signal(self._codec, view.stored, name=view.name, target=target))
