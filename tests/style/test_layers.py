"""Imports go downwards only; the contracts are in pyproject.toml."""

from __future__ import annotations

import subprocess
import sys

from tests.style.tree import PACKAGE, ROOT


def test_the_import_contracts_are_kept() -> None:
    # A process of its own: the linter imports the package by name and keeps global state.
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    linted = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)

    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_every_module_has_a_place_in_the_layers() -> None:
    contracts = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[tool.importlinter]")[2]
    top_level = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}

    # The package itself and `python -m stepwell` only forward; the stores are layers one by one.
    forwarding = {"__init__", "__main__", "stores"}
    assert {name for name in top_level - forwarding if f"(stepwell.{name})" not in contracts} == set()
