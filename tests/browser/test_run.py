"""The page of one run: long histories, the past, what it publishes, and what can be done to it."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from stepwell.http import Role
from tests.browser.conftest import Open, Tabs
from tests.browser.seed import ROWS
from tests.browser.site import Site
from tests.browser.test_journeys import expect_focus, press, start
from tests.browser.test_pages import settled

ROWS_MAX = 150


def headers(site: Site) -> dict[str, str]:
    return {"authorization": f"Bearer {site.tokens[Role.OPERATOR]}"}


def started(site: Site, key: str, workflow: str, given: object, until: str) -> str:
    """A run that has come to a status."""
    body = {"workflow": workflow, "key": key, "input": given}
    answer = httpx.post(f"{site.url}/api/runs", json=body, headers=headers(site))
    assert answer.status_code == 201, answer.text
    run = str(answer.json()["run"]["run_id"])
    for _ in range(100):
        found = httpx.get(f"{site.url}/api/runs/{run}", headers=headers(site)).json()["run"]["status"]
        if found == until:
            return run
        httpx.get(f"{site.url}/api/runs/{run}/result", params={"wait": 0.2}, headers=headers(site))
    raise AssertionError(f"{key} is {found}")


def row(page: Page, key: str) -> str:
    return str(page.evaluate("(key) => new URL(location.href).searchParams.get(key)", key))


def test_a_run_with_20_000_entries_is_read_in_parts_and_shown_in_a_window(open_page: Open) -> None:
    page = open_page("runs")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_role("link", name="rows-1").click()
    expect(page.get_by_role("row", name=re.compile("Open rows done"))).to_be_visible(timeout=20_000)
    settled(page, "rows-1")
    expect(page.get_by_role("row", name=re.compile("~7000")).first).to_be_visible()  # the one that failed is listed
    assert page.locator("tbody tr").count() <= ROWS_MAX
    assert page.evaluate("document.querySelectorAll('*').length") < 2_500
    assert not [url for url in asked if "/history" in url]

    page.get_by_role("row", name=re.compile("^Close import_rows")).focus()
    press(page, "ArrowDown")
    expect_focus(page, "rows")
    press(page, "ArrowRight")
    expect(page.get_by_role("row", name=re.compile("^Close rows"))).to_be_visible()
    count = int(page.get_by_role("treegrid").get_attribute("aria-rowcount") or 0)
    assert count >= ROWS + 3
    press(page, "End")
    expect_focus(page, "read_row")
    expect(page.locator("tr:focus")).to_have_attribute("aria-rowindex", str(count))
    press(page, "ArrowLeft")
    expect_focus(page, f"~{ROWS - 1}")
    for name, value in (("level", 3), ("posinset", ROWS), ("setsize", ROWS), ("rowindex", count - 1)):
        expect(page.locator("tr:focus")).to_have_attribute(f"aria-{name}", str(value))
    assert row(page, "at") == f"rows/~{ROWS - 1}"
    assert page.locator("tbody tr").count() <= ROWS_MAX
    press(page, "Home")
    expect_focus(page, "import_rows")
    page.evaluate("scrollTo(0, 28 * 5000)")
    expect(page.get_by_role("row", name=re.compile(r"~49\d\d")).first).to_be_visible()
    assert page.locator("tbody tr").count() <= ROWS_MAX


def test_a_step_deep_in_a_long_run_is_found_by_its_address(open_page: Open) -> None:
    page = open_page("runs/rows-1?at=rows/~7000/read_row")
    settled(page, "rows-1")
    expect(page.get_by_role("complementary", name="Selected step")).to_contain_text("the row is empty")


def test_a_long_history_is_filtered_by_the_server_and_turned_in_pages(open_page: Open) -> None:
    page = open_page("runs/rows-1?tab=history")
    settled(page, "rows-1")
    expect(page.locator("tbody tr")).to_have_count(120)
    page.get_by_role("button", name="Last entries").click()
    expect(page.locator("tbody")).to_contain_text("rows")
    expect(page.locator(".pager")).to_contain_text(re.compile(r"20.001"))
    page.get_by_label("Filter the history").fill("failed")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("rows/~7000/read_row")
    page.get_by_label("Filter the history").fill("nothing like it")
    expect(page.get_by_text("No entry matches.")).to_be_visible()


def test_the_past_is_looked_at_with_a_slider_and_nothing_can_be_done_to_it(open_page: Open) -> None:
    page = open_page("runs/review-1")
    settled(page, "review-1")
    slider = page.get_by_role("slider", name="Entry of the history")
    last = int(slider.get_attribute("max") or 0)
    assert last >= 4
    expect(slider).to_have_value(str(last))
    slider.focus()
    press(page, "Home", "ArrowRight", "ArrowRight")
    page.wait_for_url("**then=2**")
    expect(page.get_by_role("region", name=re.compile("at work or waited"))).to_be_visible()
    expect(page.get_by_text("As it was on")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel…")).to_have_count(0)
    expect(slider).to_be_focused()
    expect(slider).to_have_attribute("aria-valuetext", f"Entry 2 of {last}")
    tree = page.get_by_role("treegrid")
    expect(tree).to_contain_text("reserve_stock")
    expect(tree).not_to_contain_text("decision")
    panel = page.get_by_role("complementary", name="Selected step")
    expect(panel).to_contain_text("what it was then is not kept")  # it was another state

    page.reload()
    settled(page, "review-1")
    expect(page.get_by_text("As it was on")).to_be_visible()
    page.get_by_role("button", name="Back to now").click()
    expect(page.get_by_role("button", name="Cancel…")).to_be_visible()
    expect(tree).to_contain_text("decision")


def test_a_signal_is_sent_by_a_form_from_its_type(open_page: Open, site: Site) -> None:
    started(site, "typed-2", "review", "offer", "waiting")
    page = open_page("runs/typed-2?tab=signals")
    settled(page, "typed-2")
    form = page.get_by_role("form", name="Send a signal")
    expect(form.get_by_label("Name", exact=True)).to_have_value("decide")
    form.get_by_label("approved").check()
    form.get_by_label(re.compile("^limit")).fill("4O")
    expect(form.get_by_text("Write a number")).to_be_visible()
    form.get_by_role("button", name="Send signal").click()
    expect(form.get_by_role("alert")).to_contain_text("is not complete")
    form.get_by_label(re.compile("^limit")).fill("40.5")
    form.get_by_label(re.compile("^reason")).fill("it is fine")
    expect(form.locator(".cmd code")).to_have_text(
        re.compile(r"stepwell signal \S+ decide approved:=true limit:=40.5 'reason=it is fine'$")
    )
    form.get_by_role("button", name="JSON").click()
    expect(form.get_by_label("Payload")).to_have_value(re.compile('"limit": 40.5'))
    form.get_by_role("button", name="Send signal").click()

    expect(page.locator(".badge")).to_have_text("Completed")
    press(page, "5")
    expect(page.get_by_label("Output", exact=True)).to_contain_text("True: it is fine")


def test_what_a_run_publishes_is_followed(open_page: Open, site: Site) -> None:
    run = started(site, "published-1", "review", "letter", "waiting")
    page = open_page("runs/published-1?tab=published")
    settled(page, "published-1")
    expect(page.get_by_label("Published state")).to_contain_text('"waiting"')
    lines = page.get_by_role("list", name="Stream words").get_by_role("listitem")
    expect(lines).to_have_count(2)
    body = {"name": "decide", "payload": {"approved": False}}
    httpx.post(f"{site.url}/api/runs/{run}/signals", json=body, headers=headers(site))
    expect(lines).to_have_count(3)
    expect(lines.last).to_contain_text("decided")
    expect(page.get_by_text("The stream is over.")).to_be_visible()


def test_a_wait_is_skipped_with_a_result_of_its_type(open_page: Open, site: Site) -> None:
    started(site, "skipped-1", "review", "offer", "waiting")
    page = open_page("runs/skipped-1")
    settled(page, "skipped-1")
    page.get_by_role("button", name="Skip…").click()
    dialog = page.get_by_role("dialog", name="Skip a step or a wait")
    expect(dialog.get_by_label("Step or wait")).to_have_value("decision")
    dialog.get_by_label(re.compile("^reason")).fill("by phone")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("heading", name="Gets the given result")).to_be_visible()
    dialog.get_by_role("button", name="Skip", exact=True).click()
    expect(page.locator(".badge")).to_have_text("Completed")
    press(page, "5")
    expect(page.get_by_label("Output", exact=True)).to_contain_text("False: by phone")


def test_a_run_is_copied_as_a_test(tabs: Tabs) -> None:
    page = tabs.open("runs/order-4711", permissions=["clipboard-read", "clipboard-write"])
    settled(page, "order-4711")
    page.get_by_role("button", name="Copy as test").click()
    expect(page.get_by_text("The test is copied")).to_be_visible()
    text = page.evaluate("navigator.clipboard.readText()")
    assert "def test_" in text
    assert "order_fulfilment" in text
    viewer = tabs.open("runs/order-4711", role=Role.VIEWER)
    settled(viewer, "order-4711")
    expect(viewer.get_by_role("button", name="Copy as test")).to_have_count(0)


REPAIRS = [
    ("Rewind…", "Rewind the run", {"To this step": "read_file"}, "Runs again", "was rewound"),
    ("Fork…", "Fork the run", {"Before this step": "read_file"}, "Kept, not run again", "was forked as"),
]


@pytest.mark.parametrize(("button", "title", "fields", "heading", "said"), REPAIRS, ids=["rewind", "fork"])
def test_a_repair_shows_its_plan_before_it_is_done(
    open_page: Open, site: Site, button: str, title: str, fields: dict[str, str], heading: str, said: str
) -> None:
    key = f"repaired-{button[:4].lower()}"
    started(site, key, "review", "offer", "waiting")
    page = open_page(f"runs/{key}")
    settled(page, key)
    if not page.get_by_role("button", name=button).is_visible():
        page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name=button).click()
    dialog = page.get_by_role("dialog", name=title)
    for label, value in fields.items():
        dialog.get_by_label(label).fill(value)
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("heading", name=heading)).to_be_visible()
    expect(page.locator(".badge")).to_have_text("Waiting for a signal")  # nothing has happened
    dialog.get_by_role("button", name=button[:-1], exact=True).click()
    expect(page.get_by_text(re.compile(said))).to_be_visible()
    expect(dialog).to_have_count(0)


def test_a_failed_run_is_redriven_and_retried(open_page: Open, site: Site) -> None:
    started(site, "redriven-1", "hostile", "no such row", "failed")
    page = open_page("runs/redriven-1")
    settled(page, "redriven-1")
    page.get_by_role("button", name="Redrive…").click()
    dialog = page.get_by_role("dialog", name="Continue the run")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("heading", name="Runs again")).to_be_visible()
    dialog.get_by_label(re.compile("Reason")).fill("try again")
    dialog.get_by_role("button", name="Redrive", exact=True).click()
    expect(page.get_by_text("redriven-1 continues")).to_be_visible()
    expect(page.locator(".badge")).to_have_text("Failed")
    page.get_by_role("button", name="Retry", exact=True).click()
    expect(page.get_by_text("is retried from the step that failed")).to_be_visible()
    page.get_by_role("link", name=re.compile("^Acts")).click()
    expect(page.locator(".tabpanel")).to_contain_text("try again")


def test_a_run_is_paused_resumed_and_cancelled(open_page: Open, site: Site) -> None:
    started(site, "steered-1", "review", "offer", "waiting")
    page = open_page("runs/steered-1")
    settled(page, "steered-1")
    if not page.get_by_role("button", name="Pause…").is_visible():
        page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name="Pause…").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator(".badge")).to_have_text(re.compile("^Paused"))
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.locator(".badge")).to_have_text("Waiting for a signal")
    page.get_by_role("button", name="Cancel…").click()
    dialog = page.get_by_role("dialog", name="Cancel the run")
    dialog.get_by_label("Undo its completed steps first").uncheck()
    expect(dialog.locator(".cmd code")).to_have_text(re.compile("--now"))
    dialog.get_by_role("button", name="Cancel", exact=True).last.click()
    expect(page.locator(".badge")).to_have_text("Cancelled")


def test_a_rollback_that_stopped_is_resumed_from_the_undo_stack(open_page: Open, site: Site) -> None:
    started(site, "stuck-1", "order_fulfilment", {"customer": "stuck", "amount": 9_100}, "compensation_failed")
    page = open_page("runs/stuck-1?tab=undo")
    settled(page, "stuck-1")
    expect(page.get_by_role("row", name=re.compile("reserve_stock Undo failed"))).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("authorise Undone"))).to_be_visible()
    page.locator(".tabpanel").get_by_role("button", name="Resume rollback").click()
    expect(page.get_by_text("stuck-1 continues its rollback")).to_be_visible()
    expect(page.locator(".badge")).to_have_text(re.compile("Rollback incomplete"))


def test_a_key_that_names_another_run_later_does_not_change_the_page(open_page: Open, site: Site) -> None:
    run = start(site, "named-1")
    page = open_page("runs/named-1")
    settled(page, "named-1")
    page.wait_for_url(f"**/runs/{run}")
