"""No page has a finding of axe: by WCAG 2.0 to 2.2, A and AA, and its best practices."""

from __future__ import annotations

import os
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Tabs
from tests.browser.site import ROOT

AXE = ROOT / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
PATHS = (
    "",
    "runs",
    "runs?q=statsu:failed+status:waiting",
    "runs/order-4711",
    "runs/order-4702?tab=undo",
    "runs/order-4711?tab=history&entry=3",
    "runs/order-4715?tab=signals",
    "runs/review-1",
    "runs/review-1?then=2",
    "runs/review-1?tab=signals",
    "runs/review-1?tab=published",
    "runs/review-1?tab=history",
    "runs/review-1?tab=undo",
    "runs/review-1?tab=io",
    "runs/review-1?tab=related",
    "runs/review-1?tab=acts",
    "runs/review-1?tab=raw",
    "runs/rows-1?at=rows",
    "runs/order-4711?tab=io",
    "runs/books-1?tab=related",
    "runs/paused-1?tab=acts",
    "runs/thumbs-1?tab=raw",
    "workflows",
    "workflows/order_fulfilment",
    "doctor",
    "errors",
    "compare",
    "compare/order-1/order-4711",
    "schedules",
    "alerts",
    "dead-letters",
    "retention",
    "workers",
    "audit",
    "settings",
    "nowhere",
)
LISTS = (
    "",
    "runs?q=sort:-took&columns=status,key,title,tags,started_by,parent,took,attr.amount,run",
    "events",
    "triggers",
    "outbox",
    "bulk",
    "bulk/bulk-1?outcome=refused",
)
MODES: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "forced": {"forced_colors": "active"},
    "contrast": {"contrast": "more"},
    "narrow": {"viewport": {"width": 320, "height": 700}},
}
CHOSEN = tuple(MODES) if os.environ.get("BROWSER_MODES") == "all" else ("light",)


def findings(page: Page) -> list[str]:
    """What axe finds on a page. Its script may not be added to the page, so the tools of the browser run it."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{page.url.rpartition('/')[2]} {one['id']}: {node['html'][:160]} {node['failureSummary'][-160:]}"
        for one in found["violations"]
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("mode", CHOSEN)
def test_axe_finds_nothing(tabs: Tabs, mode: str) -> None:
    tabs.watch.allowed = ("400 (Bad Request)",)
    page = tabs.open(**MODES[mode])
    found: list[str] = []
    for path in PATHS:
        page.goto(f"/{path}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator(".skeleton")).to_have_count(0)
        found += findings(page)
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog")).to_be_visible()
    found += findings(page)
    page.keyboard.press("Escape")
    page.goto("/runs/order-4715")
    page.get_by_role("button", name="Skip…").click()
    found += findings(page)

    assert not found, "\n".join(found)


@pytest.mark.parametrize("mode", CHOSEN)
def test_axe_finds_nothing_in_lists_with_what_is_folded_open_and_selected(tabs: Tabs, mode: str) -> None:
    page = tabs.open(**MODES[mode])
    found: list[str] = []
    for path in LISTS:
        page.goto(f"/{path}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator(".skeleton")).to_have_count(0)
        for row in page.locator(".row-open").all()[:2]:
            row.click()
        found += findings(page)
    page.goto("/runs")
    page.get_by_role("button", name="Act on all that match…").click()
    found += findings(page)
    page.get_by_role("button", name="Cancel…").click()
    expect(page.get_by_role("dialog").get_by_text("Such as")).to_be_visible()
    found += findings(page)

    assert not found, "\n".join(found)
