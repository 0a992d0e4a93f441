"""The interpreters of this machine, each with an environment of its own that has what the package needs at run time."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MINORS = (11, 12, 13, 14)  # what the package says that it works with
HERE = sys.version_info.minor


class CannotInstallError(Exception):
    """The packages of an interpreter cannot be had here: there is no index, or it has none for that version."""


def find_interpreter(minor: int) -> Path | None:
    """A Python 3 of this minor version: the one that runs this, one on the path, or one that pyenv has made."""
    if minor == HERE:
        return Path(sys.executable)
    return next((found for found in _candidates(minor) if _minor_of(found) == minor), None)


def python_with_packages(minor: int, interpreter: Path) -> Path:
    """An interpreter that can import the package; its environment is made once, beside the others in `.venv`.

    Raises `CannotInstallError`.
    """
    if minor == HERE:
        return interpreter
    folder = ROOT / ".venv" / "interpreters" / f"3.{minor}"
    folder.mkdir(parents=True, exist_ok=True)
    python, ready = folder / "bin" / "python", folder / "ready"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not ready.exists():
            subprocess.run([interpreter, "-m", "venv", "--without-pip", folder], check=True)
            _install(python)
            ready.touch()
    return python


def _install(python: Path) -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--python", str(python)]
    locked = ["--constraint", str(ROOT / "requirements-dev.txt")]
    done = subprocess.run(
        [*pip, "install", "--quiet", *locked, *needed], capture_output=True, text=True, timeout=100, check=False
    )
    if done.returncode != 0:
        raise CannotInstallError(done.stderr[-500:])


def _candidates(minor: int) -> Iterator[Path]:
    on_path = shutil.which(f"python3.{minor}")
    if on_path is not None:
        yield Path(on_path)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/3.{minor}.*/bin/python"))


def _minor_of(interpreter: Path) -> int | None:
    """What an interpreter says of itself; a shim may be there without anything behind it."""
    command = [str(interpreter), "-c", "import sys, venv; print(sys.version_info.minor)"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except OSError:
        return None
    return int(said.stdout) if said.returncode == 0 else None
