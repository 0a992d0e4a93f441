"""The dashboard works below a path of a reverse proxy that tells the server nothing of it."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect

from stepwell.http import Role
from tests.browser.conftest import Watch
from tests.browser.proxy import proxied
from tests.browser.site import Site
from tests.browser.test_pages import settled


def test_every_way_through_the_pages_stays_below_the_path(chromium: Browser, site: Site) -> None:
    with proxied(site.url, "/ops/stepwell") as url:
        watch = Watch(site._replace(url=url.removesuffix("/ops/stepwell")))
        watch.allowed = ("401 (Unauthorized)",)
        context = chromium.new_context()
        page = context.new_page()
        watch.follow(page)
        page.goto(f"{url}/runs/order-4711?tab=undo")  # deep, and not signed in
        page.get_by_label("Token").fill(site.tokens[Role.OPERATOR])
        page.keyboard.press("Enter")
        settled(page, "order-4711")
        [cookie] = context.cookies()
        assert cookie["path"] == "/ops/stepwell/api"

        page.get_by_role("link", name="Runs").first.click()
        settled(page, "Runs")
        assert page.url == f"{url}/runs"
        page.get_by_role("link", name="order-1", exact=True).click()
        settled(page, "order-1")
        page.reload()
        settled(page, "order-1")
        page.keyboard.press("g")
        page.keyboard.press("h")
        settled(page, "What needs you")
        assert page.url == f"{url}/"
        page.get_by_label("signed in as ann the operator").click()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        assert context.cookies() == []
        context.close()
    assert watch.findings == []
    assert re.search(r"/ops/stepwell/", page.url)
