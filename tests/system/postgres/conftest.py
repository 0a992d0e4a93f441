"""A server that may be hurt: every test here has a database of its own on it, and finds it running."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.postgres import PostgresServer
from tests.system.postgres.crew import Crew


@pytest.fixture(scope="package")
def _server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def server(_server: PostgresServer) -> PostgresServer:
    """A durable server that commits only what is on the disk; a test may stop, kill and start it."""
    _server.start()
    return _server


@pytest.fixture
def crew(server: PostgresServer, tmp_path: Path) -> Iterator[Crew]:
    """No workers yet, on a database of the test's own."""
    url = server.create_database()
    with Crew(tmp_path, url) as crew:
        yield crew
    server.start()
    server.drop_database(url)
