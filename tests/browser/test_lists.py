"""The list of runs and the pages of events, triggers, the outbox and acts on many runs: journeys and bad input."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from stepwell.http import Role
from tests.browser.conftest import Open, Tabs
from tests.browser.seed import WIDE
from tests.browser.shop import NAME_POISON, POISON
from tests.browser.site import Site
from tests.browser.test_journeys import expect_focus, press, start
from tests.browser.test_pages import settled

PAGES = {
    "runs": "Runs",
    "events": "Events",
    "triggers": "Triggers",
    "outbox": "Outbox",
    "bulk": "Bulk",
    "": "What needs you",
}


def ask(site: Site, method: str, path: str, body: object = None) -> httpx.Response:
    headers = {"authorization": f"Bearer {site.tokens[Role.OPERATOR]}"}
    answer = httpx.request(method, f"{site.url}{path}", json=body, headers=headers)
    assert answer.status_code < 300, answer.text
    return answer


def test_runs_are_cancelled_by_a_filter_after_a_preview_with_the_keyboard(open_page: Open, site: Site) -> None:
    for number in range(3):
        start(site, f"many-{number}")
    page = open_page()
    settled(page, "What needs you")
    press(page, "g", "r")
    settled(page, "Runs")
    press(page, "f")
    page.keyboard.type("key:many-*")
    press(page, "Enter", "Escape")
    expect(page.locator("tbody tr")).to_have_count(3)
    expect(page.locator("tbody tr").first).to_contain_text("many-")
    press(page, "j")
    expect(page.locator("tbody tr a:focus")).to_have_count(1)
    press(page, "x")
    bar = page.get_by_role("region", name="Selected runs")
    expect(bar).to_contain_text("1 selected")
    bar.get_by_role("button", name="all 3 that match this filter").press("Enter")
    expect(bar).to_contain_text("All 3 that match this filter")
    press(page, ".")
    page.keyboard.type("Cancel")
    expect(page.get_by_role("option")).to_have_count(1)
    expect(page.get_by_role("option")).to_contain_text("stepwell cancel '--where=key:many-*'")
    press(page, "Enter")

    dialog = page.get_by_role("dialog", name="Cancel many runs")
    expect(dialog.get_by_role("heading", name="Cancel: 3")).to_be_visible()
    expect(dialog.get_by_text("3 Waiting")).to_be_visible()
    expect(dialog.get_by_text("many-0 · approval")).to_be_visible()
    dialog.get_by_label(re.compile("Reason")).focus()
    page.keyboard.type("the shop is shut")
    press(page, "Tab")
    expect(dialog.get_by_label(re.compile("How many runs"))).to_be_focused()
    page.keyboard.type("2")
    press(page, "Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("3 runs match now")
    expect(dialog.get_by_label(re.compile("Reason"))).to_have_value("the shop is shut")
    dialog.get_by_label(re.compile("How many runs")).fill("3")
    press(page, "Enter")

    expect(page.get_by_text("Cancel of 3 runs is ordered")).to_be_visible()
    expect(bar).to_have_count(0)
    page.get_by_role("link", name="Show", exact=True).press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"^bulk-\d+$"))
    expect(page.locator(".badge")).to_have_text("Done")
    expect(page.get_by_text("“the shop is shut”")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(3)
    press(page, "j", "Enter")
    expect(page.locator(".badge")).to_have_text("Cancelled")


def test_a_view_is_saved_opened_and_deleted_with_the_keyboard(open_page: Open) -> None:
    page = open_page("runs")
    settled(page, "Runs")
    press(page, "f")
    page.keyboard.type("workflow:approval")
    press(page, "Enter", "Escape")
    page.wait_for_url("**workflow%3Aapproval")
    page.get_by_role("button", name="Took").press("Enter")
    page.wait_for_url("**sort%3A-took")
    expect(page.get_by_role("columnheader", name="Took")).to_have_attribute("aria-sort", "descending")
    press(page, ".")
    page.keyboard.type("Save")
    press(page, "Enter")
    dialog = page.get_by_role("dialog", name="Save this view")
    dialog.get_by_label("Name").fill("slow approvals")
    expect(dialog.locator(".cmd code")).to_have_text(
        "stepwell view save 'slow approvals' workflow:approval --sort=-took"
    )
    press(page, "Enter")
    expect(page.get_by_text("slow approvals is saved")).to_be_visible()

    page.goto("/runs")
    settled(page, "Runs")
    page.get_by_role("navigation", name="Views").get_by_role("link", name="slow approvals").press("Enter")
    page.wait_for_url("**view=slow+approvals**")
    expect(page.locator(".chip")).to_have_text(["workflow:approval", "sort:-took"])
    expect(page.locator(".views [aria-current=page]")).to_have_text("slow approvals")
    page.get_by_role("button", name="Delete view…").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Delete view").press("Enter")
    expect(page.get_by_role("link", name="slow approvals")).to_have_count(0)


def test_a_range_is_selected_in_the_histogram_and_given_up_again(open_page: Open) -> None:
    page = open_page("runs?last=1h")
    settled(page, "Runs")
    picture = page.get_by_role("img", name=re.compile("runs created from"))
    box = picture.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.1, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.3, middle, steps=4)
    page.mouse.up()

    page.wait_for_url("**since%3A**until%3A**")
    expect(page.locator(".chip")).to_have_count(2)
    expect(page.get_by_text("No run matches")).to_be_visible()
    page.get_by_role("button", name="Every time").click()
    expect(page.locator(".chip")).to_have_count(0)
    expect(page.locator("tbody tr").first).to_be_visible()
    page.get_by_role("button", name="7d", exact=True).press("Enter")
    page.wait_for_url("**last=7d**")
    expect(page.get_by_role("button", name="7d", exact=True)).to_have_attribute("aria-pressed", "true")


def test_columns_are_chosen_and_kept(open_page: Open) -> None:
    page = open_page("runs")
    settled(page, "Runs")
    page.get_by_label("Columns", exact=True).click()
    page.get_by_label("Started by", exact=True).check()
    page.get_by_label("Workflow", exact=True).uncheck()
    heads = page.get_by_role("columnheader")
    expect(heads.filter(has_text="Started by")).to_have_count(1)
    expect(heads.filter(has_text="Workflow")).to_have_count(0)
    page.goto("/runs?q=status:failed")
    settled(page, "Runs")
    expect(heads.filter(has_text="Started by")).to_have_count(1)
    page.get_by_label("Columns", exact=True).click()
    page.get_by_role("button", name="The usual ones").click()
    expect(heads.filter(has_text="Workflow")).to_have_count(1)


def test_rows_of_a_sorted_list_stay_until_they_are_asked_for(open_page: Open, site: Site) -> None:
    page = open_page("runs?q=workflow:approval+sort:created")
    settled(page, "Runs")
    names = page.locator("tbody a.id")
    before = names.all_inner_texts()
    start(site, "sorted-1")

    page.get_by_role("button", name="The list has changed: show it as it is now").click()
    expect(names).to_have_text([*before, "sorted-1"])


def test_a_wrong_field_is_corrected_with_one_button(tabs: Tabs) -> None:
    tabs.watch.allowed = ("400 (Bad Request)",)
    page = tabs.open("runs?q=statsu:failed+workflow:hostile")
    expect(page.locator("p[role=alert]")).to_contain_text("a filter has no field 'statsu'")
    page.get_by_role("button", name="Use status:failed workflow:hostile").click()
    page.wait_for_url("**status%3Afailed**")
    expect(page.locator("tbody tr").first).to_be_visible()
    page.goto("/runs?q=status:faild")
    page.get_by_role("button", name="Use status:failed").click()
    expect(page.locator("tbody tr").first).to_be_visible()


def test_what_was_seen_is_suggested(open_page: Open) -> None:
    page = open_page("runs")
    settled(page, "Runs")
    press(page, "f")
    page.keyboard.type("tag:")
    expect(page.get_by_role("option", name="tag:vip")).to_be_visible()
    press(page, "Escape", "Escape")
    page.get_by_role("combobox").fill("workflow:order_f")
    expect(page.get_by_role("option", name="workflow:order_fulfilment")).to_be_visible()


def test_a_held_signal_is_delivered_to_another_run(tabs: Tabs, site: Site) -> None:
    tabs.watch.allowed = ("409 (Conflict)", "404 (Not Found)")
    ask(site, "post", "/api/runs/nobody-1/signals", {"name": "approve", "payload": {"ok": 1}, "if_missing": "hold"})
    start(site, "taker-1")
    page = tabs.open("events")
    settled(page, "Events")
    row = page.get_by_role("row").filter(has_text="nobody-1")
    row.get_by_role("button").press("Enter")
    page.get_by_role("button", name="Redeliver…").press("Enter")
    dialog = page.get_by_role("dialog", name="Deliver the signal again")
    dialog.get_by_role("button", name="Redeliver").press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("No run got it")
    dialog.get_by_label(re.compile("To run")).fill("taker-1")
    expect(dialog.locator(".cmd code")).to_have_text(re.compile(r"^stepwell signals redeliver \d+ --to=taker-1$"))
    press(page, "Enter")
    expect(page.get_by_text("approve was delivered")).to_be_visible()
    expect(row).to_have_count(0)
    page.get_by_role("link", name="Show", exact=True).press("Enter")
    expect(page.locator(".badge")).to_have_text("Completed")


def test_an_event_is_published_and_listed(tabs: Tabs) -> None:
    tabs.watch.allowed = ("400 (Bad Request)",)
    page = tabs.open("events")
    settled(page, "Events")
    page.get_by_role("button", name="Publish…").first.press("Enter")
    dialog = page.get_by_role("dialog", name="Publish an event")
    dialog.get_by_label("Topic").fill("shipment.packed")
    dialog.get_by_label(re.compile("^Payload")).fill('{"order": ')
    dialog.get_by_role("button", name="Publish").press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("Payload is not JSON")
    dialog.get_by_label(re.compile("^Payload")).fill('{"order": "order-9"}')
    expect(dialog.locator(".cmd code")).to_have_text("stepwell publish shipment.packed order=order-9")
    dialog.get_by_label(re.compile("^Keep for later")).fill("soon")
    dialog.get_by_role("button", name="Publish").press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("SW")
    dialog.get_by_label(re.compile("^Keep for later")).fill("")
    dialog.get_by_role("button", name="Publish").press("Enter")
    expect(page.get_by_text("1 run got it.")).to_be_visible()
    expect(page.get_by_role("region", name="Latest events, as a table").get_by_role("row").nth(1)).to_contain_text(
        "shipment.packed"
    )


def test_a_trigger_is_paused_and_resumed(open_page: Open) -> None:
    page = open_page("triggers")
    settled(page, "Triggers")
    press(page, "j", "Enter")
    expect(page.get_by_text("the event has no").first).to_be_visible()
    page.get_by_role("button", name="Pause…").press("Enter")
    page.get_by_label(re.compile("Reason")).fill("too many parcels")
    page.get_by_role("button", name="Pause", exact=True).press("Enter")
    expect(page.get_by_text("Paused by ann the admin", exact=True)).to_be_visible()
    expect(page.get_by_text("too many parcels")).to_be_visible()
    page.get_by_role("button", name="Resume").press("Enter")
    expect(page.locator("tbody .st")).to_have_text("Active")


def test_an_event_that_its_sink_rejects_is_sent_again_and_dropped(open_page: Open) -> None:
    page = open_page("outbox")
    settled(page, "Outbox")
    dead = page.get_by_role("region", name="Dead letters").first
    count = dead.locator("tbody tr").count()
    dead.locator(".row-open").first.press("Enter")
    expect(dead.get_by_role("link", name="Dead letters")).to_have_attribute("href", "/dead-letters?kind=event")
    dead.get_by_role("button", name="Send again").press("Enter")
    expect(page.get_by_text("To 1 sink, with fresh tries.")).to_be_visible()
    expect(dead.locator("tbody .row-open")).to_have_count(count)  # the sink rejects it again
    pending = page.get_by_role("region", name="Pending").first
    pending.locator(".row-open").last.press("Enter")
    pending.get_by_role("button", name="Drop…").press("Enter")
    page.get_by_role("dialog", name="Drop this event").get_by_role("button", name="Drop").press("Enter")
    expect(page.get_by_text("For 1 sink.")).to_be_visible()
    expect(pending.locator(".row-open")).to_have_count(1)


def test_a_session_that_ends_in_a_dialog_of_a_list_loses_nothing(tabs: Tabs, site: Site) -> None:
    tabs.watch.allowed = ("401 (Unauthorized)",)
    start(site, "kept-1")
    page = tabs.open("runs?q=key:kept-1")
    settled(page, "Runs")
    expect(page.locator("tbody tr")).to_have_count(1)
    press(page, "j", "x")
    page.get_by_role("button", name="Pause 1…").press("Enter")
    dialog = page.get_by_role("dialog", name="Pause many runs")
    dialog.get_by_label(re.compile("Reason")).fill("half a sentence")
    page.context.clear_cookies()
    again = page.get_by_role("dialog", name="Your session has ended")
    again.get_by_label("Token").fill(site.tokens[Role.ADMIN])
    again.get_by_role("button", name="Sign in").click()
    expect(again).to_have_count(0)
    expect(dialog.get_by_label(re.compile("Reason"))).to_have_value("half a sentence")
    expect(page.get_by_role("region", name="Selected runs", include_hidden=True)).to_contain_text("1 selected")
    dialog.get_by_role("button", name=re.compile("^Pause")).press("Enter")
    expect(page.get_by_text("Pause of 1 run is ordered")).to_be_visible()


def test_errors_of_the_api_have_code_cause_and_fix(tabs: Tabs) -> None:
    tabs.watch.allowed = ("400 (Bad Request)", "404 (Not Found)")
    page = tabs.open("runs?q=status:failed")
    settled(page, "Runs")
    page.get_by_role("button", name="Save this view…").click()
    page.get_by_label("Name", exact=True).fill("~wrong")
    page.get_by_role("button", name="Save this view", exact=True).click()
    alert = page.get_by_role("dialog").get_by_role("alert")
    expect(alert).to_contain_text(re.compile(r"SW\d+"))
    expect(alert).to_contain_text("Why")
    expect(page.get_by_label("Name", exact=True)).to_have_value("~wrong")
    page.goto("/bulk/bulk-999")
    expect(page.get_by_role("main").get_by_role("alert")).to_contain_text("Fix")


@pytest.mark.parametrize("path", PAGES)
def test_a_viewer_sees_no_act_and_no_payload_in_lists(open_page: Open, path: str) -> None:
    page = open_page(path, role=Role.VIEWER)
    settled(page, PAGES[path])
    for row in page.locator(".row-open").all()[:2]:
        row.click()
    main = page.locator("main")
    acts = re.compile("^(Cancel|Pause|Resume|Retry|Redeliver|Publish|Send|Drop|Delete|Save this view|Start|Abort)")
    expect(main.get_by_role("button", name=acts)).to_have_count(0)
    expect(main).not_to_contain_text('"customer"')
    if path == "runs":
        expect(page.locator("tbody tr").first).to_be_visible()
        press(page, "j", "x")
        expect(page.get_by_role("region", name="Selected runs").get_by_role("button", name=acts)).to_have_count(0)
    if path == "events":
        expect(main.get_by_text("You may not see this value.").first).to_be_visible()


def test_stored_text_in_lists_is_text(open_page: Open) -> None:
    page = open_page("events")
    for path, texts in {
        "events": [NAME_POISON],
        "outbox": [POISON],
        "runs": [NAME_POISON],
        "": [POISON],
        "bulk/bulk-1": [WIDE[:20]],
    }.items():
        page.goto(f"/{path}")
        expect(page.locator(".skeleton")).to_have_count(0)
        for text in texts:
            expect(page.locator("main").get_by_text(text).first).to_be_attached()
        assert page.locator("main img, main script").count() == 0, path


def test_new_pages_are_in_the_palette_the_keys_and_the_key_sheet(open_page: Open) -> None:
    page = open_page()
    settled(page, "What needs you")
    for key, title in {"v": "Events", "i": "Triggers", "o": "Outbox", "b": "Bulk"}.items():
        press(page, "g", key)
        settled(page, title)
        expect_focus(page, title)
    press(page, "?")
    sheet = page.get_by_role("dialog")
    for title in ("Events", "Triggers", "Outbox", "Bulk", "select"):
        expect(sheet.get_by_text(title, exact=True)).to_be_visible()
    press(page, "Escape", "/")
    page.keyboard.type("outb")
    expect(page.get_by_role("option", name=re.compile("^Outbox"))).to_be_visible()


def overflow(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def test_a_phone_acts_on_many_runs_without_a_sideways_scroll(open_page: Open) -> None:
    page = open_page("runs?q=workflow:approval", viewport={"width": 320, "height": 700})
    settled(page, "Runs")
    page.get_by_role("button", name="Act on all that match…").click()
    expect(page.get_by_role("region", name="Selected runs")).to_be_visible()
    assert overflow(page) == 0
    page.get_by_role("button", name="Pause…").click()
    expect(page.get_by_role("dialog").get_by_text("Such as")).to_be_visible()
    assert overflow(page) == 0
