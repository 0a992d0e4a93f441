"""A real `stepwell serve`, in a process of its own on a loopback address."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from stepwell.http.tokens import write_tokens
from tests.http import desk
from tests.http.desk import SECRET, TOKENS

APP = str(Path(desk.__file__))
ROOT = Path(__file__).parents[2]


class Server(NamedTuple):
    """A server that answers."""

    url: str
    pid: int
    tokens: Path


def environment() -> dict[str, str]:
    paths = [str(ROOT), str(ROOT / "src")]
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("STEPWELL_")},
        "PYTHONPATH": os.pathsep.join(paths),
        "STEPWELL_HOOK_SHOP": SECRET,
        "STEPWELL_HOOK_BANK": SECRET,
    }


def command(db: str, *words: str) -> list[str]:
    return [sys.executable, "-m", "stepwell.cli.main", "--db", db, "serve", *words]


@contextmanager
def serving(folder: Path, db: str = "", *, words: Sequence[str] = (), has_tokens: bool = True) -> Iterator[Server]:
    tokens = folder / "tokens"
    write_tokens(tokens, TOKENS)
    hooks = ["--hook", "shop=event:orders", "--hook", "bank=signal:paid@data.run"]
    guarded = ["--tokens", str(tokens)] if has_tokens else []
    line = command(db or f"sqlite:///{folder / 'served.db'}", "tests.http.desk", "--port", "0", "-o", "json")
    process = subprocess.Popen(
        [*line, "--embedded", *hooks, *guarded, *words], stdout=subprocess.PIPE, env=environment(), cwd=ROOT
    )
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        yield Server(said["url"], process.pid, tokens)
    finally:
        process.terminate()
        process.wait(20)
        assert process.stdout is not None
        process.stdout.close()
