"""Completion in real shells: a key that a shell would obey is never put on its line; the run is offered by its id."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell import Context, SyncEngine, workflow
from stepwell.cli.texts import is_plain_word

EVIL = [
    "$(touch evil)",
    "`touch evil`",
    "a;touch evil",
    "a|touch evil",
    "a&touch evil",
    "a>evil",
    "a\ntouch evil",
    "'$(touch evil)'",
    '"`touch evil`"',
    "${x:=$(touch evil)}",
    "$((a[$(touch evil)]))",
    "a\\\ntouch evil",
    "~/x",
    "*",
    "a b",
    "-rf",
    "!!",
    "\x1b]0;x\x07",
    "a,b",
    "#x",
    "(touch evil)",
    "{a,b}",
    "é",
]


@workflow
async def idle(ctx: Context) -> None:
    await ctx.receive("never", timeout="1d")


@pytest.mark.parametrize("key", EVIL)
def test_a_word_that_a_shell_could_obey_is_not_plain(key: str) -> None:
    assert not is_plain_word(key)


@pytest.mark.parametrize("key", ["order-42", "a.b:c/d@e%f+g", "_x", "0190b3c2-7e1a-7abc-8def-0123456789ab"])
def test_a_word_that_every_shell_leaves_alone_is_plain(key: str) -> None:
    assert is_plain_word(key)


_ASK = """
eval "$(stepwell completion bash)"
COMP_WORDS=(stepwell show "") COMP_CWORD=2
_stepwell_completion stepwell "" show
printf '%s\\n' "${COMPREPLY[@]}"
for word in "${COMPREPLY[@]}"; do
    eval ": $word"
done
"""


def test_bash_offers_runs_and_executes_nothing(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    url, ids = f"sqlite:///{tmp_path / 'runs.db'}", []
    with SyncEngine(url, workflows=[idle], worker=False) as engine:
        for key in ("order-42", *EVIL[:6]):
            ids.append(engine.start(idle, key=key).run_id)
    programs = str(Path(sys.executable).parent)
    done = subprocess.run(
        [bash, "--norc", "-c", _ASK],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "STEPWELL_DB": url},
        capture_output=True,
        text=True,
        timeout=100,
    )

    offered = done.stdout.split("\n")
    assert {"@last", "order-42", *ids} <= set(offered), done.stderr
    assert not any("touch" in word for word in offered)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("evil")] == []
