"""Every page in a real browser. Each test also fails for what tests/browser/conftest.py watches: errors of scripts and
of the console, requests to another origin, reports of the policy, answers of 500 and above, dialogs of scripts.
"""

from __future__ import annotations

import gzip
import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from stepwell.http import Role
from stepwell.http.dashboard import FOLDER
from tests.browser.conftest import Open, Tabs
from tests.browser.seed import ARABIC, WIDE
from tests.browser.shop import POISON
from tests.browser.site import Site

TABS = ("history&entry=1", "signals", "undo", "io", "published", "related", "acts", "raw")
PAGES = {
    "": "What needs you",
    "runs": "Runs",
    "runs?q=status:failed,paused+workflow:h*": "Runs",
    "runs?q=statsu:failed": "Runs",
    "errors": "Errors",
    "errors?q=statsu:failed": "Errors",
    "errors?group=not-there": "Errors",
    "workflows": "Workflows",
    "workflows/order_fulfilment": "order_fulfilment",
    "workflows/make_thumbnails": "make_thumbnails",
    "workflows/nightly_report": "nightly_report",
    "workflows/nobody": "nobody",
    "doctor": "Doctor",
    "compare": "Compare",
    "compare/order-1/order-4711": "Compare",
    "compare/order-1/order-1": "Compare",
    f"compare/hostile-1/{WIDE}": "Compare",
    "compare/order-1/nobody": "Compare",
    "schedules": "Schedules",
    "schedules/nobody": "nobody",
    "alerts": "Alerts",
    "dead-letters": "Dead letters",
    "dead-letters?letter=event-1": "Dead letters",
    "retention": "Retention",
    "runs?q=sort:-took&columns=status,key,title,tags,started_by,parent,took,attr.amount": "Runs",
    "runs?view=big+orders&q=workflow:order*+-tag:test+sort:-took": "Runs",
    "runs?last=7d": "Runs",
    "events": "Events",
    "events?topic=order.packed": "Events",
    "triggers": "Triggers",
    "triggers?state=paused": "Triggers",
    "outbox": "Outbox",
    "bulk": "Bulk",
    "bulk/bulk-1": "bulk-1",
    "bulk/bulk-1?outcome=refused": "bulk-1",
    "bulk/bulk-999": "bulk-999",
    "workers": "Workers",
    "audit": "Audit",
    "settings": "Settings",
    "nowhere/at/all": "No such page",
    "runs/nobody": "nobody",
    "runs/order-1": "order-1",
    "runs/order-4711": "order-4711",
    "runs/order-4702?tab=undo": "order-4702",
    "runs/order-4715": "order-4715",
    "runs/sync-1": "sync-1",
    "runs/import-1": "import-1",
    "runs/report-1": "report-1",
    "runs/books-1?tab=related": "books-1",
    "runs/paused-1?tab=acts": "paused-1",
    "runs/review-1?tab=published": "review-1",
    "runs/review-1?then=2": "review-1",
    "runs/rows-1": "rows-1",
    f"runs/{ARABIC}": ARABIC,
    f"runs/{WIDE}": WIDE,
    **{f"runs/hostile-1?tab={tab}": "hostile-1" for tab in TABS},
}


NARROW = (
    "schedules",
    "alerts",
    "dead-letters",
    "retention",
    "events",
    "triggers",
    "outbox",
    "bulk",
    "bulk/bulk-1",
    "runs?q=sort:-took&columns=status,key,title,tags,started_by,parent,took,attr.amount,run",
    "workflows",
    "workflows/order_fulfilment",
    "doctor",
    "errors",
    f"compare/hostile-1/{WIDE}",
    "compare",
)


def settled(page: Page, title: str) -> None:
    """Wait until a page shows what it has read."""
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    expect(page.locator(".skeleton")).to_have_count(0)


def test_every_page_opens_and_says_what_it_is(tabs: Tabs) -> None:
    tabs.watch.allowed = ("400 (Bad Request)", "404 (Not Found)")  # a wrong filter, and a run that is not there
    page = tabs.open()
    for path, title in PAGES.items():
        page.goto(f"/{path}")
        settled(page, title)
        assert page.title().endswith("· stepwell"), path
    widths = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert widths[0] == widths[1]


def test_the_pages_are_small(open_page: Open) -> None:
    page = open_page()
    settled(page, "What needs you")
    first = page.evaluate(
        """() => performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource"))
            .filter((one) => !new URL(one.name).pathname.startsWith("/api/"))
            .reduce((sum, one) => sum + one.encodedBodySize, 0)"""
    )
    whole = sum(len(gzip.compress(path.read_bytes(), 9)) for path in FOLDER.rglob("*") if path.is_file())

    assert 10_000 < first <= 90_000
    assert first < whole <= 200_000


def test_an_empty_page_teaches(open_page: Open) -> None:
    page = open_page()
    for path, title, command, act in (
        ("schedules", "No schedule yet", "stepwell schedule new nightly", "New schedule…"),
        ("alerts", "No rule watches the runs", "stepwell alert create", "New rule…"),
    ):
        page.goto(f"/{path}")
        empty = page.locator(".empty")
        expect(empty.get_by_role("heading")).to_have_text(title)
        expect(empty.locator("code")).to_contain_text(command)
        if act:
            expect(empty.get_by_role("button", name=act)).to_be_visible()
    page.goto("/dead-letters?kind=hook")
    expect(page.get_by_text("No letter of this kind")).to_be_visible()
    page.goto("/retention")
    expect(page.get_by_text("This server knows no policy")).to_be_visible()


def test_stored_text_is_text_and_never_markup(open_page: Open) -> None:
    page = open_page("runs/hostile-1?tab=io")
    settled(page, "hostile-1")

    expect(page.locator("main").get_by_text(POISON).first).to_be_visible()
    assert page.locator("main img, main script").count() == 0


def test_a_phone_shows_every_page_without_a_sideways_scroll(open_page: Open) -> None:
    page = open_page("runs", viewport={"width": 320, "height": 700})
    for path in (
        "",
        "runs",
        "runs/order-4702",
        "runs/order-4711?tab=history&entry=3",
        "workers",
        "audit",
        "settings",
        *NARROW,
    ):
        page.goto(f"/{path}")
        expect(page.locator(".skeleton")).to_have_count(0)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide == 0, path
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Workers").click()
    settled(page, "Workers")


def test_a_viewer_sees_no_act_and_no_payload(open_page: Open, site: Site) -> None:
    page = open_page("runs/order-4715?tab=io", role=Role.VIEWER)
    settled(page, "order-4715")

    expect(page.get_by_text("You may look, but not act")).to_be_visible()
    expect(page.get_by_text("You may not see this value.")).to_be_visible()
    expect(page.get_by_role("link", name="Audit")).to_have_count(0)
    for name in ("Send signal…", "Cancel…", "Skip…", "Pause…"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    for path, said in (("doctor", "The checks of the store name files and hosts."), ("workflows/approval", "p95")):
        page.goto(f"/{path}")
        expect(page.get_by_text(said)).to_be_visible()
        expect(
            page.locator("main").get_by_role("button", name=re.compile("^(Resume|Retry|Start|Pause)"))
        ).to_have_count(0)
    cookie = page.context.cookies()[0]
    headers = {"x-stepwell-page": "1", "origin": site.url, "cookie": f"{cookie['name']}={cookie['value']}"}
    answer = httpx.post(f"{site.url}/api/runs/order-4715/cancel", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "SW801")


def test_people_sign_in_with_a_token_and_out_again(tabs: Tabs, site: Site) -> None:
    tabs.watch.allowed = ("401 (Unauthorized)",)
    page = tabs.open("runs/order-4715", role=None)
    page.get_by_label("Token").fill("swt_wrong")
    page.keyboard.press("Enter")
    expect(page.locator("form").get_by_role("alert")).to_contain_text("this token is not valid")
    expect(page.get_by_label("Token")).to_have_value("swt_wrong")
    page.get_by_label("Token").fill(site.tokens[Role.OPERATOR])
    page.keyboard.press("Enter")
    settled(page, "order-4715")
    assert site.tokens[Role.OPERATOR] not in page.url
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate("JSON.stringify(localStorage) + JSON.stringify(sessionStorage)") == "{}{}"

    page.get_by_label("Signed in as ann the operator").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_a_session_that_ends_in_the_middle_of_a_form_loses_nothing(tabs: Tabs, site: Site) -> None:
    tabs.watch.allowed = ("401 (Unauthorized)",)
    page = tabs.open("runs/reminder-1")
    settled(page, "reminder-1")
    page.get_by_role("button", name="Pause…").click()
    page.get_by_label(re.compile("Reason")).fill("until Monday")
    page.context.clear_cookies()

    again = page.get_by_role("dialog", name="Your session has ended")
    again.get_by_label("Token").fill(site.tokens[Role.ADMIN])
    again.get_by_role("button", name="Sign in").click()
    expect(again).to_have_count(0)
    expect(page.get_by_label(re.compile("Reason"))).to_have_value("until Monday")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text("reminder-1 is paused")).to_be_visible()
    expect(page.locator(".badge")).to_have_text("Paused by ann the admin")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_lost_server_leaves_the_data_and_shows_its_age(tabs: Tabs) -> None:
    tabs.watch.allowed = ("ERR_INTERNET_DISCONNECTED",)
    page = tabs.open("runs")
    settled(page, "Runs")
    rows = page.locator("tbody tr").count()
    page.context.set_offline(True)
    expect(page.get_by_role("button", name=re.compile("Data is .* old, reconnecting"))).to_be_visible()
    assert page.locator("tbody tr").count() == rows
    page.context.set_offline(False)
    expect(page.get_by_role("button", name=re.compile("^Live"))).to_be_visible(timeout=12_000)


@pytest.mark.parametrize("theme", ["Light", "Dark", "High contrast"])
def test_a_theme_is_kept(open_page: Open, theme: str) -> None:
    page = open_page("settings")
    chosen_one = page.get_by_role("main").get_by_label(theme, exact=True)
    chosen_one.check(force=True)  # the picture of the theme covers it
    page.reload()

    expect(chosen_one).to_be_checked()
    chosen = {"Light": "light", "Dark": "dark", "High contrast": "contrast"}[theme]
    assert page.evaluate("document.documentElement.dataset.theme") == chosen
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"Light": "rgb(255, 255, 255)", "Dark": "rgb(19, 22, 23)"}.get(theme, "rgb(255, 255, 255)")
