"""An environment for each peer, so that none is limited by what another needs: made once, kept in the build folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench.peers.catalogue import RESTATE_SERVER, Participant

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "peers"
_REQUIREMENTS = Path(__file__).with_name("requirements")
_PATIENCE_SECONDS = 600


class UnavailableError(Exception):
    """A peer cannot take part here; the message is the reason that is printed."""


def python_of(participant: Participant) -> Path:
    """The interpreter of its environment, which is made if it is not there.

    Raises UnavailableError.
    """
    if participant.requirements is None:
        return Path(sys.executable)
    file = _REQUIREMENTS / f"{participant.requirements}.txt"
    folder = BUILD / participant.requirements
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not _is_made(folder, file.read_bytes()):
        shutil.rmtree(folder, ignore_errors=True)
        if shutil.which("uv"):
            _run("uv", "venv", "--quiet", "--python", sys.executable, str(folder))
            _run("uv", "pip", "install", "--quiet", "--python", str(python), "--requirement", str(file))
        else:
            _run(sys.executable, "-m", "venv", str(folder))
            pip = (str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet")
            _run(*pip, "--requirement", str(file))
        _note_made(folder, file.read_bytes())
    return python


def version_of(participant: Participant) -> str:
    """What is installed there."""
    ask = f"import importlib.metadata as m; print(m.version({participant.package!r}))"
    done = subprocess.run([python_of(participant), "-c", ask], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def restate_server() -> Path:
    """The program of Restate's server, which is fetched if it is not there.

    Raises UnavailableError.
    """
    folder = BUILD / "restate-server"
    if not _is_made(folder, RESTATE_SERVER.encode()):
        npm = shutil.which("npm")
        if npm is None:
            raise UnavailableError("npm is missing, and the server comes as an npm package")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        # Its scripts would only tell somebody that it was installed.
        quiet = ("--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        _run(npm, "install", "--prefix", str(folder), *quiet, RESTATE_SERVER)
        _note_made(folder, RESTATE_SERVER.encode())
    found = sorted(folder.glob("node_modules/@restatedev/restate-server-*/bin/restate-server"))
    if not found:
        raise UnavailableError("the npm package has no program for this kind of machine")
    return found[0]


def temporal_server(participant: Participant) -> Path:
    """The program of Temporal's dev server, from the wheel."""
    program = python_of(participant).with_name("temporal")
    if not program.exists():
        raise UnavailableError("the wheel has no program for this kind of machine")
    return program


def _is_made(folder: Path, content: bytes) -> bool:
    stamp = folder / ".made-of"
    return stamp.exists() and stamp.read_text() == hashlib.sha256(content).hexdigest()


def _note_made(folder: Path, content: bytes) -> None:
    (folder / ".made-of").write_text(hashlib.sha256(content).hexdigest())


def _run(*command: str) -> None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{Path(command[0]).name} failed: {error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise UnavailableError(
            f"{' '.join((Path(command[0]).name, *command[1:3]))} failed: {said[-1] if said else '?'}"
        )
