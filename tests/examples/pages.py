"""The code of pages, carried out as a reader would: block by block, in an empty folder.

* ```python with a first line `# name.py`: a file of that name. A file that no console block of the page names is run:
  by pytest if its name begins with `test_`, otherwise as a program.
* ```python without a name: a program, run by itself. A warning is an error.
* ```text after a program is what it prints; without such a block it must print nothing.
* ```console: commands after `$ `, each with what it prints. `# exit code 9` is the expected exit code. `&` at the end
  leaves a command running until the page is done, or until `kill %1` names it by its number. Port 8000 stands for a
  free port, and a command with `--port` is waited for until it listens. ```sh is shown only.
* `<!-- fragment: reason -->` before a ```python block: it is compiled and not run. So is a ```console block.

In expected lines, … stands for any text, and a line of only … for any lines.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"(?:^<!-- fragment: (?P<reason>[^\n]+?) -->\n)?^```(?P<language>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
EXIT = re.compile(r"\s+# exit code (\d+)$")
NAMED = re.compile(r"# ([\w/]+\.(?:py|toml))\n")
_FINDS_KIT = any(entry.value == "stepwell.testing.plugin" for entry in entry_points(group="pytest11"))
_PYTEST = [
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:randomly",
    *([] if _FINDS_KIT else ["-p", "stepwell.testing.plugin"]),
]
PROGRAMS = {
    "python": [sys.executable, "-W", "error"],
    "stepwell": [sys.executable, "-m", "stepwell.cli.main"],
    "pytest": [sys.executable, "-m", "pytest", *_PYTEST],
    "uvicorn": [sys.executable, "-m", "uvicorn", "--log-level", "warning"],
}
TIMEOUT_SECONDS = 90
_SETTINGS = {
    "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]),
    "PYTHONDONTWRITEBYTECODE": "1",
    "NO_COLOR": "1",
}


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    body: str
    reason: str | None  # why it is not run

    @property
    def file(self) -> str | None:
        """The name of the file that it is."""
        named = NAMED.match(self.body)
        return named[1] if named and self.language in ("python", "toml") else None


class Said(NamedTuple):
    """What a program came to."""

    code: int
    out: str
    err: str


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page that have a language, in their order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [Block(found["language"], found["body"], found["reason"]) for found in BLOCK.finditer(text)]


def matches(expected: Sequence[str], said: Sequence[str]) -> bool:
    """Whether lines are those of the page."""
    if not expected:
        return not said
    first, *rest = expected
    if first.strip() == "…":
        return any(matches(rest, said[skipped:]) for skipped in range(len(said) + 1))
    pattern = ".*".join(re.escape(part) for part in first.split("…"))
    return bool(said) and re.fullmatch(pattern, said[0]) is not None and matches(rest, said[1:])


class Page:
    """A page that is carried out in a folder."""

    def __init__(self, page: str, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.blocks = blocks_of(page)
        self.page = page
        self.folder = folder
        self._environment = {**os.environ, **_SETTINGS, **(environment or {})}
        self._commands = "\n".join(block.body for block in self.blocks if block.language == "console")
        self._running: list[subprocess.Popen[bytes]] = []
        self._port = str(free_port())

    def carry_out(self) -> None:
        """Do everything that the page shows. Raises `AssertionError` where something else happens."""
        with self._stopping():
            following: list[Block | None] = [*self.blocks[1:], None]
            for block, after in zip(self.blocks, following, strict=True):
                self._do(replace(block, body=re.sub(r"\b8000\b", self._port, block.body)), after)

    def _do(self, block: Block, after: Block | None) -> None:
        match block.language:
            case "python" if block.reason is not None:
                compile(block.body, self.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            case "python" | "toml":
                self._write(block, after)
            case "console" if block.reason is None:
                for command, expected in commands_of(block.body):
                    self._command(command, expected)
            case _:
                pass

    def _write(self, block: Block, after: Block | None) -> None:
        name = block.file or ("example.py" if block.language == "python" else None)
        if name is None:
            return
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(block.body, encoding="utf-8")
        if block.language != "python" or re.search(rf"\b{re.escape(Path(name).stem)}\b", self._commands):
            return
        if Path(name).name.startswith("test_"):
            said = self.run([*PROGRAMS["pytest"], name])
            assert said.code == 0, said.out + said.err
            return
        said = self.run([*PROGRAMS["python"], name])
        expected = after.body if after is not None and after.language == "text" else ""
        assert (said.code, said.err) == (0, ""), f"{self.page}, {name}: {said.err or said.out}"
        assert matches(expected.splitlines(), said.out.splitlines()), f"{self.page}, {name} printed:\n{said.out}"

    def _command(self, command: str, expected: list[str]) -> None:
        words = shlex.split(EXIT.sub("", command), comments=True)
        if words[0] == "kill":
            self._stop([self._running[int(word.removeprefix("%")) - 1] for word in words[1:]])
            return
        is_left_running = words[-1] == "&"
        program = [*PROGRAMS[words[0]], *(words[1:-1] if is_left_running else words[1:])]
        if is_left_running:
            self._running.append(
                subprocess.Popen(program, cwd=self.folder, env=self._environment, stdout=subprocess.DEVNULL)
            )
            if "--port" in words:
                wait_for_port(int(words[words.index("--port") + 1]))
            return
        said = self.run(program)
        wanted = EXIT.search(command)
        assert "Traceback" not in said.err, said.err
        assert said.code == (int(wanted[1]) if wanted else 0), f"{command}: {said.out}{said.err}"
        assert matches(expected, said.out.splitlines()), f"{command} printed:\n{said.out}{said.err}"

    def run(self, program: Sequence[str]) -> Said:
        """Run a program in the folder of the page until it ends."""
        done = subprocess.run(
            program,
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    @contextlib.contextmanager
    def _stopping(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._stop(self._running)

    def _stop(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        for process in processes:
            process.terminate()
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()


def free_port() -> int:
    """A port of this machine that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def wait_for_port(port: int) -> None:
    """Wait until a server listens there."""
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, f"nothing listens on port {port}"
            time.sleep(0.05)


def commands_of(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that follow it."""
    found = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *expected = part.rstrip("\n").split("\n")
        found.append((command, expected))
    return found
