"""The plugin in sessions of its own: the fixture, its marker, and what a session says about workflows."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

Session = Callable[..., pytest.RunResult]

SHOP = """
from stepwell import Context, Fatal, step, workflow

CHARGED = []
VISITS = []


async def release(order: str) -> None: ...


@step(compensate=release)
async def reserve(order: str) -> str:
    return f"reserved {order}"


@step
async def charge(order: str) -> str:
    CHARGED.append(order)
    return f"charge {len(CHARGED)}"


@step
async def ship(order: str) -> str:
    if order == "bad":
        raise Fatal("no <address>")
    return f"shipped {order}"


@workflow
async def fulfil(ctx: Context, order: str) -> str:
    await ctx.step(reserve, order)
    if order == "gift":
        await ctx.step("wrap", ship, order)
    return await ctx.step(ship, order)


@workflow
async def counting(ctx: Context, order: str) -> str:
    return await ctx.step(charge, order)


@workflow
async def wandering(ctx: Context, order: str) -> None:
    VISITS.append(order)
    if len(VISITS) == 1:
        await ctx.step("first", ship, order)
    await ctx.step("second", ship, order)
"""


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Runs pytest in a folder with a shop in it.

    Pytest loads only the plugins that the test needs, which saves seconds. `finds=True` loads what is installed.
    """
    pytester.makepyfile(shop=SHOP)
    is_installed = any(entry.value == "stepwell.testing.plugin" for entry in entry_points(group="pytest11"))

    def run(test: str, *args: str, finds: bool = False) -> pytest.RunResult:
        pytester.makepyfile(test_shop=test)
        plugins: tuple[str, ...] = () if finds and is_installed else ("-p", "stepwell.testing.plugin")
        if not finds:
            monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
            plugins += () if "no:asyncio" in args else ("-p", "pytest_asyncio.plugin")
        quiet = () if "no:asyncio" in args else ("-o", "asyncio_default_fixture_loop_scope=function")
        # A process of its own: nothing of this session leaks into that one.
        return pytester.runpytest_subprocess(*plugins, *quiet, "-p", "no:cacheprovider", *args)

    return run


HAPPY = """
from shop import fulfil

async def test_a_coroutine(stepwell):
    run = await stepwell.run(fulfil, "a")
    assert await run.result() == "shipped a"

def test_a_function(stepwell):
    assert stepwell.run(fulfil, "a").result() == "shipped a"
"""


@pytest.mark.parametrize(
    "args",
    [("-p", "no:asyncio"), ("-o", "asyncio_mode=strict"), ("-o", "asyncio_mode=auto")],
    ids=["no plugin for coroutines", "strict", "auto"],
)
def test_coroutines_and_functions_run_with_or_without_another_plugin(session: Session, args: tuple[str, ...]):
    session(HAPPY, *args, "-W", "error", finds=True).assert_outcomes(passed=2)


def test_a_test_that_fails_fails(session: Session):
    result = session(HAPPY.replace('"shipped a"', '"shipped b"'), "-p", "no:asyncio")

    result.assert_outcomes(failed=2)


def test_a_marker_names_the_stores(session: Session):
    result = session(
        """
        import pytest
        from shop import fulfil

        @pytest.mark.stepwell(stores=["memory", "sqlite", "postgres"])
        async def test_it(stepwell):
            (await stepwell.run(fulfil, "a")).assert_output("shipped a")
        """,
        "-v",
        "-rs",
        "-o",
        "stepwell_nondeterminism=error",
    )

    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "*test_it?memory? PASSED*",
            "*test_it?sqlite? PASSED*",
            "*no PostgreSQL for tests: set STEPWELL_TEST_POSTGRES*",
        ]
    )


@pytest.fixture(autouse=True)
def _no_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEPWELL_TEST_POSTGRES", raising=False)


def test_a_store_that_there_is_not_is_told(session: Session):
    result = session(
        """
        import pytest

        @pytest.mark.stepwell(stores=["oracle"])
        def test_it(stepwell): ...
        """
    )

    result.stdout.fnmatch_lines(["*unknown store 'oracle'; stores are memory, sqlite, postgres*"])
    assert result.ret != 0


def test_an_option_that_there_is_not_is_told(session: Session):
    result = session(
        """
        import pytest

        @pytest.mark.stepwell(clok="real")
        def test_it(stepwell): ...
        """
    )

    result.stdout.fnmatch_lines(["*marker stepwell: *clok*"])
    assert result.ret != 0


@pytest.mark.parametrize("scope", ["session", "module", "class"])
def test_a_fixture_that_outlives_tests_is_told_what_to_do(session: Session, scope: str):
    result = session(
        f"""
        import pytest

        @pytest.fixture(scope="{scope}")
        def shop(stepwell):
            return stepwell

        def test_it(shop): ...
        """
    )

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [f"*the {scope}-scoped fixture 'shop' uses `stepwell`*", "*Make 'shop' function-scoped*"]
    )


def test_a_function_scoped_fixture_may_take_it(session: Session):
    session(
        """
        import pytest
        from shop import fulfil

        @pytest.fixture
        def shop(stepwell):
            stepwell.mock("ship", returns="by bike")
            return stepwell

        async def test_it(shop):
            (await shop.run(fulfil, "a")).assert_output("by bike")
        """
    ).assert_outcomes(passed=1)


def test_a_kit_that_is_kept_is_told_what_to_do(session: Session):
    result = session(
        """
        from shop import fulfil
        KEPT = []

        def test_one(stepwell):
            KEPT.append(stepwell)

        def test_two():
            KEPT[0].start(fulfil, "a")
        """
    )

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*this kit belongs to test_shop.py::test_one, which has ended*"])


WANDERING = """
from shop import wandering

async def test_it(stepwell):
    await (await stepwell.start(wandering, "a")).ended()
"""


@pytest.mark.parametrize(
    ("chosen", "outcome"),
    [("error", {"failed": 1}), ("warn", {"passed": 1, "warnings": 1}), ("off", {"passed": 1})],
    ids=["error", "warn", "off"],
)
def test_what_a_divergence_is_can_be_chosen(session: Session, chosen: str, outcome: dict[str, int]):
    session(WANDERING, "-o", f"stepwell_nondeterminism={chosen}").assert_outcomes(**outcome)


def test_a_choice_that_there_is_not_is_told(session: Session):
    result = session(WANDERING, "-o", "stepwell_nondeterminism=maybe")

    assert "stepwell_nondeterminism is 'maybe': write error, warn or off" in result.stderr.str() + result.stdout.str()


FAILING = """
from shop import fulfil

async def test_it(stepwell):
    run = await stepwell.run(fulfil, "bad")
    assert 1 == 2
"""


def test_the_runs_of_a_failed_test_are_shown_when_asked(session: Session):
    loud, quiet = session(FAILING, "-v"), session(FAILING)

    loud.stdout.fnmatch_lines(["*stepwell runs*", "*fulfil v1*compensated*", "*✕ ship*no <address>*"])
    assert "✕ ship" not in quiet.stdout.str()


def test_a_page_shows_the_runs_of_failed_tests(session: Session, pytester: pytest.Pytester):
    result = session(FAILING + "\ndef test_passes(stepwell): ...\n", "--stepwell-report", "out/runs.html")

    page = (pytester.path / "out" / "runs.html").read_text(encoding="utf-8")
    result.stdout.fnmatch_lines(["*stepwell report: out/runs.html*"])
    assert "test_shop.py::test_it" in page
    assert re.findall(r'<tr class="(\w+)"><th scope="row">([^<]*)</th>', page) == [
        ("done", "reserve"),
        ("failed", "ship"),
        ("undo", "reserve~undo"),
    ]
    assert "no &lt;address&gt;" in page
    assert "no <address>" not in page
    assert "test_passes" not in page


def test_what_no_test_reached_is_listed_by_line(session: Session):
    result = session(HAPPY, "--stepwell-paths")

    lines = SHOP.splitlines()
    wrap = lines.index('        await ctx.step("wrap", ship, order)')
    reserve = lines.index("    await ctx.step(reserve, order)")
    result.stdout.fnmatch_lines(
        [
            "*stepwell paths*",
            "counting: no test has started it",
            "fulfil: 2 of 4 reached",
            f"  shop.py:{reserve}  undo reserve~undo was not reached",
            f"  shop.py:{wrap}  step wrap was not reached",
        ]
    )


def test_what_tests_reached_is_not_listed(session: Session):
    result = session(
        HAPPY
        + """
def test_the_rest(stepwell):
    stepwell.run(fulfil, "gift")
    stepwell.run(fulfil, "bad")
""",
        "--stepwell-paths",
    )

    result.stdout.fnmatch_lines(["fulfil: 4 of 4 reached"])
    assert "fulfil" not in [line.split()[-1] for line in result.outlines if "was not reached" in line]


SWEPT = """
import pytest
from shop import counting, fulfil

@pytest.mark.stepwell
async def test_right(stepwell):
    await stepwell.run(fulfil, "a")

@pytest.mark.stepwell
async def test_wrong(stepwell):
    await stepwell.run(counting, "a")

@pytest.mark.stepwell(crash_sweep=False)
async def test_left_out(stepwell):
    await stepwell.run(counting, "a")

async def test_not_marked(stepwell):
    await stepwell.run(counting, "a")
"""


def test_every_marked_test_can_be_swept(session: Session):
    plain, swept = session(SWEPT), session(SWEPT, "--stepwell-crash-sweep")

    plain.assert_outcomes(passed=4)
    swept.assert_outcomes(passed=4, errors=1)
    swept.stdout.fnmatch_lines(["*ERROR at teardown of test_wrong*", "*points, 0 ok*", "*another output: 'charge *"])


def test_what_a_test_did_from_outside_is_swept_too(session: Session):
    result = session(
        """
        import pytest
        from stepwell import Context, workflow

        @workflow
        async def waiting(ctx: Context) -> str:
            await ctx.sleep("nap", "1d")
            first = await ctx.receive("go", timeout="2d")
            event = await ctx.topic("news")
            return f"{first.payload} {event}"

        @pytest.mark.stepwell
        async def test_it(stepwell):
            run = await stepwell.start(waiting)
            await stepwell.clock.advance(days=1)
            await run.signal("go", 7)
            await run.until("news")
            await stepwell.emit("news", "rain")
            assert await run.result() == "7 rain"
        """,
        "--stepwell-crash-sweep",
        "-p",
        "no:asyncio",
    )

    result.assert_outcomes(passed=1)


def test_tests_are_safe_beside_each_other(session: Session, pytester: pytest.Pytester):
    tests = "\n".join(
        f"""
@pytest.mark.stepwell(stores=["memory", "sqlite"])
async def test_{number}(stepwell):
    run = await stepwell.run(fulfil, "a", key="the same")
    run.assert_output("shipped a")
    assert len(stepwell.world.list_runs()) == 1
"""
        for number in range(10)
    )
    broken = "\ndef test_broken(stepwell):\n    stepwell.run(fulfil, 'bad').assert_status('completed')\n"
    result = session(
        "import pytest\nfrom shop import fulfil\n" + tests + broken,
        *("-p", "xdist", "-n", "2", "--stepwell-report", "runs.html", "--stepwell-paths"),
    )

    result.assert_outcomes(passed=20, failed=1)
    result.stdout.fnmatch_lines(["fulfil: 3 of 4 reached"])
    assert "test_broken" in (pytester.path / "runs.html").read_text(encoding="utf-8")


def test_a_session_without_workflows_does_not_load_the_engine():
    code = "import sys, stepwell.testing.plugin; print([m for m in sys.modules if m.startswith('stepwell.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd())

    assert done.stdout.strip() == "['stepwell.lazy', 'stepwell.testing', 'stepwell.testing.plugin']"
