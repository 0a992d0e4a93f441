"""The environment variables of an isolated body: what every program needs, and the names that its step lists."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

# Paths of programs, libraries and temporary files, the user, the language, and settings of the interpreter.
NEEDED: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TEMP", "TMP", "TZ"),
    *("LANG", "LANGUAGE", "LC_*"),
    *("PYTHON*", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "DYLD_*", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)


def variables_for(named: Iterable[str], given: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of this process that a body gets: `NEEDED`, and the names that its step lists."""
    exact: set[str] = set()
    begun: list[str] = []
    for name in (*NEEDED, *named):
        if name.endswith("*"):
            begun.append(name[:-1])
        else:
            exact.add(name)
    mine = os.environ if given is None else given
    return {name: value for name, value in mine.items() if name in exact or name.startswith(tuple(begun))}
