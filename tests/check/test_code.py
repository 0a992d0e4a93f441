"""Findings about code: each is provoked, and its correct twin is not."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from stepwell.check.code import check_code, check_source
from stepwell.check.findings import Finding
from stepwell.check.rules import RULES
from stepwell.check.sources import read_source
from stepwell.replay.workflows import Workflow

HEAD = """
import asyncio, random, time, uuid
import datetime as dt
import requests
from datetime import datetime
from stepwell import Break, Context, Continue, StepContext, StepFailed, SyncContext, step, workflow

async def act() -> int: ...
async def other() -> int: ...
async def undo_act() -> None: ...
@step(unique=True)
async def once() -> int: ...
"""


def look(code: str) -> list[Finding]:
    return check_source(read_source("app.py", HEAD + code))


def codes(code: str) -> list[str]:
    return [finding.code for finding in look(code)]


def unique(*lines: str) -> str:
    return flow(*lines).replace("@workflow", '@workflow(names="unique")')


def flow(*lines: str) -> str:
    return "@workflow\nasync def flow(ctx: Context) -> None:\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        (flow("ctx.step('a', act)"), flow("await ctx.step('a', act)")),
        (flow("kept = ctx.sleep('a', '1s')"), flow("kept = ctx.sleep('a', '1s')", "await kept")),
        (
            flow("if True:", "    ctx.receive('a')"),
            flow("await asyncio.gather(ctx.step('a', act), ctx.step('b', act))"),
        ),
        (
            "async def branch(ctx: Context) -> None:\n    ctx.step('a', act)\n",
            "@workflow\ndef flow(ctx: SyncContext) -> None:\n    ctx.step('a', act)\n",
        ),
    ],
)
def test_an_operation_that_is_never_awaited(bad: str, good: str):
    assert codes(bad) == ["SW122"]
    assert codes(good) == []


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        (
            unique("await ctx.step('a', act)", "await ctx.step('a', other)"),
            unique("await ctx.step('a', act)", "await ctx.step('b', other)"),
        ),
        (
            unique("await ctx.step('a', act)", "await ctx.sleep('a', '1s')"),
            unique("if x:", "    await ctx.step('a', act)", "else:", "    await ctx.step('a', other)"),
        ),
        (
            unique("await ctx.step(act)", "await ctx.step(act)"),
            unique("await ctx.step(act)", "await ctx.step(step(act, name='again'))"),
        ),
        (
            unique("if x:", "    await ctx.step('a', act)", "await ctx.step('a', other)"),
            unique("if x:", "    await ctx.step('a', act)", "    return", "await ctx.step('a', other)"),
        ),
        (
            unique("for x in range(3):", "    await ctx.step('a', act)"),
            flow("for x in range(3):", "    await ctx.step(act)"),
        ),
        (
            flow("for x in range(3):", "    await ctx.step('a', step(act, unique=True), x)"),
            flow("for x in range(3):", "    await ctx.step('a', act, x)"),
        ),
        (
            flow("await ctx.step(act)", "await ctx.step(once)", "await ctx.step(once)"),
            flow("await ctx.step(act)", "await ctx.step(act)", "await ctx.step(once)"),
        ),
        (
            unique("await ctx.step(act, name='a')", "await ctx.step(act, name='b')"),
            unique("await ctx.step(act, name='a')", "await ctx.step(other, name='a')"),
        ),
        (
            unique("for x in range(3):", "    await ctx.step('a', act)", "    continue"),
            unique("for x in range(3):", "    if x:", "        await ctx.step('a', act)", "        break"),
        ),
        (
            unique("await asyncio.gather(*[ctx.step('a', act) for x in range(3)])"),
            unique("await asyncio.gather(*[ctx.step(f'a{x}', act) for x in range(3)])"),
        ),
        (
            unique("try:", "    await ctx.step('a', act)", "except StepFailed:", "    await ctx.step('a', other)"),
            unique("try:", "    await ctx.step('a', act)", "except StepFailed:", "    await ctx.step('b', other)"),
        ),
        (
            unique("await ctx.receive('x', 'y')", "await ctx.receive('x', 'y')"),
            unique("await ctx.receive('x', 'y')", "await ctx.receive('x')"),
        ),
        (
            unique("await ctx.wait_any()", "await ctx.wait_any()"),
            unique("await ctx.wait_any('one')", "await ctx.wait_any('two')"),
        ),
        (
            unique("await ctx.step('p', act)", "await ctx.step('p', other)"),
            unique("if ctx.patched('p') and ctx.version('p', 2):", "    await ctx.step('p', act)"),
        ),
        (
            unique("match x:", "    case 1:", "        await ctx.step('a', act)", "await ctx.step('a', other)"),
            unique(
                "match x:",
                "    case 1:",
                "        await ctx.step('a', act)",
                "    case _:",
                "        await ctx.step('a', act)",
            ),
        ),
        (
            unique("await ctx.join('j', {'l': lambda c: asyncio.gather(c.step('a', act), c.step('a', act))})"),
            unique("await ctx.join('j', {'l': lambda c: c.step('a', act), 'r': lambda c: c.step('a', act)})"),
        ),
    ],
)
def test_two_operations_with_one_name_in_one_place(bad: str, good: str):
    assert codes(bad) == ["SW104"]
    assert codes(good) == []


def test_both_places_of_a_name_are_told():
    [finding] = look(unique("await ctx.step('a', act)", "x = 1", "await ctx.step('a', other)"))

    first = HEAD.count("\n") + 3
    assert (finding.also, finding.line) == ((first,), first + 2)
    assert finding.message == 'two operations in one scope are both called "a"'
    assert finding.fix == "rename one of them; write: await ctx.step('a 2', other)"


@pytest.mark.parametrize(
    ("code", "fix"),
    [
        (unique("for x in range(3):", "    await ctx.sleep('nap', '1s')"), 'names="unique"'),
        (flow("for x in range(3):", "    await ctx.step('nap', once)"), "unique=True"),
    ],
)
def test_the_fix_for_a_name_in_a_loop_is_a_loop_or_numbers(code: str, fix: str):
    [finding] = look(code)

    assert finding.fix == f'loop with ctx.loop("nap", ...), or leave out {fix}: its uses are numbered then'
    assert codes(code.replace('(names="unique")', "").replace("once)", "act)")) == []


@pytest.mark.parametrize(
    ("call", "line"),
    [
        ("ctx.step('a', act)", "await ctx.step('a 2', act)"),
        ("ctx.step(act)", "await ctx.step('act 2', act)"),
        ("ctx.receive('a')", "await ctx.receive('a', name='a 2')"),
        ("ctx.child(act)", "await ctx.child(act, name='act 2')"),
        ("ctx.sleep('a', '1s')", "await ctx.sleep('a 2', '1s')"),
    ],
)
def test_the_line_to_write_for_a_name_that_is_used_twice_is_given_and_has_no_finding(call: str, line: str):
    [finding] = look(unique(f"await {call}", f"await {call}"))

    assert finding.fix == f"rename one of them; write: {line}"
    assert codes(unique(f"await {call}", line)) == []


def test_the_line_to_write_for_an_operation_that_is_not_awaited_is_given():
    [finding] = look(flow("ctx.step('charge', act, 42)"))

    assert finding.message == 'ctx.step "charge" is never awaited, so it does nothing'
    assert finding.fix == "write: await ctx.step('charge', act, 42)"


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        ("datetime.now()", "ctx.now()"),
        ("dt.datetime.utcnow()", "dt.datetime(2026, 1, 1)"),
        ("time.time()", "time.strptime('1', '%d')"),
        ("random.random()", "ctx.random()"),
        ("random.Random(ctx.random()).choice(random.sample([1], 1))", "random.Random(7).choice([1, 2])"),
        ("uuid.uuid4()", "ctx.uuid()"),
        ("uuid.uuid4()", "uuid.uuid5(uuid.NAMESPACE_DNS, 'x')"),
        ("requests.get('x')", "await ctx.step('get', lambda: requests.get('x'))"),
        ("time.sleep(1)", "await ctx.sleep('nap', '1s')"),
        ("time.sleep(1)", "await asyncio.sleep(1)"),
        ("await asyncio.to_thread(act)", "await asyncio.wait_for(ctx.step('a', act), 1)"),
        ("open('x')", "await ctx.once('now', lambda: datetime.now())"),
        ("helper()", "harmless()"),
        ("[uuid.uuid4() for x in range(3)]", "[ctx.uuid() for x in range(3)]"),
    ],
)
def test_a_call_into_the_outside_world(bad: str, good: str):
    helpers = "def helper():\n    return inner()\ndef inner():\n    return time.time()\ndef harmless():\n    return 1\n"
    assert codes(helpers + flow(f"x = {bad}")) == ["SW121"]
    assert codes(helpers + flow(f"x = {good}")) == []


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        ("for each in {asyncio.gather(one, two), asyncio.gather(three)}:", "for each in [asyncio.gather(one, two)]:"),
        (
            "for each in {asyncio.gather(one) for one in many}:",
            "for each in {asyncio.create_task(one()) for one in many}:",
        ),
        ("for each in set([asyncio.gather(one, two)]):", "for each in {one, two}:"),
        ("for each in {pair, other_pair}:", "for each in (pair, other_pair):"),
        ("for each in (await asyncio.wait([pair, other_pair]))[0]:", "for each in (await asyncio.wait(tasks))[0]:"),
        ("for each in asyncio.as_completed(asyncio.gather(one) for one in many):", "for each in await pair:"),
    ],
)
def test_a_set_of_gathered_futures_has_no_order(bad: str, good: str):
    pairs = ["pair, tasks = asyncio.gather(one, two), []", "pair = other_pair = asyncio.gather(one, two)"]

    assert codes(flow(*pairs, bad, "    await each")) == ["SW121"]
    assert codes(flow(*pairs, good, "    await each")) == []


def test_the_bodies_of_steps_may_do_what_they_like():
    code = (
        "@step\nasync def work() -> float:\n    return time.time()\n"
        + "async def body(info: StepContext) -> float:\n    return random.random()\n"
        + flow(
            "async def local() -> float:",
            "    return time.time()",
            "await ctx.step('w', work)",
            "await ctx.step(local)",
        )
    )
    assert codes(code) == []


def test_what_a_helper_calls_is_told_with_the_way_to_it():
    code = "def helper():\n    return time.time()\n" + flow("x = helper()")
    [finding] = look(code)

    assert finding.message == '"time.time()" is called outside a step, through helper()'
    assert finding.line == HEAD.count("\n") + 2


def test_a_step_without_an_undo_after_one_that_has_one():
    def saga(second: str) -> str:
        return flow(
            "await ctx.step(step(act, compensate=undo_act))",
            f"await ctx.step('charge', {second})",
            "await ctx.step('end', other)",
        )

    [finding] = look(saga("other"))
    assert finding.code == "SW141"
    assert finding.message == "charge has no undo, but follows act, which has one"
    line = "await ctx.step('charge', step(other, compensate=undo))"
    assert finding.fix == f"write: {line}; if charge has no effect, add the comment # stepwell: ignore SW141"
    assert codes(saga("step(other, compensate=undo_act)")) == []
    assert codes("@step(compensate=undo_act)\nasync def able() -> int: ...\n" + saga("able")) == []
    assert codes("@step(compensate=undo_act)\nasync def able() -> int: ...\n" + saga("able.options(timeout=3)")) == []


def test_a_loop_without_an_end():
    assert codes(flow("while True:", "    await ctx.receive('x', repeat=True)")) == ["SW142"]
    assert codes(flow("while True:", "    await ctx.receive('x', repeat=True)", "    ctx.continue_as_new()")) == []
    assert codes(flow("while True:", "    await ctx.receive('x', repeat=True)", "    if x:", "        break")) == []
    assert codes(flow("while True:", "    x = 1")) == []


def test_a_finding_that_the_author_knows_is_left_out():
    assert codes(flow("x = time.time()  # stepwell: ignore SW121")) == []
    assert codes(flow("x = time.time()  # stepwell: ignore")) == []
    assert codes(flow("x = time.time()  # stepwell: ignore SW104")) == ["SW121"]


def test_code_that_is_no_workflow_is_nobodys_business():
    assert (
        codes("def report():\n    return time.time()\nclass Thing:\n    def step(self, ctx):\n        ctx.step('a')\n")
        == []
    )


def load(tmp_path: Path, name: str, code: str) -> list[Workflow[object, object]]:
    file = tmp_path / f"{name}.py"
    file.write_text(code)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [value for value in vars(module).values() if isinstance(value, Workflow)]


UNSTORABLE = """
import socket
from stepwell import Context, step, workflow

async def connect() -> {0}: ...
async def undo(line: object) -> None: ...
@step(compensate=undo)
async def send(line: {1}) -> None: ...

@workflow
async def flow(ctx: Context, given: {2}) -> {3}:
    await ctx.step("connect", connect)
    await ctx.step(send, 1)
"""


@pytest.mark.parametrize("which", range(4))
def test_an_annotation_that_cannot_be_stored(tmp_path: Path, which: int):
    names = ["int"] * 4
    good = load(tmp_path, f"good_{which}", UNSTORABLE.format(*names))
    names[which] = "socket.socket"
    bad = load(tmp_path, f"bad_{which}", UNSTORABLE.format(*names))

    assert check_code(good).findings == ()
    [finding] = check_code(bad).findings
    assert finding.code == "SW303"
    assert "socket" in finding.message
    assert finding.line == [5, 7, 10, 10][which]


@pytest.mark.parametrize("code", sorted(RULES))
def test_the_page_of_every_finding_shows_it(code: str, tmp_path: Path):
    """The examples of the pages are what they say."""
    rule = RULES[code]
    names = "charge, charge_card, refund, release, reserve, ring, ship, tell_customer, tell_warehouse"
    defined = "".join(f"async def {name.strip()}() -> int: ...\n" for name in names.split(","))
    head = HEAD + "import socket\n" + defined

    def found(example: str) -> list[str]:
        if rule.code == "SW303":
            used = "\n@workflow\nasync def flow(ctx: Context) -> None:\n    await ctx.step('c', connect)\n"
            short = "import socket\nfrom stepwell import Context, workflow\n"
            name = f"page_{len(example)}"
            return [one.code for one in check_code(load(tmp_path, name, short + example + used)).findings]
        return [one.code for one in check_source(read_source("page.py", head + example))]

    assert found(rule.bad) == [code]
    assert found(rule.good) == []


def test_a_step_that_is_called_directly():
    steps = "@step\nasync def charge(x: int) -> int: ...\n"
    [found] = look(steps + flow("await charge(1)"))

    assert found.code == "SW121"
    assert "write: await ctx.step(charge, ...)" in found.fix
    assert codes(steps + flow("await ctx.step(charge, 1)", "await ctx.step('two', lambda: charge(2))")) == []
    assert codes(steps + "async def both() -> None:\n    await charge(1)\n" + flow("await ctx.step(both)")) == []


def body_of(call: str, *lines: str, head: tuple[str, ...] = ("seen: list[int] = []", "total = 0")) -> str:
    inner = ["async def one(inner: Context, number: int = 0) -> None:", *(f"    {line}" for line in lines)]
    return flow(*head, *inner, call)


LOOP, RACE = "await ctx.loop('l', one, 0)", "await ctx.race('r', {'a': one})"
FAST = "await ctx.map('m', one, seen, on_error='fail_fast')"


@pytest.mark.parametrize("call", [LOOP, RACE, FAST, "await ctx.join('j', {'a': one}, on_error='fail_fast')"])
@pytest.mark.parametrize(
    "write",
    [
        ("seen.append(await inner.step('a', act))",),
        ("seen[0] = 1",),
        ("del seen[0]",),
        ("nonlocal total", "total += 1"),
        ("ctx_state = 1", "seen[0].value = ctx_state"),
    ],
)
def test_a_body_that_is_not_run_again_and_changes_something_outside(call: str, write: tuple[str, ...]):
    [finding] = look(body_of(call, *write))
    assert finding.code == "SW127"
    assert finding.fix


@pytest.mark.parametrize(
    "good",
    [
        body_of("await ctx.map('m', one, [1])", "seen.append(number)"),
        body_of("await ctx.join('j', {'a': one})", "nonlocal total", "total += 1"),
        body_of(LOOP, "seen = [number]", "seen.append(1)"),
        body_of(LOOP, "mine = list(seen)", "mine.append(total)"),
        body_of(RACE, "await inner.step('a', client.update)", head=("client = make()", "seen = ()")),
    ],
)
def test_a_body_that_is_run_again_or_changes_only_its_own_is_fine(good: str):
    assert codes(good) == []
