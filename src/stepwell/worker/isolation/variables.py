"""The environment variables of a body in a process of its own: what a program needs to run, and what its step names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

# Where programs, libraries and temporary files are, who runs it, in which language, and how the interpreter behaves.
NEEDED: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TEMP", "TMP", "TZ"),
    *("LANG", "LANGUAGE", "LC_*"),
    *("PYTHON*", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "DYLD_*", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)


def variables_for(named: Iterable[str], given: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of this process that a body gets: the ones that are needed, and those that its step names."""
    exact: set[str] = set()
    begun: list[str] = []
    for name in (*NEEDED, *named):
        if name.endswith("*"):
            begun.append(name[:-1])
        else:
            exact.add(name)
    mine = os.environ if given is None else given
    return {name: value for name, value in mine.items() if name in exact or name.startswith(tuple(begun))}
