"""The workflows of the examples run in both modes and on every store; what their steps print are their effects."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cases.conftest import harness, mode, pytest_asyncio_loop_factories, store_kind

__all__ = ["harness", "mode", "pytest_asyncio_loop_factories", "store_kind"]

Printed = Callable[[], list[str]]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """The lines printed since the last call."""
    return lambda: capsys.readouterr().out.splitlines()
