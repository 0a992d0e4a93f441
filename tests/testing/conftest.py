"""The kit tests itself, on its own fixture; PostgreSQL is the server that all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.shared import shared_server


@pytest.fixture(scope="session")
def stepwell_postgres_url(_shared_servers: None) -> Iterator[str]:
    server = shared_server()
    url = server.create_database()
    yield url
    server.drop_database(url)
