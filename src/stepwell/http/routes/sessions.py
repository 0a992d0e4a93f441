"""Operations on the caller's own session: sign in with a token, see who is signed in, and sign out."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from stepwell.clock import to_datetime
from stepwell.errors import NotAuthenticatedError, NotFoundError
from stepwell.http.operations import Call, Operation, Reply, look
from stepwell.http.roles import GRANTS, Caller, Permission, Role
from stepwell.http.sessions import LASTS_SECONDS, Session, Sessions, write_cookie
from stepwell.http.tokens import TOKEN_MAX


class SignInBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A token."""

    token: Annotated[str, Meta(min_length=1, max_length=TOKEN_MAX)]


class SessionBody(msgspec.Struct):
    """Who the caller is, and what this caller may do.

    `ends_at` is the end of a session that began with a sign-in; a caller without one cannot sign out.
    """

    name: str
    role: Role
    permissions: list[Permission]
    sees_payloads: bool
    ends_at: datetime | None
    version: str


class SignedOutBody(msgspec.Struct):
    """Whether there was a session to end."""

    ended: bool


async def show(call: Call) -> Reply:
    """Who the caller is."""
    session = None if call.services.sessions is None else call.services.sessions.find(call.scope)
    return Reply(_body(call, call.caller, session))


async def sign_in(call: Call) -> Reply:
    """Begin a session, and set its cookie."""
    body: SignInBody = call.body
    begun = await _sessions(call).begin(body.token.strip())
    if begun is None:
        raise NotAuthenticatedError(
            "this token is not valid",
            why="it is unknown, expired or revoked",
            fix="check that it was copied as a whole; an admin creates tokens with `stepwell token new NAME`",
        )
    session, value = begun
    call.caller = session.caller
    cookie = write_cookie(value, seconds=LASTS_SECONDS, is_secure=_is_secure(call))
    return Reply(_body(call, session.caller, session), 200, {"set-cookie": cookie})


async def sign_out(call: Call) -> Reply:
    """End the caller's session, on every server of this store."""
    sessions = call.services.sessions
    session = None if sessions is None else sessions.find(call.scope)
    if sessions is not None and session is not None:
        await sessions.end(session)
    cookie = write_cookie("", seconds=0, is_secure=_is_secure(call))
    return Reply(SignedOutBody(session is not None), 200, {"set-cookie": cookie})


def _sessions(call: Call) -> Sessions:
    if call.services.sessions is None:
        raise NotFoundError(
            "sign-in", "", fix="this server does not take tokens: it identifies its callers in another way"
        )
    return call.services.sessions


def _is_secure(call: Call) -> bool:
    """Whether the page was loaded over TLS, also from a proxy that terminates it."""
    return call.scope.get("scheme") == "https" or call.headers.get("origin", "").startswith("https://")


def _body(call: Call, caller: Caller, session: Session | None) -> SessionBody:
    services = call.services
    granted = GRANTS[caller.role]
    return SessionBody(
        caller.name,
        caller.role,
        [each for each in Permission if each in granted],
        caller.sees_payloads,
        None if session is None else to_datetime(session.ends_at),
        services.document["info"]["version"],
    )


OPERATIONS = (
    look("/session", "show_session", show, "Who the caller is", {200: SessionBody}),
    Operation(
        method="POST",
        path="/session",
        name="sign_in",
        permission=Permission.SIGN_IN,
        handler=sign_in,
        summary="Begin a session with a token, for the pages of the dashboard",
        answers={200: SessionBody},
        body=SignInBody,
    ),
    Operation(
        method="DELETE",
        path="/session",
        name="sign_out",
        permission=Permission.READ,
        handler=sign_out,
        summary="End the session",
        answers={200: SignedOutBody},
    ),
)
