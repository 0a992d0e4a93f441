"""Operators: who acts, for the audit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])

_UNKNOWN = "unknown"


def os_user() -> str:
    """The name under which this process runs, as the operating system knows it."""
    from getpass import getuser

    try:
        return getuser() or _UNKNOWN
    except (KeyError, OSError):  # a container may run under a number that has no name
        return _UNKNOWN


def by_option(function: Function) -> Function:
    """Give a command `--by`: the name that the audit keeps."""
    return click.option(
        "--by", metavar="NAME", default=os_user, show_default="the OS user", help="Who acts, kept in the audit."
    )(function)
