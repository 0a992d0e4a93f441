"""The files of this repository, as the style tests see them."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "stepwell"
_MADE_HERE = {"__pycache__", "build", "dist", "htmlcov"}


@cache
def project_files() -> tuple[Path, ...]:
    """Every file that is or could be committed; without git, every file that is not hidden or made by a tool."""
    names = _git_files("--cached", "--others", "--exclude-standard")
    if names is None:
        paths = [path for path in ROOT.rglob("*") if _is_ours(path.relative_to(ROOT))]
    else:
        paths = [ROOT / name for name in names]
    return tuple(sorted(path for path in paths if path.is_file()))


def ignored_but_committed() -> list[str]:
    """Files under version control that .gitignore says should not be; without git, none."""
    return _git_files("--cached", "--ignored", "--exclude-standard") or []


def _git_files(*options: str) -> list[str] | None:
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", *options], cwd=ROOT, capture_output=True, check=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return [name for name in listed.stdout.split("\0") if name]


def _is_ours(path: Path) -> bool:
    return not any(part in _MADE_HERE or (part.startswith(".") and part != ".ci") for part in path.parts[:-1])


def text_of(path: Path) -> str | None:
    """The file's text, or None for a binary file."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def source_files() -> list[Path]:
    """The package's own modules."""
    return sorted(PACKAGE.rglob("*.py"))


@cache
def syntax_of(path: Path) -> ast.Module:
    """The parsed module."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def name_of(path: Path) -> str:
    """The path as it is written in messages."""
    return path.relative_to(ROOT).as_posix()
