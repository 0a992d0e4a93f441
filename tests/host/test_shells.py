"""Interactive shells, typed into through a terminal: plain ones, and the one that awaits."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SECONDS_MAX = 60.0
PROMPT = ">>> "


class Shell:
    """A program at the other end of a terminal."""

    def __init__(self, terminal: int, process: subprocess.Popen[bytes]) -> None:
        self._terminal = terminal
        self.process = process
        self._left = ""

    def read_until(self, what: str) -> str:
        """What it shows, up to that."""
        deadline = time.monotonic() + SECONDS_MAX
        while what not in self._left:
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"it never showed {what!r}, but {self._left!r}"
            self._left += os.read(self._terminal, 65_536).decode(errors="replace")
        shown, _, self._left = self._left.partition(what)
        return shown

    def type(self, line: str) -> str:
        """Type a line, or a block with its empty line; what it shows until it asks for the next."""
        self.begin(line)
        return self.read_until(PROMPT)

    def begin(self, line: str) -> None:
        """Type a line, and wait for nothing."""
        os.write(self._terminal, f"{line}\n".encode())

    def leave(self) -> int:
        """Type the word for the end; the exit code."""
        self.begin("exit()")
        deadline = time.monotonic() + SECONDS_MAX
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "it does not leave"
            ready, _, _ = select.select([self._terminal], [], [], 0.05)
            if ready:
                try:
                    self._left += os.read(self._terminal, 65_536).decode(errors="replace")
                except OSError:  # there is nobody at the other end
                    time.sleep(0.01)
        return self.process.returncode

    def rest(self) -> str:
        """What it showed while it left."""
        return self._left


@contextmanager
def shell(*words: str) -> Iterator[Shell]:
    leader, follower = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSTARTUP"}
    environment |= {"TERM": "dumb", "PYTHON_BASIC_REPL": "1", "PYTHON_COLORS": "0"}
    process = subprocess.Popen(
        [sys.executable, "-q", *words], stdin=follower, stdout=follower, stderr=follower, env=environment
    )
    os.close(follower)
    try:
        found = Shell(leader, process)
        found.read_until(PROMPT)
        yield found
    finally:
        process.kill()
        process.wait()
        os.close(leader)


def answer(shown: str) -> str:
    """The last line that was shown, without what was typed."""
    return re.sub(r"\x1b\[\?2004[hl]", "", shown).strip().splitlines()[-1].strip()


DEFINITION = """\
@workflow
async def flow(ctx: Context, number: int) -> int:
    return number + (await ctx.receive("more")).payload
"""
IMPORT = "from stepwell import Context, Engine, SyncEngine, workflow"


@pytest.mark.parametrize("words", [("-i",), ("-c", "import code; code.interact(banner='')")], ids=["python", "console"])
@pytest.mark.parametrize("closes", [True, False], ids=["closed", "forgotten"])
def test_a_blocking_engine_serves_line_by_line(tmp_path: Path, words: tuple[str, ...], closes: bool):
    url = f"sqlite:///{tmp_path}/shell.db"
    with shell(*words) as typed:
        typed.type(IMPORT)
        typed.type(DEFINITION)
        typed.type(f"engine = SyncEngine({url!r}, workflows=[flow]).__enter__()")
        typed.type("run = engine.start(flow, 1, key='k')")
        # Nobody types for a while, and the engine works on.
        assert answer(typed.type("engine.signal('k', 'more', 5)")).endswith("'delivered'>")
        assert answer(typed.type("run.result('60s')")) == "6"
        if closes:
            typed.type("engine.__exit__(None, None, None)")
        assert typed.leave() == 0
        assert "Traceback" not in typed.rest()


def test_what_a_shell_has_defined_is_known_by_its_name_to_the_next(tmp_path: Path):
    for number, line in enumerate(
        ("engine.start(flow, 1, key='k').signal('more', 5)", "engine.result('k', timeout='60s')")
    ):
        with shell("-i") as typed:
            typed.type(IMPORT)
            typed.type(DEFINITION)
            typed.type(f"engine = SyncEngine('sqlite:///{tmp_path}/shell.db', workflows=[flow]).__enter__()")
            shown = answer(typed.type(line))
            typed.type("engine.__exit__(None, None, None)")
            assert typed.leave() == 0
            assert number == 0 or shown == "6"


@pytest.mark.parametrize("closes", [True, False], ids=["closed", "forgotten"])
def test_the_shell_of_asyncio_awaits_an_engine(tmp_path: Path, closes: bool):
    url = f"sqlite:///{tmp_path}/shell.db"
    with shell("-m", "asyncio") as typed:
        typed.read_until(PROMPT)  # its banner looks like a line that was typed
        typed.type(IMPORT)
        typed.type(DEFINITION)
        typed.type(f"engine = await Engine({url!r}, workflows=[flow]).__aenter__()")
        typed.type("run = await engine.start(flow, 1, key='k')")
        typed.type("await engine.signal('k', 'more', 5)")
        assert answer(typed.type("await run.result(timeout='60s')")) == "6"
        if closes:
            typed.type("await engine.shutdown()")
        assert typed.leave() == 0
        assert "Traceback" not in typed.rest()


def test_ctrl_c_in_a_shell_ends_the_wait_and_not_the_engine(tmp_path: Path):
    with shell("-i") as typed:
        typed.type(IMPORT)
        typed.type(DEFINITION)
        typed.type(f"engine = SyncEngine('sqlite:///{tmp_path}/shell.db', workflows=[flow]).__enter__()")
        typed.type("run = engine.start(flow, 1, key='k')")
        typed.begin("print('wait' + 'ing'); run.result()")
        typed.read_until("waiting")
        time.sleep(0.3)
        typed.process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in typed.read_until(PROMPT)
        typed.type("engine.signal('k', 'more', 5)")
        assert answer(typed.type("run.result('60s')")) == "6"
        assert typed.leave() == 0
