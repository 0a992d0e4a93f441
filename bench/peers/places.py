"""Where a participant keeps its data during one measure: a fresh folder, database or server of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from bench.peers.catalogue import Participant
from bench.peers.environments import restate_server, temporal_server
from tests.servers.account import make_folder, server_account
from tests.servers.guard import guard
from tests.servers.ports import HOST, Port
from tests.servers.postgres import PostgresServer

_PATIENCE_SECONDS = 30.0


@dataclass
class Spot:
    """One place. `order` is what a driver has to know of it."""

    folder: Path
    order: dict[str, Any] = field(default_factory=dict)
    path: str = ""  # where programs are found that the driver needs
    servers: list[int] = field(default_factory=list)  # the processes whose work counts beside the driver's
    holds_memory: bool = False  # whether the servers keep what waits in memory
    url: str | None = None  # of the PostgreSQL database

    def size(self) -> int:
        """Bytes that are stored."""
        if self.url is not None:
            with psycopg.connect(self.url) as connection:
                row = connection.execute("select pg_database_size(current_database())").fetchone()
                return int(row[0]) if row else 0
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())


@contextmanager
def spot_for(participant: Participant, postgres: PostgresServer | None, root: Path) -> Iterator[Spot]:
    """A place that nobody has used; it is gone afterwards.

    Raises UnavailableError.
    """
    folder = make_folder("peers", server_account(), root=root)
    guard.watch(folder)
    folder.chmod(0o755)
    try:
        if participant.place == "sqlite":
            yield Spot(folder, {"folder": str(folder), "url": f"sqlite:///{folder}/peer.db"})
        elif participant.place == "postgres":
            assert postgres is not None
            url = postgres.create_database()
            try:
                path = str(postgres.programs.folder)
                yield Spot(folder, {"folder": str(folder), "url": url}, path, [postgres.pid], url=url)
            finally:
                postgres.drop_database(url)
        elif participant.place == "restate":
            with _restate(folder) as spot:
                yield spot
        else:
            with _temporal(participant, folder) as spot:
                yield spot
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        guard.forget(folder)


@contextmanager
def _restate(folder: Path) -> Iterator[Spot]:
    program = restate_server()
    ports = [Port() for _ in range(4)]
    ingress, admin, node, endpoint = (port.number for port in ports)
    settings = {
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_INGRESS__BIND_ADDRESS": f"{HOST}:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"{HOST}:{admin}",
        "RESTATE_BIND_ADDRESS": f"{HOST}:{node}",
        "RESTATE_LOG_FILTER": "error",
    }
    for port in ports:
        port.release()  # a server that does not ask to share the address could not take it
    words = ["--no-logo", "--node-name", "bench", "--listen-mode", "tcp", "--base-dir", str(folder / "data")]
    order = {
        "folder": str(folder),
        "ingress": f"http://{HOST}:{ingress}",
        "admin": f"http://{HOST}:{admin}",
        "port": endpoint,
    }
    with _served([str(program), *words], settings, folder, (ingress, admin)) as pid:
        time.sleep(1.0)  # its partitions find their leaders after it listens
        yield Spot(folder, order, servers=[pid], holds_memory=True)


@contextmanager
def _temporal(participant: Participant, folder: Path) -> Iterator[Spot]:
    port = Port()
    port.release()
    words = ["server", "start-dev", "--headless", "--ip", HOST, "--port", str(port.number), "--log-level", "error"]
    file = ["--db-filename", str(folder / "temporal.db")]
    order = {"folder": str(folder), "address": f"{HOST}:{port.number}"}
    with _served([str(temporal_server(participant)), *words, *file], {}, folder, (port.number,)) as pid:
        time.sleep(1.0)
        yield Spot(folder, order, servers=[pid], holds_memory=True)


@contextmanager
def _served(command: list[str], settings: dict[str, str], folder: Path, ports: tuple[int, ...]) -> Iterator[int]:
    """A server that listens at the ports; in the folder, so that it ends with this process at the latest."""
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**os.environ, **settings},
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not all(_listens(port) for port in ports):
            if process.poll() is not None or time.monotonic() > deadline:
                said = (folder / "server.log").read_text(errors="replace")[-1_000:]
                raise RuntimeError(f"the server is not there, exit code {process.returncode}: {said}")
            time.sleep(0.05)
        yield process.pid
    finally:
        process.send_signal(signal.SIGKILL)  # nothing of it is needed any more
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0
