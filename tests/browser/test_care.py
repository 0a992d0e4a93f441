"""Schedules, alerts, dead letters and retention in a real browser, on the demonstration of `stepwell dev`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from stepwell.http import Role
from tests.browser.conftest import Open, Tabs
from tests.browser.screenshots import all_shots, routes
from tests.browser.site import Site, launch_options, serve_demo
from tests.browser.test_accessibility import CHOSEN, MODES, findings
from tests.browser.test_journeys import expect_focus, press
from tests.browser.test_pages import settled

PATHS = {
    "schedules": "Schedules",
    "schedules?open=nightly": "Schedules",
    "schedules/nightly": "nightly",
    "schedules/shelf%20count": "shelf count",
    "schedules/month%20end?from=2026-01-01T00%3A00&to=2026-06-01T00%3A00": "month end",
    "alerts": "Alerts",
    "alerts?rule=reports+fail+in+a+row": "Alerts",
    "dead-letters": "Dead letters",
    "dead-letters?kind=hook&letter=hook-msg-0118": "Dead letters",
    "dead-letters?view=dropped": "Dead letters",
    "retention": "Retention",
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serve_demo(tmp_path_factory.mktemp("demo")) as served:
        yield served


@pytest.fixture(scope="module")
def demo_browser(demo: Site) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options())
        yield browser
        browser.close()


@pytest.fixture
def tabs(demo_browser: Browser, demo: Site) -> Iterator[Tabs]:
    opened = Tabs(demo_browser, demo)
    yield opened
    opened.close()
    assert opened.watch.findings == []


def choose(page: Page, act: str) -> None:
    """Choose an act of the page with the keyboard."""
    press(page, ".")
    expect(page.get_by_role("combobox", name="Search or go to")).to_be_focused()
    page.keyboard.type(act)
    expect(page.get_by_role("option", name=re.compile(f"^{act}")).first).to_have_attribute("aria-selected", "true")
    press(page, "Enter")


def test_every_page_of_care_opens_and_fits_a_phone(open_page: Open) -> None:
    page = open_page(viewport={"width": 320, "height": 700})
    for path, title in PATHS.items():
        page.goto(f"/{path}")
        settled(page, title)
        expect(page.locator("main [role=alert]")).to_have_count(0)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide == 0, path


@pytest.mark.parametrize("mode", dict.fromkeys((*CHOSEN, "narrow")))
def test_axe_finds_nothing_on_pages_of_care(open_page: Open, mode: str) -> None:
    page = open_page(**MODES[mode])
    found: list[str] = []
    for path, title in PATHS.items():
        page.goto(f"/{path}")
        settled(page, title)
        found += findings(page)
    page.goto("/schedules")
    page.get_by_role("button", name="New schedule…").click()
    expect(page.get_by_role("dialog").get_by_text("At 06:00 on Monday through Friday")).to_be_visible()
    found += findings(page)

    assert not found, "\n".join(found)


def test_every_page_has_a_picture() -> None:
    assert {"", "runs/:run", "schedules/:schedule"} <= set(routes())
    assert len(all_shots()) >= len(routes())


def test_a_schedule_is_made_with_the_keyboard_after_its_next_ticks_were_seen(open_page: Open) -> None:
    page = open_page()
    settled(page, "What needs you")
    press(page, "g", "s")
    settled(page, "Schedules")
    choose(page, "New schedule")
    dialog = page.get_by_role("dialog", name="New schedule")
    expect(dialog.get_by_text("At 06:00 on Monday through Friday")).to_be_visible()

    dialog.get_by_label("Name").focus()
    page.keyboard.type("every-night")
    dialog.get_by_label("Workflow").select_option("retried_steps")
    dialog.get_by_label("Cron").focus()
    press(page, "Control+A")
    page.keyboard.type("0 0 30 2 *")
    expect(dialog.get_by_role("alert")).to_contain_text("is never due")
    press(page, "Control+A")
    page.keyboard.type("30 2 * * *")
    press(page, "Tab", "Control+A")
    page.keyboard.type("Europe/Berlin")
    expect(dialog.get_by_role("heading", name="At 02:30 every day, Europe/Berlin")).to_be_visible()
    expect(dialog.locator(".plan li")).to_have_count(6)
    dialog.get_by_label("Input").fill("2")
    expect(dialog.locator(".cmd code")).to_have_text(
        "echo 2 | stepwell schedule new --cron '30 2 * * *' --tz Europe/Berlin every-night retried_steps -"
    )
    dialog.get_by_role("button", name="Create the schedule").focus()
    press(page, "Enter")
    expect(dialog).to_have_count(0)
    expect(page.get_by_text("Schedule every-night was made")).to_be_visible()

    page.get_by_role("button", name="every-night").focus()
    press(page, "Enter")
    expect(page.locator(".next5 li")).to_have_count(5)
    page.goto("/schedules/every-night")
    settled(page, "every-night")
    expect(page.locator(".ticks").get_by_text("will start", exact=True).first).to_be_visible()
    choose(page, "Pause")
    page.get_by_label(re.compile("Reason")).fill("not in December")
    page.get_by_role("button", name="Pause", exact=True).focus()
    press(page, "Enter")
    expect(page.locator(".badge")).to_have_text("Paused by ann the admin")
    expect(page.get_by_text("not in December").first).to_be_visible()


def test_a_backfill_is_counted_before_it_starts(open_page: Open) -> None:
    page = open_page("schedules/partner%20orders")
    settled(page, "partner orders")
    page.get_by_role("button", name="Backfill…").click()
    dialog = page.get_by_role("dialog", name="Start the runs of past ticks")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("heading", name=re.compile("^Would start 0 runs; 4 ticks have one"))).to_be_visible()
    expect(dialog.locator(".cmd code")).to_contain_text("stepwell schedule backfill --from 20")


def test_what_differs_from_the_code_is_said_and_given_up(open_page: Open) -> None:
    page = open_page("schedules/nightly")
    settled(page, "nightly")
    expect(page.get_by_text(re.compile("ann changed the input from .*100.* to .*vat"))).to_be_visible()
    page.get_by_role("button", name="Use the code's").click()
    expect(page.get_by_text("Schedule nightly is as in the code")).to_be_visible()
    expect(page.get_by_text("Differs from the code")).to_have_count(0)


def test_an_alert_is_acknowledged_with_the_keyboard(open_page: Open) -> None:
    page = open_page()
    settled(page, "What needs you")
    press(page, "g", "l")
    settled(page, "Alerts")
    box = page.get_by_role("region", name="orders fail")
    expect(box.get_by_role("heading")).to_have_text(
        re.compile(r"order_fulfilment failed \d+ times in the last 3 d; the rule says 3\.")
    )
    choose(page, "Acknowledge")
    dialog = page.get_by_role("dialog", name="Acknowledge the alert")
    dialog.get_by_label(re.compile("What you know")).focus()
    page.keyboard.type("the bank is down")
    expect(dialog.locator(".cmd code")).to_have_text("stepwell alert ack --note 'the bank is down' 'orders fail'")
    dialog.get_by_role("button", name="Acknowledge", exact=True).focus()
    press(page, "Enter")

    expect(box).to_have_count(0)
    row = page.get_by_role("row", name=re.compile("orders fail"))
    expect(row).to_contain_text("Firing, known")
    row.get_by_role("button", name="orders fail").focus()
    press(page, "Enter")
    expect(page.get_by_text("the bank is down (known to ann the admin)")).to_be_visible()


def test_a_test_of_a_rule_says_who_did_not_take_it(open_page: Open) -> None:
    page = open_page("alerts?rule=nothing+moves")
    settled(page, "Alerts")
    page.locator(".detail").get_by_role("button", name="Test").click()
    expect(page.get_by_text("1 notifier has not taken it.")).to_be_visible(timeout=20_000)
    expect(page.locator(".detail")).to_contain_text("chat <i>hook: Fatal: HTTP 410 Gone")


def test_a_letter_is_edited_and_retried_with_the_keyboard(open_page: Open) -> None:
    page = open_page()
    settled(page, "What needs you")
    press(page, "g", "x")
    settled(page, "Dead letters")
    kinds = page.get_by_role("navigation", name="Dead letters")
    kinds.get_by_role("link", name="Signal", exact=True).focus()
    press(page, "Enter")
    expect(kinds.locator("li")).to_have_count(1)
    press(page, "j")
    press(page, "Enter")
    expect(page.get_by_role("heading", name="Signal documents for onb-0118")).to_be_visible()
    choose(page, "Edit and retry")
    dialog = page.get_by_role("dialog", name="Edit and retry")
    payload = dialog.get_by_label(re.compile("Payload"))
    expect(payload).to_have_value(re.compile("script"))
    payload.focus()
    press(page, "Control+A")
    page.keyboard.type('{"files": ["a.pdf"]}')
    dialog.get_by_role("button", name="Edit and retry").focus()
    press(page, "Enter")

    expect(page.get_by_text("is handled again with the new payload")).to_be_visible()
    expect(page.get_by_role("heading", name="This letter was handled")).to_be_visible()
    page.goto("/runs/onb-0118?tab=io")
    expect(page.locator(".badge")).to_have_text("Completed", timeout=20_000)
    page.goto("/dead-letters?view=retried")
    expect(page.locator(".handled li").first).to_contain_text("Retried by ann the admin")


def test_a_letter_shows_its_bytes_and_letters_of_every_kind_are_there(open_page: Open) -> None:
    page = open_page("dead-letters?letter=hook-msg-0118")
    settled(page, "Dead letters")
    page.get_by_role("button", name="Bytes").click()
    expect(page.locator(".bytes")).to_contain_text("000000  7b 22 73 75 70 70 6c 69 65 72")
    listed = page.get_by_role("navigation", name="Dead letters").locator("ul")
    for kind in ("Event", "Kills workers", "Damaged history", "No worker knows it", "Webhook"):
        expect(listed.get_by_text(re.compile(f"^{kind} ·")).first).to_be_visible()


def test_many_letters_are_listed_before_they_are_dropped(open_page: Open) -> None:
    page = open_page("dead-letters?kind=event")
    settled(page, "Dead letters")
    page.get_by_role("button", name="Drop all…").click()
    dialog = page.get_by_role("dialog", name="Drop letters permanently")
    expect(dialog.get_by_role("heading", name=re.compile(r"^\d+ letters$"))).to_be_visible()
    dialog.get_by_role("button", name="Drop all").click()
    expect(dialog).to_be_visible()  # without a reason, nothing is sent
    dialog.get_by_label(re.compile("Reason")).fill("the hook was removed")
    expect(dialog.locator(".cmd code")).to_have_text(
        "stepwell dlq drop --all --kind event --reason 'the hook was removed'"
    )
    dialog.get_by_role("button", name="Drop all").click()
    expect(page.get_by_text(re.compile(r"\d+ letters were dropped"))).to_be_visible()
    expect(page.get_by_text("No letter of this kind.")).to_be_visible()


def test_a_viewer_looks_and_acts_on_nothing(open_page: Open, demo: Site) -> None:
    page = open_page(role=Role.VIEWER)
    for path, title in PATHS.items():
        page.goto(f"/{path}")
        settled(page, title)
        for name in (
            "New",
            "Run now",
            "Edit",
            "Retry",
            "Drop",
            "Acknowledge",
            "Mute",
            "Test",
            "Erase",
            "Use the code",
            "Bytes",
        ):
            expect(page.locator("main").get_by_role("button", name=re.compile(f"^{name}"))).to_have_count(0)
    page.goto("/dead-letters?letter=hook-msg-0118")
    expect(page.get_by_text("You may not see this value.")).to_be_visible()
    page.goto("/retention")
    expect(page.get_by_text("(hidden)")).to_be_visible()
    cookie = page.context.cookies()[0]
    headers = {"x-stepwell-page": "1", "origin": demo.url, "cookie": f"{cookie['name']}={cookie['value']}"}
    for method, path in (
        ("POST", "schedules/nightly/trigger"),
        ("PATCH", "schedules/nightly"),
        ("POST", "alerts/orders%20fail/acknowledge"),
        ("POST", "dead-letters/hook-msg-0118/drop"),
        ("POST", "retention/erase"),
    ):
        answer = httpx.request(method, f"{demo.url}/api/{path}", headers=headers, json={})
        assert (answer.status_code, answer.json()["code"]) == (403, "SW801"), path


def test_retention_says_what_would_go_and_an_erasure_is_counted_first(open_page: Open) -> None:
    page = open_page("retention")
    settled(page, "Retention")
    rows = page.get_by_role("region", name="How long ended runs are kept").get_by_role("row")
    expect(rows.filter(has_text="order_fulfilment")).to_contain_text("400 d")
    page.get_by_label("If every ended run were kept for").select_option("1d")
    expect(page.get_by_text(re.compile(r"\d+ runs in \d+ trees would be deleted\."))).to_be_visible()
    expect(page.get_by_text("stepwell prune --older 1d --dry-run")).to_be_visible()
    expect(page.get_by_text("/backups/shop-monday.db")).to_be_visible()
    page.get_by_role("button", name="Erase runs…").click()
    dialog = page.get_by_role("dialog", name="Erase runs permanently")
    dialog.get_by_label("Which runs").fill("key:order-46*")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("heading", name=re.compile(r"^\d+ runs would be erased; \d+ match"))).to_be_visible()
    press(page, "Escape")
    expect_focus(page, "Erase runs…")
