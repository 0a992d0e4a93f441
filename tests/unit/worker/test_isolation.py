"""What is decided about isolated bodies without starting a process."""

from __future__ import annotations

import asyncio
import functools
import math
import signal
from datetime import timedelta
from typing import Any

import pytest

from stepwell import Failure, Fatal, RetryAfter, Rollback, StepContext, step
from stepwell.codec.signatures import hints_of
from stepwell.errors import InvalidOptionError, RecordedError, UnserialisableError
from stepwell.model.failures import record_failure
from stepwell.replay.isolation import Isolated
from stepwell.replay.step_options import qualified_name
from stepwell.worker.isolation.failures import crashed, describe, describe_output, rebuild
from stepwell.worker.isolation.frames import BodyRequest, Failed, Returned, frame_of, parse_answer
from stepwell.worker.isolation.process import ChildProcess, Tail


async def pack(info: StepContext, weight: int, *, fast: bool = False) -> str:
    return f"{weight} {fast}"


class Crate:
    def pack(self) -> None: ...


class Shortage(OSError):
    def __init__(self, item: str, missing: int) -> None:
        super().__init__(item, missing)


def order(**changes: Any) -> BodyRequest:
    given: dict[str, Any] = {
        "module": "shop",
        "own_module": "shop",
        "file": "",
        "name": "pack",
        "code_name": "pack",
        "call": b"j{}",
        "workflow": "packing",
        "path": "pack",
        "context": None,
        "memory_max": None,
        "search": [],
        "python_path": None,
    }
    return BodyRequest(**{**given, **changes})


def there_and_back(error: BaseException, output: str = "", **changes: Any) -> BaseException:
    """The error as the parent sees it, by way of a frame."""
    try:
        raise error
    except BaseException as raised:
        answer = parse_answer(frame_of(describe(raised, order(**changes), "loaded")))
    assert isinstance(answer, Failed)
    return rebuild(answer, output)


# --- the option ------------------------------------------------------------------------------


def test_an_isolated_step_is_in_all_else_the_function() -> None:
    plain, isolated = step(pack), step(pack, isolate="process", memory_max="64MiB")

    assert isinstance(isolated.fn, Isolated)
    assert (isolated.fn.module, isolated.fn.file, isolated.fn.memory_max) == (__name__, __file__, 64 * 1024**2)
    assert hints_of(isolated.fn) == plain.signature == isolated.signature
    assert qualified_name(isolated.fn) == plain.qualified == isolated.qualified
    assert isolated.takes_context


def test_a_step_can_be_isolated_for_one_call_and_keeps_that() -> None:
    isolated = step(pack).options(isolate="process")

    assert isinstance(isolated.fn, Isolated)
    assert isinstance(isolated.options(name="again").fn, Isolated)
    assert step(isolated).fn is pack


@pytest.mark.parametrize(
    ("size", "count"),
    [("1MB", 10**6), ("1.5 GB", 1_500_000_000), ("1024KiB", 2**20), ("2000kB", 2 * 10**6), (5_000_000, 5_000_000)],
)
def test_a_size_is_text_or_bytes(size: Any, count: int) -> None:
    body = step(pack, isolate="process", memory_max=size).fn

    assert isinstance(body, Isolated)
    assert body.memory_max == count


@pytest.mark.parametrize("size", ["512", "MB", "-1MB", "1 XB", 0, -5, True, "10kB", 2.5])
def test_a_size_that_means_nothing_is_refused(size: Any) -> None:
    with pytest.raises(InvalidOptionError, match="memory_max"):
        step(pack, isolate="process", memory_max=size)


@pytest.mark.parametrize("options", [{"isolate": "thread"}, {"isolate": True}, {"memory_max": "512MB"}])
def test_options_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError, match=r'isolate="process"'):
        step(pack, **options)


def nested() -> Any:
    def inner() -> None: ...

    return inner


@pytest.mark.parametrize(
    "body",
    [lambda: 1, nested(), functools.partial(pack, fast=True), Crate().pack, Crate, math.sqrt],
    ids=["lambda", "nested", "partial", "method", "class", "builtin"],
)
def test_what_another_process_cannot_find_is_refused(body: Any) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        step(body, name="body", isolate="process")

    assert refused.value.code == "SW103"
    assert refused.value.why
    assert "top of a module" in refused.value.fix


def test_what_was_typed_in_is_refused() -> None:
    typed: dict[str, Any] = {"__name__": "__main__"}
    exec("def body(): ...", typed)

    with pytest.raises(InvalidOptionError, match="process of its own") as refused:
        step(typed["body"], isolate="process")

    assert "typed in" in refused.value.why


# --- errors ----------------------------------------------------------------------------------


def test_an_error_is_of_its_nearest_known_type_and_has_the_name_of_its_own() -> None:
    error = there_and_back(Shortage("pears", 3))

    assert isinstance(error, OSError)
    assert (type(error).__name__, str(error)) == ("Shortage", "[Errno pears] 3")
    assert record_failure(error).qualified == f"{__name__}.Shortage"


@pytest.mark.parametrize(
    "error", [KeyError("a"), ExceptionGroup("many", [ValueError("b")]), StopIteration(1), GeneratorExit("c")]
)
def test_builtin_errors_are_recorded_as_they_are(error: BaseException) -> None:
    here, there = record_failure(error), record_failure(there_and_back(error))

    assert (there.type, there.message, there.qualified) == (here.type, here.message, here.qualified)
    assert isinstance(there_and_back(error), Exception) == isinstance(error, Exception)


def test_the_record_has_the_trace_of_the_child_and_what_it_wrote() -> None:
    output = describe_output("to be read\n", "x" * 100_000)

    trace = record_failure(there_and_back(ValueError("bad"), output)).trace

    assert "raise error\nValueError: bad" in trace
    assert "Its stdout ended with:\nto be read\nIts stderr ended with:\nxxx" in trace
    assert len(trace) < 8_000


def test_what_authors_raise_on_purpose_keeps_its_parts() -> None:
    failure, rollback = there_and_back(Failure("sold out", {"left": [0]})), there_and_back(Rollback("no", to="paid"))
    later, fatal = there_and_back(RetryAfter("1m", "busy")), there_and_back(Fatal("never"))

    assert isinstance(failure, Failure)
    assert (failure.reason, failure.data) == ("sold out", {"left": [0]})
    assert isinstance(rollback, Rollback)
    assert (rollback.reason, rollback.to) == ("no", "paid")
    assert isinstance(later, RetryAfter)
    assert (later.delay, str(later)) == (timedelta(minutes=1), "busy")
    assert isinstance(fatal, Fatal)


def test_parts_that_cannot_be_kept_are_the_failure() -> None:
    data, delay = there_and_back(Failure("sold out", object())), there_and_back(RetryAfter("soon"))

    assert isinstance(data, RecordedError)
    assert data.failure.code == UnserialisableError.code
    assert isinstance(delay, RecordedError)
    assert delay.failure.code == InvalidOptionError.code


def test_one_of_our_own_errors_is_final_and_keeps_the_output() -> None:
    error = there_and_back(UnserialisableError("no", where="pack", fix="do"), "Its stdout ended with:\nwords")

    assert isinstance(error, RecordedError)
    assert (error.failure.code, error.failure.fix) == ("SW301", "do")
    assert error.failure.trace == "Its stdout ended with:\nwords"


def test_too_much_memory_is_said() -> None:
    assert "memory_max of 1,000 bytes" in str(there_and_back(MemoryError(), memory_max=1_000))
    assert str(there_and_back(MemoryError("own"))) == "own"


def test_a_script_has_the_name_it_has_here() -> None:
    class Own(Exception):
        pass

    Own.__module__ = "loaded"

    assert record_failure(there_and_back(Own(), own_module="__main__")).qualified.startswith("__main__.")


@pytest.mark.parametrize(
    ("code", "words"), [(3, "exit code 3"), (-9, "killed by SIGKILL"), (-35, "killed by signal 35")]
)
def test_a_crash_names_its_code_or_signal(code: int, words: str) -> None:
    assert words in str(crashed(code, "", "", None))


# --- frames and streams ----------------------------------------------------------------------


def test_an_answer_that_is_cut_is_none() -> None:
    frame = frame_of(Returned(b"j1"))

    assert parse_answer(frame) == Returned(b"j1")
    assert {parse_answer(frame[:size]) for size in range(len(frame))} == {None}


@pytest.mark.parametrize("parts", [[b"abcdefghij"], [b"abc", b"defg", b"hij"], [b"a"] * 3 + [b"bcdefghij"]])
def test_the_end_of_a_stream_is_kept(parts: list[bytes]) -> None:
    tail = Tail(4)
    for part in parts:
        tail.add(part)

    assert tail.text == f"[{len(b''.join(parts)) - 4} bytes before]\nghij"


def test_a_short_stream_is_kept_whole_even_if_it_is_not_text() -> None:
    tail = Tail(4)
    tail.add(b"a\xff")

    assert tail.text == "a\ufffd"


async def test_the_end_of_a_process_is_waited_for_though_that_is_cancelled():
    process = ChildProcess()
    running = asyncio.ensure_future(process.run("stepwell.worker.isolation.child", b""))
    for _ in range(1_000):
        await asyncio.sleep(0.01)
        if process._transport is not None:
            break

    ending = asyncio.ensure_future(process.end())
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending

    assert process.code == -signal.SIGKILL
    await running
