"""What every test shares: reproducible property tests and an environment without a developer's own settings."""

from __future__ import annotations

import gc
import os
from importlib.metadata import entry_points

import pytest
from hypothesis import settings

from tests.servers.account import memory_root, server_account

# Where the package was installed before it had a plugin, pytest does not find that by itself.
_FINDS_KIT = any(entry.value == "stepwell.testing.plugin" for entry in entry_points(group="pytest11"))

pytest_plugins = ["pytester", "tests.servers.fixtures", *([] if _FINDS_KIT else ["stepwell.testing.plugin"])]

# The same examples every time: a failure on one machine is a failure on all. Speed is not a property.
settings.register_profile("stepwell", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("stepwell")

# Most tests that have a file write it and wait for the disk. What a killed process wrote is in the system's memory
# anyway, so nothing that is tested here needs one; where memory is scarce, it is a disk.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory_root(server_account())))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Golden files are written by the tests that compare them."""
    parser.addoption("--rewrite-golden", action="store_true", help="write the golden files of terminal output anew")


@pytest.fixture(autouse=True)
def _no_personal_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable in a developer's shell never changes a test's outcome; STEPWELL_TEST_* is how tests are steered."""
    for name in list(os.environ):
        if name.startswith("STEPWELL_") and not name.startswith("STEPWELL_TEST_"):
            monkeypatch.delenv(name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What may take longest comes first, so that no process is left with it alone at the end."""
    items.sort(key=lambda item: -max((mark.args[0] for mark in item.iter_markers("timeout") if mark.args), default=0))


def pytest_collection_finish() -> None:
    """Twelve thousand tests are there to stay: the collector need not look at them again and again."""
    gc.collect()
    gc.freeze()
    if os.environ.get("GCT"):
        gc.collect()
        gc.set_threshold(*map(int, os.environ["GCT"].split(",")))
