"""Fixtures of real servers; a plugin, so that any test may ask for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.binaries import VERSIONS
from tests.servers.databases import DatabaseServer
from tests.servers.shared import close_shared_servers, shared_server


@pytest.fixture(scope="session")
def _shared_servers() -> Iterator[None]:
    yield
    close_shared_servers()


@pytest.fixture
def postgres(_shared_servers: None) -> DatabaseServer:
    """The server that the tests of this process share; make databases in it, never stop it."""
    return shared_server()


@pytest.fixture
def postgres_url(postgres: DatabaseServer) -> Iterator[str]:
    """The URL of a new and empty database, which is removed afterwards."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture(params=VERSIONS, ids=lambda version: f"postgres{version}")
def every_postgres_url(request: pytest.FixtureRequest, _shared_servers: None) -> Iterator[str]:
    """The same for each version in turn: the test runs once on each."""
    server = shared_server(request.param)
    url = server.create_database()
    yield url
    server.drop_database(url)
