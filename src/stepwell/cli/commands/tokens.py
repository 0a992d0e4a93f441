"""Tokens: create, list and revoke them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Group, Settings
from stepwell.cli.texts import clean

if TYPE_CHECKING:
    from collections.abc import Callable


TOKENS = "stepwell.tokens"
_ROLES = ("viewer", "operator", "worker", "admin")


def _find_tokens() -> str | None:
    """The file that the environment or the settings file names."""
    from stepwell.setting_sources import TOKENS, Sources

    found = Sources().find(TOKENS)
    return None if found is None else str(found.value)


def tokens_option(help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option for the file of tokens."""
    return click.option(
        "--tokens",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        default=_find_tokens,
        help=help,
    )


_token_file = tokens_option(f"The file with the tokens. Default: $STEPWELL_TOKENS, or {TOKENS}.")


@click.group("token", cls=Group)
def token() -> None:
    """Create, list and revoke tokens for the HTTP API.

    \b
    Example:
      stepwell token new ci --role operator --expires 90d
    """


@token.command("new")
@click.argument("name")
@click.option("--role", type=click.Choice(_ROLES), default="viewer", show_default=True, help="What it may do.")
@click.option("--expires", metavar="TIME", help="How long it is valid, such as 90d.")
@click.option("--payloads/--no-payloads", default=None, help="Whether it sees inputs and results.")
@_token_file
@click.pass_obj
def new(
    settings: Settings, name: str, role: str, expires: str | None, payloads: bool | None, tokens: str | None
) -> None:
    """Create a token and print it, once.

    \b
    Example:
      stepwell token new ci --role operator --expires 90d
    """
    from stepwell.http.roles import Role
    from stepwell.http.tokens import add_token, make_token

    text, made = make_token(name, Role(role), payloads=payloads, lasts=expires)
    add_token(Path(tokens or TOKENS), made)
    out = Output(settings)
    out.one("stepwell.token/1", {"token": text, "name": name, "role": role}, run_ids=[], words=lambda: [text])


@token.command("ls")
@_token_file
@click.pass_obj
def listed(settings: Settings, tokens: str | None) -> None:
    """List tokens, without their secrets.

    \b
    Example:
      stepwell token ls
    """
    from stepwell.http.tokens import read_tokens

    found = read_tokens(Path(tokens or TOKENS))
    out = Output(settings)
    items: list[dict[str, Any]] = [
        {
            "name": each.name,
            "role": each.role.value,
            "prefix": each.prefix,
            "expires_at": None if each.expires_at is None else each.expires_at.isoformat(),
            "is_revoked": each.is_revoked,
        }
        for each in found
    ]
    if not out.many("stepwell.token/1", "tokens", items, run_ids=[]):
        rows = [
            [i["name"], i["role"], i["prefix"], i["expires_at"] or "", "revoked" if i["is_revoked"] else ""]
            for i in items
        ]
        out.table([Column("NAME", True), Column("ROLE"), Column("PREFIX"), Column("EXPIRES"), Column("STATE")], rows)


@token.command("revoke")
@click.argument("name")
@_token_file
@click.pass_obj
def revoked(settings: Settings, name: str, tokens: str | None) -> None:
    """Revoke every token of a name; running servers then reject it and end its streams.

    \b
    Example:
      stepwell token revoke ci
    """
    from stepwell.http.tokens import revoke

    count = revoke(Path(tokens or TOKENS), name)
    body = {"name": name, "revoked": count}
    Output(settings).one("stepwell.token/1", body, run_ids=[], words=lambda: [clean(f"Revoked {count} of {name}")])
