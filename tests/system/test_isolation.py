"""Steps in processes of their own: real children, really killed. The bodies are below; children import this file."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from stepwell import (
    Context,
    Engine,
    Failure,
    Fatal,
    Retry,
    RetryAfter,
    RunCancelled,
    RunFailed,
    StepContext,
    StepFailed,
    WorkerSettings,
    Workflow,
    step,
    workflow,
)
from stepwell.cli.modules import load_workflows
from stepwell.worker.isolation import process as process_module
from stepwell.worker.isolation.process import ChildProcess

SECONDS_MAX = 30.0
TWICE = Retry(max_attempts=2, initial="1ms")
ONCE = Retry(max_attempts=1)


# --- bodies ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parcel:
    label: str
    price: Decimal
    content: bytes


class OutOfStock(LookupError):
    pass


class Late(OutOfStock):
    pass


class OddClass(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no class")


@step(isolate="process")
def double(parcel: Parcel, *, times: Decimal = Decimal(2)) -> list[Parcel]:
    return [parcel, Parcel(parcel.label * 2, parcel.price * times, parcel.content[::-1])]


@step(isolate="process")
async def who(info: StepContext, greeting: str) -> tuple[str, str, int, int]:
    await asyncio.sleep(0)
    return f"{greeting} {info.path}", info.idempotency_key, info.attempt, os.getpid()


@step(isolate="process", timeout="4s")
def spin(pids: str) -> None:
    note_pid(pids)
    print("spinning")
    while True:
        pass


@step(isolate="process", timeout="4s")
def ignore_signals(pids: str) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    note_pid(pids)
    print("spinning")
    while True:
        time.sleep(60)


@step(isolate="process", timeout="4s")
def have_a_child(pids: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    note_pid(pids, child.pid)
    note_pid(pids)
    print("spinning")
    child.wait()


@step(isolate="process", retry=TWICE)
def crash(how: str, attempts: str) -> str:
    note_pid(attempts)
    print("last words")
    match how:
        case "signal":
            os.kill(os.getpid(), signal.SIGTERM)
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "_exit":
            os._exit(3)
        case "exit":
            sys.exit(4)
        case "exit 0":
            sys.exit()
        case "exit with words":
            sys.exit("no such luck")
        case _:
            return how
    return "it goes on"


@step(isolate="process", memory_max="100MB", retry=TWICE)
def hoard(attempts: str) -> int:
    note_pid(attempts)
    print("last words")
    return sum(len(part) for part in [bytes(10_000_000) for _ in range(50)])


@step(isolate="process", memory_max="400MB")
def hoard_less() -> int:
    return len(bytes(100_000_000))


@step(isolate="process", retry=TWICE)
def crash_at_first(attempts: str) -> int:
    note_pid(attempts)
    if len(pids_in(attempts)) == 1:
        os._exit(9)
    return len(pids_in(attempts))


@step(isolate="process")
def speak() -> int:
    print("to be read")
    print("to be heard", file=sys.stderr)
    return 1


@step(isolate="process")
def babble(lines: int) -> int:
    for stream in (sys.stdout, sys.stderr):
        for number in range(lines):
            stream.write(f"{number:09} {'x' * 9_990}\n")  # 10,001 bytes
    return lines


@step(isolate="process")
def give_a_function() -> Any:
    return {"inner": [1, print]}


@step(isolate="process")
def take_anything(value: Any) -> None: ...


@step(isolate="process", retry=Retry(max_attempts=3, initial="1ms", give_up_on=(OutOfStock,)))
def fail(how: str, attempts: str) -> None:
    note_pid(attempts)
    match how:
        case "known":
            raise OutOfStock("no pears")
        case "below known":
            raise Late("no pears before noon")
        case "unknown":
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd")
        case "planned":
            raise Failure("out of stock", {"left": 0})
        case "fatal":
            raise Fatal("never again")
        case "later" if len(pids_in(attempts)) < 2:
            raise RetryAfter(0.3)
        case "StopIteration":
            next(iter(()))
        case "GeneratorExit":
            raise GeneratorExit
        case "OddClass":
            raise OddClass("odd")
        case _:
            pass


@step(isolate="process")
def leave_threads() -> str:
    import threading

    threading.Thread(target=time.sleep, args=(60,)).start()
    return "done"


@step(isolate="process")
def unbook(room: str) -> None:
    Path(room).unlink()


@step(isolate="process", compensate=unbook)
def book(room: str) -> str:
    Path(room).touch()
    return room


def note_pid(file: str, pid: int = 0) -> None:
    with Path(file).open("a", encoding="utf-8") as lines:
        lines.write(f"{pid or os.getpid()}\n")


def pids_in(file: str) -> list[int]:
    return [int(line) for line in Path(file).read_text(encoding="utf-8").split()] if Path(file).exists() else []


# --- workflows -------------------------------------------------------------------------------


@workflow
async def parcels(ctx: Context, parcel: Parcel) -> list[Parcel]:
    await ctx.sleep("before", "2ms")
    made = await ctx.step(double, parcel, times=Decimal("1.50"))
    await ctx.sleep("after", "2ms")
    return made


@workflow
async def greeting(ctx: Context) -> tuple[str, str, int, int]:
    return await ctx.step("greet", who, "hello")


@workflow
async def stuck(ctx: Context, given: tuple[str, str]) -> str:
    body = {"spin": spin, "ignore_signals": ignore_signals, "have_a_child": have_a_child}[given[0]]
    try:
        await ctx.step(body, given[1])
    except TimeoutError as error:
        return f"went on after {type(error).__name__}: {error}"
    return "never"


@workflow
async def endless(ctx: Context, pids: str) -> None:
    await ctx.step(have_a_child.options(timeout="60s"), pids)


@workflow
async def race(ctx: Context, pids: str) -> str:
    async def slow(inner: Context) -> str:
        await inner.step(spin.options(timeout="60s"), pids)
        return "slow"

    async def fast(inner: Context) -> str:
        return str(await inner.step(wait_for, pids))

    return (await ctx.race("who", {"slow": slow, "fast": fast})).value


async def wait_for(pids: str) -> str:
    await until(lambda: pids_in(pids))
    return "fast"


@workflow
async def crashing(ctx: Context, given: tuple[str, str]) -> Any:
    how, attempts = given[0], given[1]
    if how == "memory":
        return await ctx.step(hoard, attempts)
    return await ctx.step(crash_at_first, attempts) if how == "at first" else await ctx.step(crash, how, attempts)


@workflow
async def failing(ctx: Context, given: tuple[str, str]) -> str:
    try:
        await ctx.step(fail, given[0], given[1])
    except OutOfStock as error:
        return f"caught {error}"
    return "done"


@workflow
async def single(ctx: Context, name: str) -> Any:
    bodies: dict[str, Callable[..., Any]] = {
        "speak": speak,
        "give_a_function": give_a_function,
        "hoard_less": hoard_less,
        "leave_threads": leave_threads,
    }
    return await ctx.step(bodies[name])


@workflow
async def babbling(ctx: Context, lines: int) -> int:
    return await ctx.step(babble, lines)


@workflow
async def taking(ctx: Context) -> None:
    await ctx.step(take_anything, {"inner": object()})


@workflow
async def booking(ctx: Context, room: str) -> None:
    await ctx.step(book, room)
    raise Failure("changed my mind")


WORKFLOWS: list[Workflow[Any, Any]] = [
    parcels,
    greeting,
    stuck,
    endless,
    race,
    crashing,
    failing,
    single,
    babbling,
    taking,
    booking,
]


# --- help ------------------------------------------------------------------------------------


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with Engine(f"sqlite:///{tmp_path}/runs.db", workflows=WORKFLOWS) as opened:
        yield opened


async def failure_of(engine: Engine, definition: Any, given: Any) -> StepFailed:
    """How the first step of a run failed."""
    run = await engine.start(definition, given)
    with pytest.raises(RunFailed):
        await run.result()
    (entry,) = [each for each in await engine.runs.history(run.run_id) if each.kind == "step"]
    assert entry.failure is not None
    return StepFailed(entry.path, entry.failure, entry.attempts)


async def until(found: Callable[[], Any]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not found():
        assert time.monotonic() < deadline, "it never came to that"
        await asyncio.sleep(0.01)


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that only waits to be read by init has."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] in "ZX"
    except (ProcessLookupError, FileNotFoundError):
        return True


# --- what comes back -------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["live", "yield"])
async def test_a_result_is_the_same_as_in_this_process(tmp_path: Path, mode: Any) -> None:
    parcel = Parcel("äpfel\n", Decimal("10.10"), b"\x00\xff")
    url, settings = f"sqlite:///{tmp_path}/runs.db", WorkerSettings(mode=mode)

    async with Engine(url, workflows=WORKFLOWS, settings=settings) as engine:
        run = await engine.start(parcels, parcel)

        assert await run.result() == double(parcel, times=Decimal("1.50"))


async def test_an_async_body_has_its_context_and_a_process_of_its_own(engine: Engine) -> None:
    run = await engine.start(greeting)

    words, key, attempt, pid = await run.result()

    assert (words, key, attempt) == ("hello greet", f"{run.run_id}:greet", 1)
    assert pid != os.getpid()
    assert is_gone(pid)


async def test_a_value_that_cannot_be_stored_is_refused_with_its_path(engine: Engine) -> None:
    result = await failure_of(engine, single, "give_a_function")
    argument = await failure_of(engine, taking, None)

    assert (result.failure.code, result.attempts) == ("SW301", 1)
    assert "result.inner[1]" in result.failure.message + result.failure.why
    assert "give_a_function" in result.failure.path
    assert (argument.failure.code, argument.attempts) == ("SW301", 1)
    assert "value.inner" in argument.failure.message + argument.failure.why


async def test_threads_that_a_body_leaves_behind_end_with_it(engine: Engine) -> None:
    run = await engine.start(single, "leave_threads")

    assert await run.result(timeout=SECONDS_MAX) == "done"


async def test_a_step_can_be_undone_in_a_process(engine: Engine, tmp_path: Path) -> None:
    room = tmp_path / "room"
    run = await engine.start(booking, str(room))

    with pytest.raises(Exception, match="changed my mind"):
        await run.result()

    assert [entry.is_undone for entry in await engine.runs.history(run.run_id) if entry.kind == "step"] == [True]
    assert not room.exists()


# --- killed ----------------------------------------------------------------------------------


@pytest.mark.parametrize("body", ["spin", "ignore_signals", "have_a_child"])
async def test_a_stuck_body_is_killed_at_its_timeout_with_all_it_started(
    engine: Engine, tmp_path: Path, body: str, caplog: pytest.LogCaptureFixture
) -> None:
    pids = str(tmp_path / "pids")
    run = await engine.start(stuck, (body, pids))

    with caplog.at_level(logging.WARNING, "stepwell.step"):
        assert (await run.result()).startswith("went on after StepFailed")

    assert len(pids_in(pids)) == (2 if body == "have_a_child" else 1)
    await until(lambda: all(is_gone(pid) for pid in pids_in(pids)))
    assert "was killed; its stdout was:\nspinning" in caplog.text


async def test_a_cancel_kills_it(engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pids = str(tmp_path / "pids")
    run = await engine.start(endless, pids)
    await until(lambda: len(pids_in(pids)) == 2)

    with caplog.at_level(logging.WARNING, "stepwell.step"):
        await engine.cancel(run.run_id)
        with pytest.raises(RunCancelled):
            await run.result(timeout=SECONDS_MAX)

    await until(lambda: all(is_gone(pid) for pid in pids_in(pids)))
    assert "was killed" in caplog.text


def seen_processes(monkeypatch: pytest.MonkeyPatch, fork_seconds: float = 0.0) -> list[subprocess.Popen[bytes]]:
    """The processes that are started from now on, each of which blocks the loop for so long."""
    started: list[subprocess.Popen[bytes]] = []

    class Seen(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            time.sleep(fork_seconds)
            super().__init__(*args, **kwargs)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Seen)
    return started


@pytest.mark.parametrize("turns", range(1, 13))
async def test_a_process_that_is_cancelled_while_it_starts_is_killed_and_reaped(
    monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    # As on a busy machine: starting it takes longer than `end` waits for that.
    monkeypatch.setattr(process_module, "_STARTED_SECONDS_MAX", 0.3)
    started = seen_processes(monkeypatch, fork_seconds=0.4)
    process = ChildProcess()
    running = asyncio.create_task(process.run("stepwell.worker.isolation.child", b""))
    for _ in range(turns):
        await asyncio.sleep(0)
    while not running.done():  # a worker that leaves cancels more than once
        running.cancel()
        await asyncio.sleep(0)
    await process.end()

    assert running.cancelled()
    assert [each.returncode for each in started] == [-signal.SIGKILL] * len(started)


async def test_a_process_that_starts_after_its_end_is_killed_and_reaped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "_STARTED_SECONDS_MAX", 0.0)
    started = seen_processes(monkeypatch)
    process = ChildProcess()
    running = asyncio.create_task(process.run("stepwell.worker.isolation.child", b""))
    await asyncio.sleep(0)
    running.cancel()
    await process.end()

    await until(lambda: [each.returncode for each in started] == [-signal.SIGKILL])
    assert running.cancelled()


async def test_a_process_is_reaped_however_often_its_end_is_cancelled() -> None:
    process = ChildProcess()
    running = asyncio.create_task(process.run("stepwell.worker.isolation.child", b""))
    await until(lambda: process._transport is not None)
    running.cancel()
    ending = asyncio.create_task(process.end())
    await asyncio.sleep(0)
    while not ending.done():
        ending.cancel()
        await asyncio.sleep(0)

    assert process.code == -signal.SIGKILL


async def test_a_loser_of_a_race_is_killed(engine: Engine, tmp_path: Path) -> None:
    pids = str(tmp_path / "pids")
    run = await engine.start(race, pids)

    assert await run.result(timeout=SECONDS_MAX) == "fast"
    await until(lambda: is_gone(pids_in(pids)[0]))


async def test_it_does_not_outlive_a_killed_worker(tmp_path: Path) -> None:
    pids = str(tmp_path / "pids")
    script = write_script(tmp_path, SCRIPT.format(pids=pids))
    worker = subprocess.Popen([sys.executable, script])  # noqa: ASYNC220  it must be ours to kill
    try:
        await until(lambda: len(pids_in(pids)) == 2)
    finally:
        worker.kill()
        worker.wait()

    await until(lambda: all(is_gone(pid) for pid in pids_in(pids)))


# --- crashed ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("signal", "killed by SIGTERM"),
        ("segfault", "killed by SIGSEGV"),
        ("_exit", "exit code 3"),
        ("exit", "exit code 4"),
        ("exit 0", "exit code 0 and without a result"),
        ("exit with words", "exit code 1 and without a result; it last wrote: no such luck"),
    ],
)
async def test_a_crash_is_a_failure_that_is_retried(engine: Engine, tmp_path: Path, how: str, words: str) -> None:
    attempts = str(tmp_path / "attempts")

    failed = await failure_of(engine, crashing, (how, attempts))

    assert (failed.attempts, len(pids_in(attempts))) == (2, 2)
    assert failed.failure.type == "ChildProcessError"
    assert words in failed.failure.message
    assert "Its stdout ended with:\nlast words" in failed.failure.trace


async def test_after_a_crash_another_attempt_may_succeed(engine: Engine, tmp_path: Path) -> None:
    run = await engine.start(crashing, ("at first", str(tmp_path / "attempts")))

    assert await run.result() == 2


async def test_too_much_memory_is_a_failure_that_says_so(engine: Engine, tmp_path: Path) -> None:
    failed = await failure_of(engine, crashing, ("memory", str(tmp_path / "attempts")))

    assert (failed.failure.type, failed.attempts) == ("MemoryError", 2)
    assert "more than its memory_max of 100,000,000 bytes" in failed.failure.message
    assert "Its stdout ended with:\nlast words" in failed.failure.trace


async def test_a_body_may_use_the_memory_it_is_given(engine: Engine) -> None:
    run = await engine.start(single, "hoard_less")

    assert await run.result() == 100_000_000


# --- raised ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "caught"), [("known", "no pears"), ("below known", "no pears before noon")])
async def test_a_policy_and_an_except_clause_know_the_types(
    engine: Engine, tmp_path: Path, how: str, caught: str
) -> None:
    attempts = str(tmp_path / "attempts")
    run = await engine.start(failing, (how, attempts))

    if how == "known":
        assert caught in await run.result()
    else:  # caught by the policy; by its name it is not known to the workflow, as in this process
        with pytest.raises(Exception, match=f"Late: {caught}"):
            await run.result()
    assert len(pids_in(attempts)) == 1


async def test_an_exception_is_recorded_as_in_this_process(engine: Engine, tmp_path: Path) -> None:
    failed = await failure_of(engine, failing, ("unknown", str(tmp_path / "attempts")))

    assert (failed.failure.type, failed.attempts) == ("UnicodeDecodeError", 3)
    assert failed.failure.qualified == "builtins.UnicodeDecodeError"
    assert failed.failure.message == "'utf-8' codec can't decode byte 0xff in position 0: odd"
    assert 'raise UnicodeDecodeError("utf-8"' in failed.failure.trace


@pytest.mark.parametrize("how", ["StopIteration", "GeneratorExit", "OddClass"])
async def test_whatever_it_raises_is_a_failed_attempt_that_names_it(engine: Engine, tmp_path: Path, how: str) -> None:
    failed = await failure_of(engine, failing, (how, str(tmp_path / "attempts")))

    assert failed.failure.type == how


async def test_failures_that_authors_plan_keep_their_meaning(engine: Engine, tmp_path: Path) -> None:
    planned = await failure_of(engine, failing, ("planned", str(tmp_path / "planned")))
    fatal = await failure_of(engine, failing, ("fatal", str(tmp_path / "fatal")))
    later = await engine.start(failing, ("later", str(tmp_path / "later")))

    assert (planned.failure.type, planned.failure.message, planned.attempts) == ("Failure", "out of stock", 1)
    assert planned.failure.data == {"left": 0}
    assert (fatal.failure.type, fatal.failure.message, fatal.attempts) == ("Fatal", "never again", 1)
    assert await later.result() == "done"


# --- output ----------------------------------------------------------------------------------


async def test_what_it_wrote_is_logged(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "stepwell.step"):
        run = await engine.start(single, "speak")
        await run.result()

    messages = [record.getMessage() for record in caplog.records if record.name == "stepwell.step"]
    assert messages == [
        f"step speak of run {run.run_id} returned; its stdout was:\nto be read",
        f"step speak of run {run.run_id} returned; its stderr was:\nto be heard",
    ]


async def test_much_output_neither_blocks_nor_fills_the_memory(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with caplog.at_level(logging.INFO, "stepwell.step"):
        run = await engine.start(babbling, 5_000)
        assert await run.result(timeout=SECONDS_MAX) == 5_000

    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 20_000, "in kilobytes, of 100,000 that were written"
    assert all(len(record.getMessage()) < 70_000 for record in caplog.records)
    assert caplog.text.count("[49,939,464 bytes before]") == 2


# --- where the code is -----------------------------------------------------------------------


async def test_a_workflow_loaded_from_a_file_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "isolation_helper.py").write_text("ADDED = 5\n", encoding="utf-8")
    (folder / "isolation_shop.py").write_text(MODULE, encoding="utf-8")
    try:
        workflows = load_workflows(str(folder / "isolation_shop.py"))
        async with Engine("memory:", workflows=workflows) as engine:
            run = await engine.start(workflows[0], 1)

            assert await run.result() == 6
    finally:
        sys.modules.pop("isolation_shop", None)
        sys.modules.pop("isolation_helper", None)


@pytest.mark.parametrize("how", ["script", "module"])
def test_a_script_that_is_started_runs(tmp_path: Path, how: str) -> None:
    (tmp_path / "isolation_helper.py").write_text("ADDED = 5\n", encoding="utf-8")
    script = write_script(tmp_path, MODULE + START)
    command = [script] if how == "script" else ["-m", "isolation_script"]

    ran = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert (ran.stdout, ran.stderr) == ("6\n", "")


def test_a_script_that_starts_its_work_on_import_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "isolation_helper.py").write_text("ADDED = 5\n", encoding="utf-8")
    script = write_script(tmp_path, MODULE + START.replace('if __name__ == "__main__":', "if True:"))

    ran = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert ran.returncode != 0
    assert 'move the code that starts the engine below `if __name__ == "__main__":`' in ran.stderr


def write_script(folder: Path, text: str) -> str:
    file = folder / "isolation_script.py"
    file.write_text(text, encoding="utf-8")
    return str(file)


MODULE = """
from __future__ import annotations

import asyncio
import sys

import isolation_helper
from stepwell import Context, Engine, step, workflow


class Shop:
    @step(isolate="process")
    def add(number: int) -> int:
        return number + isolation_helper.ADDED


@workflow
async def adding(ctx: Context, number: int) -> int:
    return await ctx.step(Shop.add, number)
"""

START = """

async def main() -> None:
    async with Engine("memory:", workflows=[adding]) as engine:
        print(await (await engine.start(adding, 1)).result())


if __name__ == "__main__":
    asyncio.run(main())
"""

SCRIPT = """
import asyncio
import os
import subprocess
from pathlib import Path

from stepwell import Context, Engine, step, workflow


@step(isolate="process")
def spin() -> None:
    child = subprocess.Popen(["sleep", "60"])
    Path({pids!r}).write_text(f"{{child.pid}}\\n{{os.getpid()}}\\n")
    while True:
        pass


@workflow
async def spinning(ctx: Context) -> None:
    await ctx.step(spin)


async def main() -> None:
    async with Engine("memory:", workflows=[spinning]) as engine:
        await (await engine.start(spinning)).result()


if __name__ == "__main__":
    asyncio.run(main())
"""
