"""The HTTP API and the dashboard: `stepwell.http.app(engine, access=…, dashboard=True)`. Needs the extra `server`."""

from __future__ import annotations

from stepwell.http.access import Authenticator, BearerAccess, LoopbackAccess
from stepwell.http.application import Application, app
from stepwell.http.hooks import Hook
from stepwell.http.limits import Limits
from stepwell.http.roles import Caller, Permission, Role
from stepwell.http.tokens import Token, TokenFile, Tokens, make_token

__all__ = [
    "Application",
    "Authenticator",
    "BearerAccess",
    "Caller",
    "Hook",
    "Limits",
    "LoopbackAccess",
    "Permission",
    "Role",
    "Token",
    "TokenFile",
    "Tokens",
    "app",
    "make_token",
]
