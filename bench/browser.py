"""The dashboard in Chromium: a long run, typing while everything changes, and pages that are open and idle."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, Page, async_playwright

from bench.arenas import Arena
from bench.probes import Bench, opened
from bench.processes import workers
from bench.report import Report, at_most
from bench.sizes import Size
from bench.surfaces import Server, crowd, serving
from bench.workflows import in_rows, sequence
from stepwell import Start
from tests.browser.site import launch_options

_PAINT_MS_MAX = 500
_ROWS_MAX = 150
_SLOWER_MAX = 1.05
_IDLE_CPU_MAX = 20  # percent of a core
_PAGES_EACH = 5  # of one person: they share a stream
_BATCHES = 10  # of starts, in a second
_KEY_MS = 15  # between two keys
_PATHS = ("", "runs", "workflows")

# When the first rows of a tree are in the page, and after the frame that shows them.
_WHEN_SEEN = """
new MutationObserver((_, observer) => {
    if (!document.querySelector(".tree tbody tr")) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => (window.rowsAt = performance.now())));
}).observe(document, { childList: true, subtree: true });
"""
_PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
# How long the page did nothing else: the longest task of its thread.
_TASKS = """
window.longest = 0;
new PerformanceObserver((list) => {
    for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
}).observe({ type: "longtask" });
"""


async def browser(arena: Arena, size: Size, report: Report) -> None:
    """What a person sees of a long run, and what open pages cost."""
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(**launch_options())
        with arena.database() as url:
            async with opened(url) as bench:
                report.say(f"browser: a run with {size.page_entries:,} entries")
                run = await bench.engine.start(in_rows, size.page_entries // 2)
                await run.result()
            async with serving(url) as server:
                await _long(chromium, server, str(run.run_id), size, report)
                await _idle(chromium, server, size, report)
        with arena.database() as url:
            async with opened(url, serves=False) as bench, workers(url, 1), serving(url) as server:
                await _typing(chromium, server, bench, size, report)
                await _busy(chromium, server, bench, size, report)
        await chromium.close()


def _address(server: Server, path: str) -> str:
    host, port = server.where
    return f"http://{host}:{port}/{path}"


async def _long(chromium: Browser, server: Server, run: str, size: Size, report: Report) -> None:
    """A run in a page that was just opened, with an empty cache."""
    painted: list[float] = []
    seen: list[float] = []
    rows = 0
    for round_ in range(size.browser_rounds + 1):
        report.say(f"browser: a long run, round {round_}")
        context = await chromium.new_context(viewport={"width": 1440, "height": 1000})
        page = await context.new_page()
        await page.add_init_script(_WHEN_SEEN)
        await page.goto(_address(server, f"runs/{run}"))
        await page.wait_for_function("() => window.rowsAt > 0")
        painted.append(await page.evaluate(_PAINTED))
        seen.append(await page.evaluate("window.rowsAt"))
        # All of the rows, and the middle of them.
        if size.page_entries > _ROWS_MAX:
            await page.locator("tbody tr .twist").nth(1).click()
            await page.evaluate("scrollTo(0, document.body.scrollHeight / 2)")
        await page.wait_for_timeout(300)
        rows = max(rows, await page.locator("tbody tr").count())
        await context.close()
    report.line(f"browser  a run with {size.page_entries:,} entries", "first/p50 ms")
    # The first is that of a server that knows nothing of the run yet.
    for name, found in (("first paint", painted), ("first rows", seen)):
        middle = statistics.median(found[1:])
        report.timed(f"  {name}", f"{found[0]:.0f} / {middle:.0f}", *at_most(middle, _PAINT_MS_MAX, "p50 "))
    report.line("  rows in the page", f"{rows}", *at_most(rows, _ROWS_MAX))


@asynccontextmanager
async def _open(chromium: Browser, server: Server, pages: int) -> AsyncIterator[list[Page]]:
    """Pages that have read what they show, some of them of one person."""
    found: list[Page] = []
    contexts = []
    for number in range(pages):
        if number % _PAGES_EACH == 0:
            contexts.append(await chromium.new_context(viewport={"width": 1280, "height": 800}))
        page = await contexts[-1].new_page()
        await page.goto(_address(server, _PATHS[number % len(_PATHS)]))
        await page.get_by_role("heading", level=1).wait_for()
        found.append(page)
    try:
        yield found
    finally:
        for context in contexts:
            await context.close()


async def _idle(chromium: Browser, server: Server, size: Size, report: Report) -> None:
    """CPU of a server whose pages are open while nothing happens."""
    report.say(f"browser: {size.pages} idle pages")
    async with _open(chromium, server, size.pages) as pages:
        await pages[-1].wait_for_timeout(2_000)
        began, before = time.perf_counter(), server.cpu_seconds()
        await asyncio.sleep(size.idle_seconds)
        share = 100 * (server.cpu_seconds() - before) / (time.perf_counter() - began)
    name = f"browser  CPU of a server with {size.pages} idle pages, %"
    report.timed(name, f"{share:.1f}", *at_most(share, _IDLE_CPU_MAX))


async def _typing(chromium: Browser, server: Server, bench: Bench, size: Size, report: Report) -> None:
    """A text is typed into the filter while runs start and end."""
    report.say("browser: typing while everything changes")
    text = ("status:failed workflow:order " * (size.typed // 29 + 1))[: size.typed]
    before = bench.probe.count("completed")
    async with _open(chromium, server, 2) as pages:
        page = pages[1]
        await page.evaluate(_TASKS)
        field = page.get_by_role("combobox").first
        await field.click()
        changing = asyncio.ensure_future(_change(bench, size.changes_per_second))
        began = time.perf_counter()
        await page.keyboard.type(text, delay=_KEY_MS)
        took = time.perf_counter() - began
        changing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await changing
        ended = bench.probe.count("completed") - before
        typed = await field.input_value()
        longest = await page.evaluate("window.longest")
    dropped = len(text) - sum(one == other for one, other in zip(text, typed, strict=False))
    report.line(f"browser  keys that were dropped, of {len(text)}", f"{dropped}", *at_most(dropped, 0))
    # Each run that has ended was started too.
    report.detail(f"{2 * ended / took:,.0f} changes a second; the longest task of the page took {longest:.0f} ms")


async def _change(bench: Bench, per_second: int) -> None:
    while True:
        began = time.perf_counter()
        await bench.engine.runs.start_many(sequence, [Start(1)] * max(1, per_second // 2 // _BATCHES))
        await asyncio.sleep(max(0.0, 1 / _BATCHES - (time.perf_counter() - began)))


async def _busy(chromium: Browser, server: Server, bench: Bench, size: Size, report: Report) -> None:
    """Steps per second of a worker process, with and without pages. The browser needs a core itself."""
    alone: list[float] = []
    seen: list[float] = []
    await bench.engine.runs.start_many(sequence, [Start(1)])
    for round_ in range(size.browser_rounds):
        report.say(f"browser: a busy worker, round {round_ + 1}")
        alone.append(await crowd(bench, size))
        async with _open(chromium, server, 2):
            seen.append(await crowd(bench, size))
    slower = statistics.median(a / s for a, s in zip(alone, seen, strict=True))
    report.timed("browser  times slower with open pages", f"{slower:.2f}", *at_most(slower, _SLOWER_MAX))
