"""The workflow of a question from one run to another: send it, wait for the answer or the end of the other run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from stepwell.codec.base import Place
from stepwell.engine.backend import Backend
from stepwell.errors import Fatal, NotFoundError, WaitTimeout
from stepwell.ids import SignalId
from stepwell.model.failures import decode_failure
from stepwell.model.messages import ANSWERED, ASK, ASKED_BY_RUN, SENT, Answer, Question
from stepwell.model.signals import ReplyStatus
from stepwell.model.states import TERMINAL
from stepwell.replay.context import Context
from stepwell.replay.primitives.reply import reply_row
from stepwell.replay.primitives.wait_any import done, signal, timer
from stepwell.replay.signals import Signal
from stepwell.replay.steps import step
from stepwell.replay.workflows import Workflow, workflow

_ASKED: Final = ASKED_BY_RUN  # the beginning of the ids of such questions


@dataclass(frozen=True, slots=True)
class Sent:
    """Which run has the question, or why there is none."""

    run_id: str = ""
    reason: str = ""


def ask_workflow(backend: Backend) -> Workflow[Question, Answer]:
    """The workflow, acting through an engine."""

    @step
    async def look(question: Question, signal_id: str) -> Answer | str:
        """The answer; without one, the id of the run that has the question now."""
        asked = await _find(backend, signal_id)
        if asked.reply is not None and asked.reply.status is ReplyStatus.REFUSED:
            return Answer("refused", reason=decode_failure(asked.reply.value).message)
        if asked.reply is not None:
            place = Place("", question.name, "the reply", row=reply_row(signal_id, question.name))
            return Answer("given", backend.codec.decode(asked.reply.value, Any, place=place))
        if asked.run_status in TERMINAL:
            return Answer("unanswered", reason=f"run {asked.run_id} is {asked.run_status} and has not answered")
        return str(asked.run_id)

    @workflow(name=ASK, unread="discard")
    async def ask(ctx: Context, question: Question) -> Answer:
        signal_id = f"{_ASKED}{ctx.run_id}"
        due = None if question.timeout is None else ctx.now() + timedelta(microseconds=question.timeout)
        try:
            sent = await ctx.receive(Signal[Sent](SENT), timeout=None if due is None else due - ctx.now())
        except WaitTimeout:
            return Answer("late")
        found: Answer | str = sent.payload.run_id or Answer("unanswered", reason=sent.payload.reason)
        while isinstance(found, str):
            awaited: dict[str, Any] = {"answered": signal(ANSWERED), "ended": done(found)}
            if due is not None:
                awaited["late"] = timer(max(due - ctx.now(), timedelta()))
            arrived = await ctx.wait_any("answer", **awaited)
            found = await ctx.step(look, question, signal_id)
            if arrived.label == "late" and isinstance(found, str):
                return Answer("late")
        return found

    return ask


async def _find(backend: Backend, signal_id: str) -> Any:
    asked = await backend.retrying(lambda store: store.views.find_question(SignalId(signal_id)))
    if asked is None:
        raise Fatal(str(NotFoundError("question", signal_id)))
    return asked
