"""A PostgreSQL server of our own: started on loopback, killed, restarted, followed by a standby, gone afterwards."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import LiteralString, Self

from tests.servers.account import make_folder, memory_root, temporary_root
from tests.servers.binaries import VERSIONS, find_programs
from tests.servers.databases import DatabaseServer
from tests.servers.guard import end_processes, guard
from tests.servers.ports import HOST, Port

_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.005

_EVERYWHERE = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    # In the data folder: what a killed server leaves is removed with it, and a container's small /dev/shm is enough.
    "dynamic_shared_memory_type": "mmap",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_NOT_DURABLE = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_wal_size": "128MB",  # it may be in memory
}


class ServerFailedError(RuntimeError):
    """A program of the server failed; the message has what it said."""


class PostgresServer(DatabaseServer):
    """One server with a data folder, a port and processes of its own; usable as a context manager.

    The port stays the same over stops and kills, so that URLs stay valid. With `durable=False` nothing waits for a disk
    and the data is in memory if there is room: faster, but `kill` may lose commits. Nothing of the server outlives
    this process, however that ends.
    """

    def __init__(
        self,
        version: int = VERSIONS[0],
        *,
        durable: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.version = version
        self.durable = durable
        self.programs = find_programs(version)
        account = self.programs.account
        root = temporary_root(account) if durable else memory_root(account)
        self.folder = make_folder(f"postgres-{version}", account, root=root)
        guard.watch(self.folder)
        self.data = self.folder / "data"
        self.log = self.folder / "server.log"
        self._port = Port()
        self.port = self._port.number
        # Copying files needs checkpoints, which are cheap only where nothing has to reach a disk.
        strategy: LiteralString = "wal_log" if durable else "file_copy"
        super().__init__(f"postgresql://postgres@{HOST}:{self.port}/postgres", strategy=strategy)
        self._settings = _EVERYWHERE | ({} if durable else _NOT_DURABLE) | dict(settings or {})
        self._revision = 0
        self._primary: PostgresServer | None = None
        self._standbys = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
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
        """The process id of the main process; the server must have been started."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start, or start again, and return when connections are accepted; data is made or recovered as needed.

        Raises ServerFailedError.
        """
        if self.running:
            return
        if not self._settings_file.exists():
            self._make_data()
        self._launch()

    def stop(self) -> None:
        """Fast shutdown: transactions are rolled back, connections ended, everything is on disk.

        Raises ServerFailedError, and kills, when that takes too long: a frozen standby, for one, is waited for.
        """
        if not self._end(signal.SIGINT):
            raise ServerFailedError(f"no end after {_PATIENCE_SECONDS:g} s:\n{self._said()}")

    def kill(self) -> None:
        """SIGKILL for every process of the server; returns when none is left. The data folder stays as it is."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Fast shutdown and start."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End the server at once and remove everything that it had; nothing if that is done already."""
        # A forked child has a copy of this object; the server is not its own to end.
        if self._owner != os.getpid() or not self.folder.exists():
            return
        self._end(signal.SIGQUIT)
        _remove_shared_memory(self.data)
        shutil.rmtree(self.folder)
        guard.forget(self.folder)
        self._port.release()

    def configure(self, settings: Mapping[str, str]) -> None:
        """Change settings, kept over restarts. Those that need no restart are in force when this returns."""
        self._settings |= settings
        if not self._settings_file.exists():
            return
        self._write_settings()
        if self.running:
            self.execute("select pg_reload_conf()")
            # The main process tells all others before it accepts another connection: once a new one knows, all do.
            self._await("select 1 where current_setting('stepwell.revision', true) = %s", str(self._revision))

    def standby(self) -> PostgresServer:
        """A started copy of this server that follows it; from now on a commit here waits until it is on disk there too.

        While the standby is down nothing can be committed here, unless `synchronous_standby_names` is configured to "".
        Raises ValueError for a server that is not durable: its commits wait for nothing.
        """
        follower = PostgresServer(self.version)
        try:
            follower.follow(self)
        except BaseException:
            follower.close()
            raise
        return follower

    def follow(self, primary: PostgresServer) -> None:
        """Become a standby of another server, as `standby` says: started, at the port that this one had before.

        This server must be down, and what it had is forgotten: a killed primary comes back as its successor's standby.
        Raises ValueError for a primary that is not durable.
        """
        if not primary.durable:
            raise ValueError("only a durable server can have a standby: the commits of others wait for nothing")
        assert not self.running
        _remove_shared_memory(self.data)
        shutil.rmtree(self.data, ignore_errors=True)
        primary._standbys += 1
        name = f"standby_{primary._standbys}"
        # What a standby misses while it is down must still be here when it is back.
        primary.configure({"wal_keep_size": "1GB"})
        source = f"host={HOST} port={primary.port} user=postgres application_name={name}"
        self._primary = primary
        # Of an earlier life as a primary: promoted, it would wait for a standby that is gone.
        self._settings |= {"primary_conninfo": source, "synchronous_standby_names": ""}
        self.start()
        primary.configure({"synchronous_standby_names": name})
        # The checkpointer is who makes commits wait; it reads new settings before it begins a checkpoint.
        primary.execute("checkpoint")
        primary._await("select 1 from pg_stat_replication where application_name = %s and sync_state = 'sync'", name)

    def promote(self) -> None:
        """Make a standby a primary; returns when it accepts writes. Raises ServerFailedError when it does not."""
        if self.execute("select pg_promote(wait => true, wait_seconds => 60)") != [(True,)]:
            raise ServerFailedError(f"not promoted:\n{self._said()}")

    @property
    def _settings_file(self) -> Path:
        """Ours; it exists as soon as the data is complete."""
        return self.data / "stepwell.conf"

    def _make_data(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)  # half of it, from a first attempt that failed
        if self._primary is None:
            # The C locale is the same everywhere; the wheel's programs know no ICU, and the machine may know no other.
            locale = ("--encoding=UTF8", "--locale-provider=libc", "--locale=C")
            self._run("initdb", "--pgdata=data", "--username=postgres", "--auth=trust", "--no-sync", *locale)
            with (self.data / "postgresql.conf").open("a") as file:
                file.write(f"include = '{self._settings_file.name}'\n")
        else:
            source = f"--dbname=host={HOST} port={self._primary.port} user=postgres"
            self._run("pg_basebackup", "--pgdata=data", source, "--checkpoint=fast", "--wal-method=stream", "--no-sync")
            self._write("standby.signal", "")
        self._write_settings()

    def _write_settings(self) -> None:
        self._revision += 1
        settings = self._settings | {"port": str(self.port), "stepwell.revision": str(self._revision)}
        lines = (f"{name} = '{value.replace(chr(39), chr(39) * 2)}'\n" for name, value in settings.items())
        self._write(self._settings_file.name, "".join(lines))

    def _write(self, name: str, text: str) -> None:
        """A file of the data folder, owned like it; whoever reads it sees all of it or what was there before."""
        new = self.data / f"{name}.new"
        new.write_text(text)
        owner = self.data.stat()
        os.chown(new, owner.st_uid, owner.st_gid)
        new.replace(self.data / name)

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

    def _launch(self) -> None:
        """Start the main process and wait until it is ready."""
        before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            process = self._process = subprocess.Popen(
                [self.programs.path("postgres"), "-D", str(self.data)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=_environment(),
                start_new_session=True,  # an interrupt typed at the terminal is for us, not for the server
                **self.programs.account.owner,
            )
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._is_ready(process.pid):
            if process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise ServerFailedError(f"postgres is not ready, exit code {process.returncode}:\n{self._said(before)}")
            time.sleep(_POLL_SECONDS)

    def _is_ready(self, pid: int) -> bool:
        """What the server says in its lock file: line 1 is the process id, line 8 the state."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def _await(self, question: LiteralString, parameter: str) -> None:
        """Return when the question has an answer; each time it is asked in a new connection."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self.execute(question, [parameter]):
            if time.monotonic() > deadline:
                raise ServerFailedError(f"no answer to {question} ({parameter}):\n{self._said()}")
            time.sleep(_POLL_SECONDS)

    def _said(self, offset: int = 0) -> str:
        return self.log.read_bytes()[offset:].decode(errors="replace")[-4000:]

    def _end(self, sign: signal.Signals) -> bool:
        """Send the signal to the main process and see to it that nothing is left; False when that took force."""
        process, self._process = self._process, None
        if process is None:
            return True
        process.send_signal(sign)
        try:
            process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return False
        finally:
            # Only the main process starts others, so none is added now; one that was killed left its own behind.
            end_processes(self.folder, signal.SIGKILL)
        return True


def multi_host_url(*servers: PostgresServer, database: str = "postgres") -> str:
    """A URL that leads to whichever of the servers takes writes."""
    hosts = ",".join(f"{HOST}:{server.port}" for server in servers)
    return f"postgresql://postgres@{hosts}/{database}?target_session_attrs=read-write"


def _environment() -> dict[str, str]:
    """A developer's own PG* variables and language do not reach the server."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LD_LIBRARY_PATH"}}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}


def _remove_shared_memory(data: Path) -> None:
    """A server that ended by itself left no lock file; a killed one left a small segment, and the system has few."""
    try:
        segment = (data / "postmaster.pid").read_text().splitlines()[6].split()[1]
    except (FileNotFoundError, IndexError):
        return
    ctypes.CDLL(None).shmctl(int(segment), 0, None)
