"""Live pages: one stream for all pages of a browser, which steals nothing and does not stop with a page."""

from __future__ import annotations

import re
import time

import httpx
from playwright.sync_api import BrowserContext, Page, Request, expect

from stepwell.http import Role
from tests.browser.conftest import Tabs
from tests.browser.site import Site
from tests.browser.test_journeys import start

HIDE = """(isHidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, value: isHidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


class Streams:
    """The streams of changes that the pages of a context have open."""

    def __init__(self, context: BrowserContext) -> None:
        self.open: set[Request] = set()
        self.marks: list[str] = []
        context.on("request", self._begun)
        context.on("requestfinished", self._ended)
        context.on("requestfailed", self._ended)

    def _begun(self, request: Request) -> None:
        if "/api/changes" in request.url:
            self.open.add(request)
            self.marks.append(request.headers.get("last-event-id", ""))

    def _ended(self, request: Request) -> None:
        self.open.discard(request)


def signalled(site: Site, run: str) -> None:
    headers = {"authorization": f"Bearer {site.tokens[Role.OPERATOR]}"}
    answer = httpx.post(
        f"{site.url}/api/runs/{run}/signals", json={"name": "approve", "payload": {"by": "bo"}}, headers=headers
    )
    assert answer.status_code == 202, answer.text


def badge(page: Page, text: str) -> None:
    expect(page.locator(".badge")).to_have_text(text)


def test_the_pages_of_a_browser_share_one_stream_and_the_next_one_continues_it(tabs: Tabs, site: Site) -> None:
    runs = [start(site, f"shared-{number}") for number in range(3)]
    first = tabs.open()
    streams = Streams(first.context)
    first.goto(f"/runs/{runs[0]}")
    badge(first, "Waiting for a signal")
    others = [first.context.new_page() for _ in range(2)]
    for run, page in zip(runs[1:], others, strict=True):
        tabs.watch.follow(page)
        page.goto(f"/runs/{run}")
        badge(page, "Waiting for a signal")
    first.wait_for_timeout(1_500)
    assert len(streams.open) == 1

    signalled(site, runs[1])
    badge(others[0], "Completed")
    streams.open.clear()
    first.close()
    others[1].wait_for_timeout(1_500)
    assert len(streams.open) == 1
    assert streams.marks[-1] != ""  # it continued where the other page was
    signalled(site, runs[2])
    badge(others[1], "Completed")


def test_a_hidden_page_hears_and_reads_nothing_and_catches_up_when_it_is_seen(tabs: Tabs, site: Site) -> None:
    run = start(site, "hidden-1")
    page = tabs.open("runs")
    streams = Streams(page.context)
    page.goto(f"/runs/{run}")
    badge(page, "Waiting for a signal")
    page.wait_for_timeout(800)
    assert len(streams.open) == 1
    page.evaluate(HIDE, True)
    page.wait_for_timeout(300)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    signalled(site, run)
    page.wait_for_timeout(2_000)
    assert (asked, len(streams.open)) == ([], 0)
    badge(page, "Waiting for a signal")
    page.evaluate(HIDE, False)
    badge(page, "Completed")


def test_a_flood_of_changes_takes_neither_focus_nor_selection_nor_scroll_and_reads_four_times_a_second(
    tabs: Tabs, site: Site
) -> None:
    run = start(site, "flooded-1")
    [other, *_] = [start(site, f"flood-{number}") for number in range(3)]
    page = tabs.open(f"runs/{run}?tab=raw", viewport={"width": 1000, "height": 500})
    badge(page, "Waiting for a signal")
    page.wait_for_timeout(1_000)
    page.evaluate("scrollTo(0, 120)")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('h1'))")
    page.get_by_role("link", name=re.compile("^Raw")).focus()
    chosen = page.evaluate("String(getSelection())")
    asked: list[float] = []
    page.on("request", lambda request: asked.append(time.monotonic()) if request.url.endswith(run) else None)
    headers = {"authorization": f"Bearer {site.tokens[Role.OPERATOR]}"}
    began = time.monotonic()
    with httpx.Client(base_url=site.url, headers=headers) as client:
        while time.monotonic() - began < 4:
            for target in (run, other):
                client.post(f"/api/runs/{target}/pause")
                client.post(f"/api/runs/{target}/resume")
            page.wait_for_timeout(5)
    took = time.monotonic() - began

    assert 2 <= len(asked) <= 4 * (took + 1)
    assert (chosen, page.evaluate("String(getSelection())")) == ("flooded-1", "flooded-1")
    badge(page, "Waiting for a signal")
    assert page.evaluate("scrollY") == 120
    expect(page.get_by_role("link", name=re.compile("^Raw"))).to_be_focused()


def test_a_server_that_comes_back_is_heard_again_and_nothing_is_missed(tabs: Tabs, site: Site) -> None:
    tabs.watch.allowed = ("ERR_INTERNET_DISCONNECTED", "ERR_NETWORK_CHANGED", "ERR_FAILED")
    run = start(site, "lost-1")
    page = tabs.open(f"runs/{run}")
    badge(page, "Waiting for a signal")
    page.wait_for_timeout(800)
    page.context.set_offline(True)
    expect(page.get_by_role("button", name=re.compile("Data is .* old, reconnecting"))).to_be_visible()
    signalled(site, run)
    page.wait_for_timeout(1_000)
    badge(page, "Waiting for a signal")
    page.context.set_offline(False)
    badge(page, "Completed")
    expect(page.get_by_role("button", name=re.compile("^Live"))).to_be_visible(timeout=12_000)
