"""Servers that everything in one process shares: started with the first use, gone with the process."""

from __future__ import annotations

import atexit
import threading

from tests.servers.binaries import VERSIONS, running_url
from tests.servers.databases import DatabaseServer
from tests.servers.postgres import PostgresServer

_servers: dict[int, PostgresServer] = {}
_lock = threading.Lock()


def shared_server(version: int | None = None) -> DatabaseServer:
    """A server to make databases in. It is fast and not durable, and shared: never stop or kill it.

    Without a version it is the one that STEPWELL_TEST_POSTGRES names, or else the newest. A version is taken at its
    word: the named server answers for its own version only. Raises ServerNotFoundError and ServerFailedError.
    """
    url = running_url()
    if url is not None:
        named = DatabaseServer(url)
        if version is None or named.major_version() == version:
            return named
    version = VERSIONS[0] if version is None else version
    with _lock:
        server = _servers.get(version)
        if server is None:
            server = PostgresServer(version, durable=False)
            try:
                server.start()
            except BaseException:
                server.close()
                raise
            _servers[version] = server
        return server


def close_shared_servers() -> None:
    """End the servers that were started; the next use starts new ones."""
    with _lock:
        while _servers:
            _servers.popitem()[1].close()


atexit.register(close_shared_servers)
