"""Writes the types of the API that the dashboard uses, from the table of operations.

`python -m tools.dashboard` writes dashboard/src/schema.ts, which needs Node. `python -m tools.dashboard --check` needs
none: it compares the hashes in the first lines of that file with those of the API and of the file itself.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Final

from stepwell.http.openapi import describe
from stepwell.http.routes import OPERATIONS

ROOT: Final = Path(__file__).resolve().parents[1]
TYPES: Final = ROOT / "dashboard" / "src" / "schema.ts"
_HEAD: Final = "// The API as types, written by `make docs`: from {document}, to {types}.\n"


def load_build() -> ModuleType:
    """dashboard/build.py, which is outside the package."""
    spec = importlib.util.spec_from_file_location("dashboard_build", ROOT / "dashboard" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def document() -> str:
    """The description of the API, without the version of the package and without what is refused: every problem has one
    type.
    """
    found = describe(OPERATIONS)
    found["info"]["version"] = ""
    for path in found["paths"].values():
        for operation in path.values():
            answers = operation["responses"]
            operation["responses"] = {status: answers[status] for status in answers if status < "400"}
    return json.dumps(found, indent=1)


def head_of(body: str) -> str:
    """The first line of the file for this body."""
    return _HEAD.format(document=_digest(document()), types=_digest(body))


def is_fresh() -> bool:
    """Whether the types are those of the present API, and nobody has edited them."""
    if not TYPES.is_file():
        return False
    head, _, body = TYPES.read_text(encoding="utf-8").partition("\n")
    return f"{head}\n" == head_of(body)


def write() -> None:
    """Write the types, unless they are fresh."""
    if is_fresh():
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "openapi.json"
        path.write_text(document(), encoding="utf-8")
        load_build().types(path)
    body = TYPES.read_text(encoding="utf-8")
    TYPES.write_text(head_of(body) + body, encoding="utf-8")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def main(arguments: list[str]) -> int:
    """Write, or with --check only compare. Returns the exit code."""
    if arguments == ["--check"]:
        if is_fresh():
            return 0
        print("dashboard/src/schema.ts is not up to date; run `make docs`", file=sys.stderr)
        return 1
    if arguments:
        print("usage: python -m tools.dashboard [--check]", file=sys.stderr)
        return 2
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
