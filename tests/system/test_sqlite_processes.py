"""Several real processes on one SQLite file."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from stepwell.clock import Span
from stepwell.environment import system_environment
from stepwell.errors import StoreNotWritableError
from stepwell.ids import Incarnation, RunId
from stepwell.model.runs import NewRun
from stepwell.model.workers import Claimant, NewWorker
from stepwell.stores.base.views import RunFilter
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.sqlite.store import SqliteStore

_ALL = 1_000_000
_NOBODY = 65_534


def _new(run_id: str) -> NewRun:
    return NewRun(RunId(run_id), "flow", 1, b"null")


async def _open(path: str) -> SqliteStore:
    store = SqliteStore(system_environment(), path)
    await store.open()
    return store


# --- what the other processes do: `python this_file.py ROLE FILE NAME` ----------------------


async def create_many(path: str, name: str) -> None:
    """Start 200 runs one after the other; each line printed is an acknowledged one."""
    store = await _open(path)
    for n in range(200):
        [created] = await store.runs.create([_new(f"{name}-{n:03}")])
        print(created.run_id, flush=True)
    await store.close()


async def create_for_ever(path: str, name: str) -> None:
    """Start runs until killed; each line printed is an acknowledged one."""
    store = await _open(path)
    n = 0
    while True:
        [created] = await store.runs.create([_new(f"{name}-{n:06}")])
        print(created.run_id, flush=True)
        n += 1


async def read_and_write(path: str, name: str) -> None:
    """Start runs with large inputs, look at them between, and hear others; prints how long the log ever was."""
    store = await _open(path)
    store.wakeups.listen(lambda _: None)
    longest = 0
    for n in range(200):
        await store.runs.create([_new(f"{name}-{n:03}")._replace(input=b'"' + b"x" * 30_000 + b'"')])
        await store.views.find(RunId(f"{name}-{n:03}"))
        await asyncio.sleep(0)
        longest = max(longest, _log_bytes(path))
    print(longest, flush=True)
    await store.close()


def _log_bytes(path: str) -> int:
    return Path(f"{path}-wal").stat().st_size


async def claim_all(path: str, name: str) -> None:
    """Claim in small batches until nothing is left; prints what it got."""
    store = await _open(path)
    await store.workers.register(NewWorker(Incarnation(name), name, Span(60_000_000), ("flow@1",)))
    while claimed := await store.runs.claim(Claimant(Incarnation(name), 3, ("flow@1",))):
        for one in claimed:
            print(one.run.run_id, one.run.epoch, flush=True)
    await store.close()


async def open_as_nobody(path: str, _: str) -> None:
    """Open the file without any rights."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    try:
        await _open(path)
    except StoreNotWritableError as error:
        print(error.code, flush=True)


async def hold_lock(path: str, seconds: str) -> None:
    """Be in the middle of a write for a while."""
    connection = apsw.Connection(path)
    connection.execute("begin immediate")
    print("held", flush=True)
    await asyncio.sleep(float(seconds))
    connection.execute("commit")
    connection.close()


# --- the tests --------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "runs.db")


def _start(role: Callable[[str, str], object], file: str, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, role.__name__, file, name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _finish(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return out.split("\n")[:-1]


async def _ids(file: str) -> list[str]:
    store = await _open(file)
    runs = await store.views.list_runs(RunFilter(), limit=_ALL)
    assert await store.views.orphans() == []
    await store.close()
    return sorted(run.run_id for run in runs)


def _check_integrity(file: str) -> None:
    connection = apsw.Connection(file)
    assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_eight_processes_that_race_to_create_the_file_all_succeed(file: str) -> None:
    acknowledged = [
        run_id for process in [_start(create_many, file, f"p{n}") for n in range(8)] for run_id in _finish(process)
    ]

    assert len(acknowledged) == 1_600
    assert asyncio.run(_ids(file)) == sorted(acknowledged)
    _check_integrity(file)


def test_the_log_stays_short_while_four_processes_write_and_read_without_a_pause(file: str) -> None:
    lines = [line for process in [_start(read_and_write, file, f"p{n}") for n in range(4)] for line in _finish(process)]

    assert max(map(int, lines)) <= 16_000_000
    assert len(asyncio.run(_ids(file))) == 800
    _check_integrity(file)


def test_each_run_is_claimed_by_one_process_only(file: str) -> None:
    _finish(_start(create_many, file, "p"))

    lines = [line for process in [_start(claim_all, file, f"w{n}") for n in range(4)] for line in _finish(process)]

    assert sorted(lines) == [f"p-{n:03} 1" for n in range(200)]


def test_what_was_acknowledged_survives_kill_9(file: str) -> None:
    acknowledged: list[str] = []
    for attempt in range(5):
        process = _start(create_for_ever, file, f"a{attempt}")
        assert process.stdout is not None
        acknowledged.append(process.stdout.readline().strip())
        time.sleep(0.02 * attempt)
        process.send_signal(signal.SIGKILL)
        out, _ = process.communicate(timeout=30)
        acknowledged += [line for line in out.split("\n")[:-1] if len(line) == len("a0-000000")]

    assert set(acknowledged) <= set(asyncio.run(_ids(file)))
    _check_integrity(file)


async def test_another_process_is_heard(file: str) -> None:
    store = await _open(file)
    heard = asyncio.Event()
    store.wakeups.listen(lambda hint: heard.set() if hint.kind is HintKind.CHANGED else None)

    process = _start(create_many, file, "p")

    await asyncio.wait_for(heard.wait(), 60)
    _finish(process)
    assert await store.views.find("p-199") is not None
    await store.close()


async def test_a_lock_of_another_process_is_waited_for(file: str) -> None:
    store = await _open(file)
    process = _start(hold_lock, file, "1.5")
    assert process.stdout is not None
    process.stdout.readline()
    begun = time.monotonic()

    [created] = await store.runs.create([_new("r1")])

    assert created.is_new
    assert 0.5 < time.monotonic() - begun < 30
    _finish(process)
    await store.close()


def test_a_folder_without_rights_is_said() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)

        lines = _finish(_start(open_as_nobody, f"{folder}/runs.db", ""))

        Path(folder).chmod(0o755)
    assert lines == ["SW613"]


if __name__ == "__main__":
    roles = (create_many, create_for_ever, read_and_write, claim_all, open_as_nobody, hold_lock)
    asyncio.run({role.__name__: role for role in roles}[sys.argv[1]](sys.argv[2], sys.argv[3]))
