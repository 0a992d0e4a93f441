"""A PostgreSQL server of our own: started on loopback, killed, restarted, followed by a standby, gone afterwards."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import LiteralString, Self

from tests.servers.account import make_folder
from tests.servers.binaries import VERSIONS, find_programs
from tests.servers.databases import Databases
from tests.servers.guard import end_processes, guard, processes_in

_HOST = "127.0.0.1"
_START_SECONDS = 60.0
_POLL_SECONDS = 0.005

_EVERYWHERE = {
    "listen_addresses": _HOST,
    "unix_socket_directories": "",
    # In the data folder: what a killed server leaves is removed with it, and a container's small /dev/shm is enough.
    "dynamic_shared_memory_type": "mmap",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class ServerFailedError(RuntimeError):
    """A program of the server failed; the message has what it said."""


class PostgresServer(Databases):
    """One server with a data folder, a port and processes of its own; usable as a context manager.

    The port stays the same over stops and kills, so that URLs stay valid. With `durable=False` nothing waits for the
    disk: faster, but commits may be lost by `kill`. Nothing of the server outlives this process, however that ends.
    """

    def __init__(
        self,
        version: int = VERSIONS[0],
        *,
        durable: bool = True,
        settings: Mapping[str, str] | None = None,
        primary: PostgresServer | None = None,
    ) -> None:
        self.version = version
        self.durable = durable
        self.programs = find_programs(version)
        self.port = free_port()
        super().__init__(_url(self.port))
        self._settings = _EVERYWHERE | ({} if durable else _NOT_DURABLE) | dict(settings or {})
        self._primary = primary
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        self._standbys = 0
        self._revision = 0
        self.folder = make_folder(f"postgres-{version}", self.programs.account)
        guard.watch(self.folder)
        self.data = self.folder / "data"
        self.log = self.folder / "server.log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether its main process lives; it need not be ready."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the main process; it must be running."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start, or start again, and return when connections are accepted; data is made or recovered as needed.

        Raises ServerFailedError.
        """
        if self.running:
            return
        first = not (self.data / "PG_VERSION").exists()
        if first:
            self._make_data()
        while not self._launch():
            # Somebody took the port between our look and the server's. Once a URL was handed out we can only wait.
            if first:
                self.port = free_port()
                self._url = _url(self.port)
            else:
                time.sleep(0.1)

    def stop(self) -> None:
        """Fast shutdown: transactions are rolled back, connections ended, everything is on disk."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL for every process of the server at once; returns when none is left. The data folder stays."""
        if self._process is not None:
            self._process.kill()
            end_processes(self.folder, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Fast shutdown and start."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End the server at once and remove everything that it had; nothing if that is done already."""
        if self._owner != os.getpid() or not self.folder.exists():
            return
        self._end(signal.SIGQUIT)
        end_processes(self.folder, signal.SIGKILL)
        _remove_shared_memory(self.data)
        shutil.rmtree(self.folder)
        guard.forget(self.folder)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Change settings, kept over restarts. Those that need no restart are in force when this returns."""
        self._settings |= settings
        self._write_settings()
        if not self.running:
            return
        self.execute("select pg_reload_conf()")
        # The main process tells all others before it accepts another connection: when a new one knows, all were told.
        self._await("select 1 where current_setting('stepwell.revision', true) = %s", str(self._revision))

    def standby(self) -> PostgresServer:
        """A started copy of this server that follows it; from now on a commit here waits until it is on disk there too.

        While the standby is down nothing can be committed here, unless `synchronous_standby_names` is configured to "".
        """
        self._standbys += 1
        name = f"standby_{self._standbys}"
        follower = PostgresServer(
            self.version,
            durable=self.durable,
            settings={
                "cluster_name": name,
                "primary_conninfo": f"host={_HOST} port={self.port} user=postgres application_name={name}",
            },
            primary=self,
        )
        try:
            # What a standby misses while it is down must still be here when it is back.
            self.configure({"wal_keep_size": "1GB"})
            follower.start()
            self.configure({"synchronous_standby_names": name})
            # The checkpointer is who makes commits wait; it reads new settings before it begins a checkpoint.
            self.execute("checkpoint")
            self._await("select 1 from pg_stat_replication where application_name = %s and sync_state = 'sync'", name)
        except BaseException:
            follower.close()
            raise
        return follower

    def promote(self) -> None:
        """Make a standby a primary; returns when it accepts writes."""
        self.execute("select pg_promote(wait => true, wait_seconds => 60)")
        self._primary = None

    def _await(self, question: LiteralString, parameter: str) -> None:
        """Return when the question has an answer, each time asked in a new connection."""
        deadline = time.monotonic() + _START_SECONDS
        while not self.execute(question, [parameter]):
            if time.monotonic() > deadline:
                raise ServerFailedError(
                    f"no row after {_START_SECONDS:g} s of {question} ({parameter}):\n{self._said()}"
                )
            time.sleep(_POLL_SECONDS)

    def _make_data(self) -> None:
        if self._primary is None:
            # The C locale is the same everywhere; the wheel's programs know no ICU, and the machine may know no other.
            locale = ("--encoding=UTF8", "--locale-provider=libc", "--locale=C")
            self._run("initdb", "--pgdata=data", "--username=postgres", "--auth=trust", "--no-sync", *locale)
        else:
            source = f"--dbname=host={_HOST} port={self._primary.port} user=postgres"
            self._run("pg_basebackup", "--pgdata=data", source, "--checkpoint=fast", "--wal-method=stream", "--no-sync")
            self._touch("standby.signal")
        with (self.data / "postgresql.conf").open("a") as file:
            file.write("include = 'stepwell.conf'\n")
        self._write_settings()

    def _touch(self, name: str) -> None:
        path = self.data / name
        path.touch()
        owner = self.data.stat()
        os.chown(path, owner.st_uid, owner.st_gid)

    def _write_settings(self) -> None:
        self._revision += 1
        settings = self._settings | {"port": str(self.port), "stepwell.revision": str(self._revision)}
        text = "".join(f"{name} = '{value.replace(chr(39), chr(39) * 2)}'\n" for name, value in settings.items())
        self._touch("stepwell.conf")
        (self.data / "stepwell.conf").write_text(text)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self.programs.path(program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env=_environment(),
            **self.programs.account.owner,
        )
        if done.returncode:
            raise ServerFailedError(f"{program} ended with {done.returncode}:\n{done.stdout}")

    def _launch(self) -> bool:
        """Start the main process and wait until it is ready; False when the port is in use."""
        self._write_settings()
        before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [self.programs.path("postgres"), "-D", str(self.data)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=_environment(),
                start_new_session=True,  # an interrupt typed at the terminal is for us, not for the server
                **self.programs.account.owner,
            )
        self._process = process
        deadline = time.monotonic() + _START_SECONDS
        while not self._is_ready(process.pid):
            if process.poll() is not None:
                self._process = None
                if "Address already in use" in self._said(before) and time.monotonic() < deadline:
                    return False
                raise ServerFailedError(f"postgres ended with {process.returncode}:\n{self._said(before)}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServerFailedError(f"postgres is not ready after {_START_SECONDS:g} s:\n{self._said(before)}")
            time.sleep(_POLL_SECONDS)
        return True

    def _is_ready(self, pid: int) -> bool:
        """What the server writes into its lock file: line 1 is the process id, line 8 the state."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def _said(self, offset: int = 0) -> str:
        return self.log.read_bytes()[offset:].decode(errors="replace")[-4000:]

    def _end(self, sign: signal.Signals) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(sign)
            self._process.wait()
        # It waited for all of its own, unless it was killed.
        if processes_in(self.folder):
            end_processes(self.folder, signal.SIGKILL)
        self._process = None


def multi_host_url(*servers: PostgresServer, database: str = "postgres") -> str:
    """A URL that leads to whichever of the servers takes writes."""
    hosts = ",".join(f"{_HOST}:{server.port}" for server in servers)
    return f"postgresql://postgres@{hosts}/{database}?target_session_attrs=read-write"


def free_port() -> int:
    """A port that nobody listens on now, below those that outgoing connections get.

    An outgoing connection could otherwise take a server's port while it is down, and it could not be started again.
    """
    while True:
        port = random.randint(15000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind((_HOST, port))
            except OSError:
                continue
            return port


def _url(port: int) -> str:
    return f"postgresql://postgres@{_HOST}:{port}/postgres"


def _environment() -> dict[str, str]:
    """A developer's own PG* variables and language do not reach the server."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LD_LIBRARY_PATH", "TMPDIR"}}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}


def _remove_shared_memory(data: Path) -> None:
    """A server that ended by itself left no lock file; a killed one leaves a small segment, and the system has few."""
    try:
        segment = (data / "postmaster.pid").read_text().splitlines()[6].split()[1]
    except (FileNotFoundError, IndexError):
        return
    ctypes.CDLL(None).shmctl(int(segment), 0, None)
