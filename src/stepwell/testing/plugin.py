"""The pytest plugin: the fixture `stepwell`, its marker, and the reports of a session."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

# Most imports are inside functions: a pytest session without workflows does not need them.
if TYPE_CHECKING:
    from stepwell.app import App
    from stepwell.testing.base import KitBase, KitOptions
    from stepwell.testing.pages import FailedTest

POSTGRES_VARIABLE: Final = "STEPWELL_TEST_POSTGRES"
_MARKER = (
    "stepwell(app=..., stores=[...], clock=..., always_replay=..., nondeterminism=..., sinks=[...], lifecycle=..., "
    "settings={...}, crash_sweep=...): options of the fixture `stepwell` for this test"
)
_NOT_OPTIONS = frozenset({"stores", "crash_sweep"})
_RUNS, _PATHS = "stepwell_runs", "stepwell_paths"
_HAS_FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the command line and of the configuration file."""
    group = parser.getgroup("stepwell", "workflows of stepwell")
    group.addoption("--stepwell-postgres", metavar="URL", help=f"a database for tests; default: ${POSTGRES_VARIABLE}")
    group.addoption(
        "--stepwell-crash-sweep",
        action="store_true",
        help="after each test that is marked `stepwell`, crash its runs at every commit and compare",
    )
    group.addoption(
        "--stepwell-paths", action="store_true", help="list the steps, compensations and branches that no test reached"
    )
    group.addoption("--stepwell-report", metavar="FILE", help="write an HTML page with the runs of every failed test")
    parser.addini(
        "stepwell_nondeterminism",
        "how to treat a replay that differs from the first execution: error, warn or off",
        default="error",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and reject invalid settings."""
    config.addinivalue_line("markers", _MARKER)
    chosen = config.getini("stepwell_nondeterminism")
    if chosen not in ("error", "warn", "off"):
        raise pytest.UsageError(f"stepwell_nondeterminism is {chosen!r}: write error, warn or off")


def _given(item: pytest.Item) -> dict[str, Any]:
    """The options in the markers of a test; the nearest marker wins."""
    given: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers("stepwell"))):
        if marker.args:
            raise pytest.UsageError(f"{item.nodeid}: use keyword arguments, as in @pytest.mark.stepwell(stores=[...])")
        given |= marker.kwargs
    return given


# --- the fixture ---


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once on each store that its marker names."""
    if "stepwell" not in metafunc.fixturenames:
        return
    given: dict[str, Any] = {}
    for marker in reversed(list(metafunc.definition.iter_markers("stepwell"))):
        given |= marker.kwargs
    if "stores" in given:
        from stepwell.testing.databases import STORE_KINDS

        stores = list(given["stores"])
        unknown = [store for store in stores if store not in STORE_KINDS]
        if unknown or not stores:
            what = f"unknown store {unknown[0]!r}" if unknown else "no store is named"
            raise pytest.UsageError(f"{metafunc.definition.nodeid}: {what}; stores are {', '.join(STORE_KINDS)}")
        metafunc.parametrize("stepwell", stores, indirect=True)


@pytest.fixture(scope="session")
def stepwell_postgres_url(request: pytest.FixtureRequest) -> str | None:
    """The URL of the PostgreSQL database that tests may use. Override it to start a server of your own."""
    chosen = request.config.getoption("--stepwell-postgres") or os.environ.get(POSTGRES_VARIABLE)
    return str(chosen) if chosen else None


@pytest.fixture(scope="session")
def stepwell_app() -> App | None:
    """The `App` that the fixture `stepwell` takes its codec, sinks and settings from. Override it in `conftest.py`."""
    return None


@pytest.fixture(scope="session")
def _stepwell_schemas(stepwell_postgres_url: str | None) -> Iterator[str | None]:
    """The same URL. The schemas of tests are dropped before the database is."""
    yield stepwell_postgres_url
    from stepwell.testing.databases import drop_schemas

    drop_schemas()


@pytest.fixture
def stepwell(request: pytest.FixtureRequest) -> Iterator[KitBase]:
    """The real engine with a store and a clock for this test: a `Kit` in `async def` tests, else a `SyncKit`."""
    from stepwell.testing.kits import Kit
    from stepwell.testing.sync import SyncKit

    options = _options(request, getattr(request, "param", "memory"))
    is_async = inspect.iscoroutinefunction(inspect.unwrap(request.function))
    made: Kit | SyncKit = (Kit if is_async else SyncKit)(options, name=request.node.nodeid)
    yield made
    has_failed = request.node.stash.get(_HAS_FAILED, False)
    try:
        if not has_failed and _is_swept(request.node):
            from stepwell.testing.recordings import sweep_again

            sweep_again(made)
    except BaseException:
        made.close(is_checked=False)
        raise
    made.close(is_checked=not has_failed)


def _options(request: pytest.FixtureRequest, store: Any) -> KitOptions:
    from stepwell.testing.factories import kit_options

    given = {name: value for name, value in _given(request.node).items() if name not in _NOT_OPTIONS}
    given.setdefault("app", request.getfixturevalue("stepwell_app"))
    given.setdefault("nondeterminism", request.config.getini("stepwell_nondeterminism"))
    folder: Path | None = None
    if store == "sqlite":
        folder = request.getfixturevalue("tmp_path")
    if store == "postgres":
        url = request.getfixturevalue("_stepwell_schemas")
        if url is None:
            pytest.skip(f"no PostgreSQL for tests: set {POSTGRES_VARIABLE}, or give --stepwell-postgres URL")
        given["postgres"] = url
    try:
        return kit_options(store=store, folder=folder, **given)
    except TypeError as error:
        raise pytest.UsageError(f"{request.node.nodeid}: marker stepwell: {error}") from None


def _is_swept(item: pytest.Item) -> bool:
    given = _given(item)
    is_marked = item.get_closest_marker("stepwell") is not None
    return given.get("crash_sweep", is_marked) and bool(item.config.getoption("--stepwell-crash-sweep"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test whose fixture of a wider scope uses the kit, and explain what to do: a kit belongs to one test."""
    known = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    for name, definitions in known.items():
        for definition in definitions:
            if "stepwell" in definition.argnames and definition.scope != "function":
                pytest.fail(
                    f"the {definition.scope}-scoped fixture {name!r} uses `stepwell`, which is created for each test: "
                    "runs and time would leak from one test into the next.\n"
                    f"Make {name!r} function-scoped (leave out scope=...); it takes milliseconds.",
                    pytrace=False,
                )


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test that uses the fixture, if no other plugin does."""
    if "stepwell" not in pyfuncitem.fixturenames or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


# --- reports of a session ---


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the runs of a test for the reports, before its world is closed."""
    report = yield
    if report.failed:
        item.stash[_HAS_FAILED] = True
    kit: KitBase | None = getattr(item, "funcargs", {}).get("stepwell")
    if kit is None or report.when != "call" or not hasattr(kit, "world"):
        return report
    from stepwell.testing.recordings import reached_by, timelines_of, trees_of

    if report.failed:
        trees = trees_of(kit)
        if trees and item.config.get_verbosity() > 0:
            report.sections.append(("stepwell runs", trees))
        if item.config.getoption("--stepwell-report"):
            # xdist sends properties of a report from its workers to the process that writes the page.
            report.user_properties.append((_RUNS, json.dumps([trees, timelines_of(kit)])))
    if item.config.getoption("--stepwell-paths"):
        report.user_properties.append((_PATHS, json.dumps(reached_by(kit))))
    return report


class _Session:
    """Collects the reports, in the process that prints the summary."""

    def __init__(self, config: pytest.Config) -> None:
        from stepwell.testing.paths import PathCoverage

        self._config = config
        self._failed: list[FailedTest] = []
        self._reached = PathCoverage()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties = dict(report.user_properties)
        if _RUNS in properties and report.when == "call":
            from stepwell.testing.pages import FailedTest, read_timelines

            trees, timelines = json.loads(str(properties[_RUNS]))
            self._failed.append(FailedTest(report.nodeid, report.longreprtext, trees, read_timelines(timelines)))
        if _PATHS in properties and report.when == "call":
            self._reached.add(json.loads(str(properties[_PATHS])))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._config.getoption("--stepwell-paths"):
            terminalreporter.section("stepwell paths")
            for line in self._reached.lines():
                terminalreporter.line(line)
        file = self._config.getoption("--stepwell-report")
        if file:
            from stepwell.testing.pages import write_page

            write_page(Path(file), self._failed)
            terminalreporter.line(f"stepwell report: {file}")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Collect reports, but not in a worker of xdist."""
    config = session.config
    wanted = config.getoption("--stepwell-paths") or config.getoption("--stepwell-report")
    if wanted and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Session(config), "stepwell-session")
