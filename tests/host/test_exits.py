"""How a process ends: with threads that were given up, with engines that nobody closed, by an exit in a body."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stepwell import SyncEngine

PROGRAM = """
import asyncio, sys, time
from stepwell import Context, Engine, SyncEngine, step, workflow

@step(timeout="50ms")
def stuck() -> None:
    time.sleep(600)

@workflow
async def flow(ctx: Context) -> str:
    return (await ctx.try_step(stuck)).kind

async def main(url: str) -> str:
    async with Engine(url, workflows=[flow]) as engine:
        return await (await engine.start(flow)).result()

def blocking(url: str) -> str:
    with SyncEngine(url, workflows=[flow]) as engine:
        return engine.start(flow).result()

print(asyncio.run(main(sys.argv[2])) if sys.argv[1] == "Engine" else blocking(sys.argv[2]))
"""


@pytest.mark.parametrize("kind", ["Engine", "SyncEngine"])
def test_a_thread_that_was_given_up_does_not_keep_its_process(tmp_path: Path, kind: str):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, str(program), kind, f"sqlite:///{tmp_path}/exit.db"]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert (ended.returncode, ended.stdout) == (0, "timeout\n")


def run_program(program: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program as users do, on a database in this folder."""
    path = folder / "program.py"
    path.write_text(program, encoding="utf-8")
    command = [sys.executable, "-W", "error", str(path), f"sqlite:///{folder}/exit.db", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


HEAD = """
import asyncio, atexit, os, signal, sys, threading, time
from stepwell import Context, Engine, Retry, SyncEngine, WorkerSettings, step, workflow

url = sys.argv[1]
settings = WorkerSettings(lease="1s", sweep_every="200ms")

@workflow
async def flow(ctx: Context, number: int) -> int:
    await ctx.sleep("nap", "10ms")
    return await ctx.step("same", lambda: number)
"""


def test_an_engine_that_is_closed_at_the_end_of_the_process_gives_its_runs_back(tmp_path: Path):
    program = """
engine = SyncEngine(url, workflows=[flow], settings=settings).__enter__()
atexit.register(engine.__exit__, None, None, None)
engine.start(flow, 1, key="k", delay="1h")
print(engine.start(flow, 2).result("60s"))
"""
    ended = run_program(HEAD + program, tmp_path)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "2\n", "")
    with SyncEngine(f"sqlite:///{tmp_path}/exit.db") as engine:
        assert engine.workers.list() == []
        assert engine.status("k") is not None


@pytest.mark.parametrize("way", ["end", "exit", "error"])
def test_a_process_ends_while_its_daemon_threads_use_an_engine_that_nobody_closes(tmp_path: Path, way: str):
    program = """
engine = SyncEngine(url, workflows=[flow], settings=settings).__enter__()

def use(side):
    for number in range(10**9):
        engine.start(flow, number, key=f"{side}-{number}").result("60s")

for side in range(4):
    threading.Thread(target=use, args=(side,), daemon=True).start()
while len(engine.runs.list()) < 20:
    time.sleep(0.01)
print("enough", flush=True)
if sys.argv[2] == "exit":
    sys.exit(3)
if sys.argv[2] == "error":
    raise ValueError("as programs do")
"""
    ended = run_program(HEAD + program, tmp_path, way)

    assert (ended.returncode, ended.stdout) == ({"end": 0, "exit": 3, "error": 1}[way], "enough\n")
    assert [line for line in ended.stderr.splitlines() if "Fatal Python error" in line or "SW" in line] == []


@pytest.mark.parametrize("body", ["waits", "blocks"])
def test_a_second_ctrl_c_ends_a_synchronous_engine_without_its_grace_time(tmp_path: Path, body: str):
    program = """
async def work() -> None:
    began.set()
    await asyncio.sleep(60) if sys.argv[2] == "waits" else time.sleep(60)

@workflow
async def lasts(ctx: Context) -> None:
    await ctx.step(work)

signal.signal(signal.SIGINT, signal.default_int_handler)
main, began = threading.main_thread().ident, threading.Event()

def interrupt() -> None:
    began.wait()
    for _ in range(2):
        time.sleep(0.3)
        signal.pthread_kill(main, signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
until = time.monotonic() + 9
try:
    with SyncEngine(url, workflows=[lasts], settings=WorkerSettings(lease="60s")) as engine:
        engine.start(lasts).result()
except KeyboardInterrupt:
    print("in time" if time.monotonic() < until else "late")
"""
    ended = run_program(HEAD + program, tmp_path, body)

    assert ended.stdout == "in time\n", ended.stderr
    if body == "waits":  # its worker has deregistered
        with SyncEngine(f"sqlite:///{tmp_path}/exit.db") as engine:
            assert engine.workers.list() == []


def test_an_exit_inside_a_body_is_a_failed_attempt_and_not_the_end_of_the_process(tmp_path: Path):
    program = """
@step(retry=Retry(max_attempts=2, initial="1ms"))
def leaves() -> None:
    sys.exit(7)

@step(retry=Retry(max_attempts=2, initial="1ms"))
async def leaves_too() -> None:
    raise SystemExit(8)

@workflow
async def tries(ctx: Context) -> list[str]:
    return [(await ctx.try_step(each)).error.type for each in (leaves, leaves_too)]

async def main() -> None:
    async with Engine(url, workflows=[tries, flow], settings=settings) as engine:
        print(await (await engine.start(tries)).result(timeout="60s"))
        print(await (await engine.start(flow, 1)).result(timeout="60s"))

asyncio.run(main())
"""
    ended = run_program(HEAD + program, tmp_path)

    assert (ended.returncode, ended.stdout) == (0, "['SystemExit', 'SystemExit']\n1\n"), ended.stderr


def test_the_signal_handlers_of_the_host_stay_its_own(tmp_path: Path):
    program = """
heard = []
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD):
    signal.signal(number, lambda number, _: heard.append(signal.Signals(number).name))
before = {number: signal.getsignal(number) for number in signal.valid_signals()}

async def main() -> None:
    async with Engine(url, workflows=[flow], settings=settings) as engine:
        assert {number: signal.getsignal(number) for number in signal.valid_signals()} == before
        run = await engine.start(flow, 1)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD):
            os.kill(os.getpid(), number)
            await asyncio.sleep(0.01)
        print(await run.result(timeout="60s"))

with asyncio.Runner() as runner:
    runner.run(main())
with SyncEngine(url, workflows=[flow], settings=settings) as engine:
    os.kill(os.getpid(), signal.SIGINT)
    print(engine.start(flow, 2).result("60s"))
assert {number: signal.getsignal(number) for number in signal.valid_signals()} == before
print(heard)
"""
    ended = run_program(HEAD + program, tmp_path)

    heard = ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGCHLD", "SIGINT"]
    assert (ended.returncode, ended.stdout) == (0, f"1\n2\n{heard}\n"), ended.stderr
