"""One server for all tests of a process, and a real Chromium for those of a module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response, sync_playwright

from stepwell.http import Role
from tests.browser.site import Site, launch_options, serve, sign_in

PATIENCE_MS = 20_000


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server on a database with runs in every status."""
    with serve(tmp_path_factory.mktemp("site")) as served:
        yield served


@pytest.fixture(scope="module")
def chromium(site: Site) -> Iterator[Browser]:
    """One browser for the tests of a module.

    While it is there, its event loop runs in this thread, so the server is there before it, and no test of another
    module can run beside it.
    """
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options())
        yield browser
        browser.close()


class Watch:
    """What must not happen while pages are open."""

    def __init__(self, site: Site) -> None:
        self.origin = site.url
        self.findings: list[str] = []
        self.allowed: tuple[str, ...] = ()  # parts of console errors that a test provokes

    def follow(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.findings.append(f"page error: {error}"))
        page.on("console", self._console)
        page.on("request", self._request)
        page.on("response", self._response)
        page.on("dialog", lambda dialog: self.findings.append(f"a dialog of a script: {dialog.message}"))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(part in message.text for part in self.allowed):
            self.findings.append(f"console {message.type}: {message.text}")

    def _request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if f"{parts.scheme}://{parts.netloc}" != self.origin:
            self.findings.append(f"a request elsewhere: {request.url}")

    def _response(self, response: Response) -> None:
        if response.status >= 500:
            self.findings.append(f"{response.status} for {response.url}")


class Tabs:
    """Opens pages, signed in with a role."""

    def __init__(self, browser: Browser, site: Site) -> None:
        self._browser, self._site = browser, site
        self._contexts: list[BrowserContext] = []
        self.watch = Watch(site)

    def open(self, path: str = "", role: Role | None = Role.ADMIN, **how: object) -> Page:
        context = self._browser.new_context(base_url=self._site.url, **how)  # type: ignore[arg-type]
        context.set_default_timeout(PATIENCE_MS)
        self._contexts.append(context)
        if role is not None:
            sign_in(context, self._site, role)
        page = context.new_page()
        self.watch.follow(page)
        page.goto(f"/{path}")
        return page

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def tabs(chromium: Browser, site: Site) -> Iterator[Tabs]:
    """Pages of one test. After it, nothing may have been found that must not happen."""
    opened = Tabs(chromium, site)
    yield opened
    opened.close()
    assert opened.watch.findings == []


Open = Callable[..., Page]


@pytest.fixture
def open_page(tabs: Tabs) -> Open:
    """Open a page of the dashboard."""
    return tabs.open
