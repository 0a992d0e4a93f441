"""Operations on dead letters: list and show them; retry, edit and drop one or many."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from stepwell.engine.dead_letters import HandledLetter, Letter, LettersActed
from stepwell.engine.facts import facts_of
from stepwell.errors import NotAllowedError
from stepwell.http.fields import KeyText, Limit, Name, Text
from stepwell.http.operations import HIDDEN, Call, Reply, look, steer
from stepwell.http.schemas import audience_of, fields_of

Kind = Literal["event", "signal", "poison", "history", "unserved", "hook"]
Reason = Annotated[str, Meta(min_length=1, max_length=1_024)]
_HANDLED_MAX = 100
_ORIGINAL_MAX = 262_144  # bytes; `stepwell dlq show --raw` writes all of them


class LetterBody(fields_of(Letter)):  # type: ignore[misc]
    """What could not be handled. `payload` is its content, as far as it can be shown."""


class LetterOriginalBody(msgspec.Struct):
    """The bytes of a letter as they were stored or received: `size` of them, the first ones in Base64."""

    letter: str
    size: int
    base64: str
    is_whole: bool


class LetterPage(msgspec.Struct):
    """Letters by kind, the oldest of each first; `next` is the `after` of the next page, if there is one."""

    letters: list[LetterBody]
    next: str | None


class HandledLetterBody(fields_of(HandledLetter)):  # type: ignore[misc]
    """What a person did with a letter."""


class HandledPage(msgspec.Struct):
    """What people did with letters, the latest first."""

    letters: list[HandledLetterBody]


class LettersQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Letters of one kind, workflow, run or code, after a letter."""

    kind: Kind | None = None
    workflow: Name | None = None
    run: KeyText | None = None
    code: Annotated[str, Meta(max_length=10)] | None = None
    limit: Limit = 50
    after: Name | None = None


class HandledQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How many."""

    limit: Annotated[int, Meta(ge=1, le=_HANDLED_MAX)] = 50


class LetterRetryIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Another run for a signal, by id or key."""

    to: KeyText | None = None


class LetterEditIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The new payload, and another run for a signal."""

    payload: Any
    to: KeyText | None = None


class LetterDropIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Why it is dropped."""

    reason: Reason


class WhichLettersIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which letters: all that match. With a reason they are dropped, else they are retried."""

    kind: Kind | None = None
    workflow: Name | None = None
    run: KeyText | None = None
    code: Annotated[str, Meta(max_length=10)] | None = None
    reason: Text = ""


class LetterActedBody(msgspec.Struct):
    """Whether an act changed a letter; false if it was handled before."""

    letter: str
    changed: bool


class LettersActedBody(fields_of(LettersActed)):  # type: ignore[misc]
    """How many letters were handled. `failed` names those that are left, with the reason."""


async def list_letters(call: Call) -> Reply:
    """Dead letters."""
    query: LettersQuery = call.query
    found = await call.services.engine.dead_letters.list(
        query.kind,
        workflow=query.workflow,
        run=query.run,
        code=query.code,
        limit=query.limit + 1,
        after=query.after,
    )
    page = found[: query.limit]
    return Reply(LetterPage([_body(call, one) for one in page], page[-1].letter if len(found) > len(page) else None))


async def list_handled(call: Call) -> Reply:
    """What people did with letters."""
    found = await call.services.engine.dead_letters.handled(limit=call.query.limit)
    audience = audience_of(call)
    return Reply(HandledPage([HandledLetterBody(**facts_of(one, audience)) for one in found]))


async def show(call: Call) -> Reply:
    """One letter."""
    return Reply(_body(call, await call.services.engine.dead_letters.get(call.path["letter"])))


async def show_original(call: Call) -> Reply:
    """The original bytes of a letter."""
    letter = call.path["letter"]
    if not call.caller.sees_payloads:
        raise NotAllowedError(
            "the original bytes of a letter are a payload",
            where=letter,
            why=f"{call.caller.name} may not see payloads",
            fix="ask with a token that sees payloads",
        )
    original = (await call.services.engine.dead_letters.get(letter)).original
    text = b64encode(original[:_ORIGINAL_MAX]).decode()
    return Reply(LetterOriginalBody(letter, len(original), text, len(original) <= _ORIGINAL_MAX))


async def retry(call: Call) -> Reply:
    """Retry a letter."""
    letters, letter = call.services.engine.dead_letters, call.path["letter"]
    return await _act(call, letters.retry(letter, to=call.body.to, by=call.caller.name))


async def edit(call: Call) -> Reply:
    """Retry a letter with another payload."""
    letters, letter, body = call.services.engine.dead_letters, call.path["letter"], call.body
    return await _act(call, letters.edit(letter, body.payload, to=body.to, by=call.caller.name))


async def drop(call: Call) -> Reply:
    """Drop a letter."""
    letters, letter = call.services.engine.dead_letters, call.path["letter"]
    return await _act(call, letters.drop(letter, call.body.reason, by=call.caller.name))


async def act_on_all(call: Call) -> Reply:
    """Retry or drop all letters that match."""
    letters, body = call.services.engine.dead_letters, call.body
    where = {"kind": body.kind, "workflow": body.workflow, "run": body.run, "code": body.code}
    by = call.caller.name
    done = await (letters.drop_all(body.reason, by=by, **where) if body.reason else letters.retry_all(by=by, **where))
    call.after = f"{'dropped' if body.reason else 'retried'} {done.handled}"
    return Reply(LettersActedBody(**facts_of(done, audience_of(call))))


async def _act(call: Call, act: Any) -> Reply:
    changed = await act
    call.after = "changed" if changed else "unchanged"
    return Reply(LetterActedBody(call.path["letter"], changed))


def _body(call: Call, letter: Letter) -> LetterBody:
    facts = facts_of(letter, audience_of(call))
    if not call.caller.sees_payloads:
        facts["payload"] = HIDDEN
    return LetterBody(**facts)


OPERATIONS = (
    look("/dead-letters", "list_letters", list_letters, "Dead letters", {200: LetterPage}, query=LettersQuery),
    look(
        "/dead-letters/handled",
        "list_handled_letters",
        list_handled,
        "What people did with dead letters",
        {200: HandledPage},
        query=HandledQuery,
    ),
    steer(
        "/dead-letters/all",
        "act_on_letters",
        act_on_all,
        "Retry or drop all dead letters that match",
        LettersActedBody,
        WhichLettersIn,
    ),
    look("/dead-letters/{letter}", "show_letter", show, "One dead letter", {200: LetterBody}),
    look(
        "/dead-letters/{letter}/original",
        "show_letter_original",
        show_original,
        "The original bytes of a dead letter",
        {200: LetterOriginalBody},
    ),
    steer("/dead-letters/{letter}/retry", "retry_letter", retry, "Retry a dead letter", LetterActedBody, LetterRetryIn),
    steer(
        "/dead-letters/{letter}/edit",
        "edit_letter",
        edit,
        "Retry a dead letter with another payload",
        LetterActedBody,
        LetterEditIn,
    ),
    steer("/dead-letters/{letter}/drop", "drop_letter", drop, "Drop a dead letter", LetterActedBody, LetterDropIn),
)
