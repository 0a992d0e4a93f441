"""Every store, and a world of its own for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.repairs.scene import World


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        found: str = request.getfixturevalue("postgres_url")
        return found
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/repair.db"


@pytest.fixture
def world() -> World:
    return World()
